package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/store"
)

// completion is what a shell asks for the words that may come next.
type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completePlugins offers installed plugins, beside files and folders, for the
// first n arguments.
func (a *app) completePlugins(n int) completion {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.pluginWords(typed), cobra.ShellCompDirectiveDefault
	}
}

// completeInstalled offers installed plugins and nothing else.
func (a *app) completeInstalled(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.pluginWords(typed), cobra.ShellCompDirectiveNoFileComp
}

// completeRun offers plugins and tools, then the tools of the plugin. Nothing is
// built or run for it: a folder's tools are not known.
func (a *app) completeRun(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		words := a.pluginWords(typed)
		for _, e := range a.installedEntries() {
			words = append(words, toolWords(e)...)
		}
		return words, cobra.ShellCompDirectiveDefault
	case len(args) == 1 && isPluginRef(args[0]) && !isFolder(args[0]):
		b, err := a.moduleOf(c.Context(), nil, args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return manifestWords(b), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault // INPUT may be @FILE
}

func (a *app) installedEntries() []*store.Entry {
	s, err := a.store()
	if err != nil {
		return nil
	}
	list, err := s.List()
	if err != nil {
		return nil
	}
	return list
}

func (a *app) pluginWords(typed string) []string {
	var out []string
	for _, e := range a.installedEntries() {
		if strings.HasPrefix(e.Name, typed) {
			out = append(out, e.Name+"\t"+e.Version)
		}
	}
	return out
}

func toolWords(e *store.Entry) []string {
	var list []abi.ToolSpec
	if json.Unmarshal(e.Definitions, &list) != nil {
		return nil
	}
	return specWords(list)
}

func manifestWords(module []byte) []string {
	i, err := host.Inspect(module)
	if err != nil || i.Manifest == nil {
		return nil
	}
	return specWords(i.Manifest.Tools)
}

// specWords are names with what a shell shows beside them. The text is a
// stranger's, so it is one line without control characters.
func specWords(list []abi.ToolSpec) []string {
	var out []string
	for i := range list {
		out = append(out, list[i].Name+"\t"+oneLine(list[i].Description.Short))
	}
	return out
}

// fixedWords offers words that are always the same.
func fixedWords(words ...string) completion {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// foldersOnly offers folders.
func foldersOnly(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// complete says what the arguments and flags of a command may be, as far as it
// does not say so itself.
func (a *app) complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.complete(sub)
	}
	if c.ValidArgsFunction == nil && c.Runnable() && !c.HasSubCommands() {
		c.ValidArgsFunction = fixedWords()
		if words := strings.Fields(c.Use); len(words) > 1 && strings.Trim(words[1], "[]") == "PLUGIN" {
			c.ValidArgsFunction = a.completeInstalled
		}
	}
	for name, f := range map[string]completion{
		"mode": fixedWords("default", "autoEdit", "yolo", "plan"), "root": foldersOnly, "cwd": foldersOnly,
		"allow-read": foldersOnly, "allow-write": foldersOnly, "deny-read": foldersOnly, "deny-write": foldersOnly,
		"services": fixedWords(abi.SessionServices()...),
	} {
		if c.Flags().Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, f) // it fails only for a flag that is not there
		}
	}
}
