package main

import (
	"context"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/store"
	"github.com/bladehost/bladehost/host/tool"
)

func (a *app) store() (*store.Store, error) {
	p, err := a.places()
	if err != nil {
		return nil, err
	}
	return store.Open(p.data), nil
}

func (a *app) installedModule(name string) ([]byte, error) {
	s, err := a.store()
	if err != nil {
		return nil, err
	}
	e, err := s.Get(name)
	if abi.CodeOf(err) == abi.CodeNotInstalled {
		return nil, a.notInstalled(name)
	}
	if err != nil {
		return nil, err
	}
	return s.Module(e)
}

// loadPlugin loads what the user named or installed: trust workspace.
func (a *app) loadPlugin(ctx context.Context, h *host.Host, ref string) (*host.Plugin, error) {
	b, err := a.moduleOf(ctx, h, ref)
	if err != nil {
		return nil, err
	}
	p, err := h.LoadPlugin(b, host.PluginOptions{Trust: tool.TrustWorkspace, Origin: ref})
	if err != nil {
		return nil, about(ref, err)
	}
	return p, nil
}

// installedWith is the installed plugin that has the tool or alias, or "". A name
// that is nobody's gets suggestions from all of them; one that is built in is
// not looked for.
func (a *app) installedWith(name string) (string, error) {
	var known []string
	for _, t := range builtins() {
		if t.Spec().Name == name || contains(t.Spec().Aliases, name) {
			return "", nil
		}
		known = append(known, t.Spec().Name)
	}
	s, err := a.store()
	if err != nil {
		return "", err
	}
	list, err := s.List()
	if err != nil {
		return "", err
	}
	var owners []string
	for _, e := range list {
		for _, n := range e.ToolNames() {
			if n == name {
				owners = append(owners, e.Name)
			}
			known = append(known, n)
		}
	}
	switch len(owners) {
	case 1:
		return owners[0], nil
	case 0:
		for _, e := range list { // an entry that was changed may hide a tool
			if _, err := s.Module(e); err != nil {
				return "", err
			}
		}
		return "", notFound(name, "", known)
	}
	return "", abi.NewError(abi.CodeNameTaken, "several installed plugins have a tool %s: %s; name the plugin: bladehost run %s %s", name, strings.Join(owners, ", "), owners[0], name)
}

// notInstalled is the store's error with what was perhaps meant.
func (a *app) notInstalled(name string) error {
	var names []string
	for _, e := range a.installedEntries() {
		names = append(names, e.Name)
	}
	switch near := didYouMean(name, names); {
	case near != "":
		return abi.NewError(abi.CodeNotInstalled, "%s is not installed%s", name, near)
	case len(names) == 0:
		return abi.NewError(abi.CodeNotInstalled, "%s is not installed; no plugin is. Install one with: bladehost install FILE.wasm", name)
	}
	return abi.NewError(abi.CodeNotInstalled, "%s is not installed; installed are %s", name, strings.Join(names, ", "))
}

// notFound is the error for a tool that neither the plugin ref nor, where that
// is empty, anybody has.
func notFound(name, ref string, known []string) *abi.Error {
	if name == "WebSearch" && ref == "" {
		return abi.NewError(abi.CodeToolNotFound, "WebSearch needs a search engine; configure one: bladehost config set web searxngUrl=https://…, or see bladehost config --help")
	}
	if near := didYouMean(name, known); near != "" {
		return abi.NewError(abi.CodeToolNotFound, "there is no tool %q%s", name, near)
	}
	if ref != "" {
		return abi.NewError(abi.CodeToolNotFound, "%s has no tool %q; its tools are %s", ref, clip(name), strings.Join(known, ", "))
	}
	return abi.NewError(abi.CodeToolNotFound, "there is no tool %q; bladehost tools lists those there are", clip(name))
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
