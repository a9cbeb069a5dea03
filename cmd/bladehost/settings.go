package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
)

func settingsPath(p places) string { return filepath.Join(p.config, "settings.json") }

// readSettings returns the settings by plugin; a missing file has none.
func readSettings(path string) (map[string]json.RawMessage, error) {
	b, err := policy.OwnFile{Path: path}.Read()
	if err != nil {
		return nil, err
	}
	return parseSettings(path, b)
}

func parseSettings(path string, b []byte) (map[string]json.RawMessage, error) {
	if b == nil {
		return map[string]json.RawMessage{}, nil
	}
	all, err := host.StrictObject(b)
	if err != nil {
		return nil, abi.NewError(abi.CodeIO, "%s is damaged: %v; mend it, or remove it to go back to the defaults", path, err)
	}
	return all, nil
}

func configCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "See and change the settings of installed plugins and of the web tools",
		Long: `See and change settings. PLUGIN is an installed plugin, or web for the built-in
tools WebFetch and WebSearch:

  allowedHosts         the only hosts WebFetch may reach, a JSON list
  blockedHosts         hosts it never reaches, a JSON list
  allowPrivateNetwork  true lets it reach private addresses and this machine
  proxy                an HTTP proxy, as http://host:port
  searxngUrl           the address of a SearXNG instance, for WebSearch
  searchProviders      which engines to ask, in this order: searxng, brave, tavily

The keys of Brave and Tavily are the secrets BRAVE_API_KEY and TAVILY_API_KEY
(bladehost secret set NAME). Without a search engine there is no WebSearch.`,
		Example: `  bladehost config set blade-tool-jira url=https://jira.example.com
  bladehost config set web 'searchProviders=["brave"]' && bladehost secret set BRAVE_API_KEY`,
		Args: exactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		&cobra.Command{
			Use:   "set PLUGIN KEY=VALUE…",
			Short: "Change settings; VALUE is JSON, or a text",
			Args:  rangeArgs(2, -1),
			RunE:  func(c *cobra.Command, args []string) error { return a.configSet(c.Context(), args[0], args[1:]) },
		},
		&cobra.Command{
			Use:   "get PLUGIN",
			Short: "Show the settings of a plugin and their schema",
			Args:  exactArgs(1),
			RunE:  func(c *cobra.Command, args []string) error { return a.configGet(args[0]) },
		},
		&cobra.Command{
			Use:   "unset PLUGIN KEY…",
			Short: "Go back to the defaults",
			Args:  rangeArgs(2, -1),
			RunE: func(c *cobra.Command, args []string) error {
				return a.changeSettings(c.Context(), args[0], func(m map[string]json.RawMessage) error {
					for _, k := range args[1:] {
						if _, ok := m[k]; !ok {
							return usage("%s has no setting %q that was made; see: bladehost config get %s", args[0], clip(k), args[0])
						}
						delete(m, k)
					}
					return nil
				})
			},
		})
	return c
}

func (a *app) configSet(ctx context.Context, name string, pairs []string) error {
	return a.changeSettings(ctx, name, func(m map[string]json.RawMessage) error {
		for _, p := range pairs {
			k, v, ok := strings.Cut(p, "=")
			if !ok || k == "" {
				return usage("%q is not KEY=VALUE", p)
			}
			m[k] = abi.String(v)
			if json.Valid([]byte(v)) {
				if one, err := host.StrictObject([]byte(`{"v":` + v + `}`)); err == nil {
					m[k] = one["v"]
				}
			}
		}
		return nil
	})
}

// changeSettings changes the settings of an installed plugin, if the result fits
// its schema.
func (a *app) changeSettings(ctx context.Context, name string, change func(map[string]json.RawMessage) error) error {
	m, err := a.configurable(name)
	if err != nil {
		return err
	}
	p, err := a.places()
	if err != nil {
		return err
	}
	path := settingsPath(p)
	return policy.OwnFile{Path: path}.Change(ctx, func(old []byte) ([]byte, error) {
		all, err := parseSettings(path, old)
		if err != nil {
			return nil, err
		}
		own := map[string]json.RawMessage{}
		if raw, ok := all[name]; ok {
			if own, err = host.StrictObject(raw); err != nil {
				return nil, abi.NewError(abi.CodeIO, "%s is damaged: %v", path, err)
			}
		}
		if err := change(own); err != nil {
			return nil, err
		}
		raw, err := abi.Marshal(own)
		if err != nil {
			return nil, err
		}
		if err := checkSettings(m, raw); len(own) > 0 && err != nil {
			return nil, err
		}
		all[name] = raw
		if len(own) == 0 {
			delete(all, name)
		}
		b, err := json.MarshalIndent(all, "", "  ")
		return append(b, '\n'), err
	})
}

func (a *app) configGet(name string) error {
	m, err := a.configurable(name)
	if err != nil {
		return err
	}
	p, err := a.places()
	if err != nil {
		return err
	}
	set, err := a.settingsOf(p, name)
	if err != nil {
		return err
	}
	if a.json {
		writeJSON(a.out, map[string]any{"plugin": name, "settings": set, "schema": m.Config})
		return nil
	}
	if m.Config == nil {
		a.note("%s has no settings", name)
		return nil
	}
	values, err := host.StrictObject(orEmpty(set))
	if err != nil {
		return abi.NewError(abi.CodeIO, "the settings of %s are damaged: %v", name, err)
	}
	keys := make([]string, 0, len(values))
	for k := range values {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		var one bytes.Buffer
		if err := json.Compact(&one, values[k]); err != nil {
			return abi.NewError(abi.CodeIO, "the settings of %s are damaged: %v", name, err)
		}
		if err := a.line(k + "=" + one.String()); err != nil {
			return err
		}
	}
	a.note("what can be set: %s", m.Config)
	return nil
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("{}")
	}
	return raw
}

// installedManifest is the manifest of an installed plugin.
func (a *app) installedManifest(name string) (*abi.Manifest, error) {
	b, err := a.installedModule(name)
	if err != nil {
		return nil, err
	}
	i, err := host.Inspect(b)
	if err != nil {
		return nil, err
	}
	return i.Manifest, nil
}
