package main

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/web"
	"github.com/bladehost/bladehost/host"
)

// webName is how config names the settings of the built-in web tools. No plugin can
// have this name.
const webName = "web"

// webSchema is the schema of these settings.
const webSchema = `{"type":"object","properties":{` +
	`"allowedHosts":{"type":"array","items":{"type":"string"}},` +
	`"blockedHosts":{"type":"array","items":{"type":"string"}},` +
	`"allowPrivateNetwork":{"type":"boolean"},` +
	`"proxy":{"type":"string"},` +
	`"searchProviders":{"type":"array","items":{"enum":["searxng","brave","tavily"]},"uniqueItems":true},` +
	`"searxngUrl":{"type":"string"}},"additionalProperties":false}`

// Names of the secrets that hold the keys of search engines.
const (
	braveKey  = "BRAVE_API_KEY"
	tavilyKey = "TAVILY_API_KEY"
)

// webSettings are the settings of the web tools, as their user made them.
type webSettings struct {
	AllowedHosts        []string `json:"allowedHosts"`
	BlockedHosts        []string `json:"blockedHosts"`
	AllowPrivateNetwork bool     `json:"allowPrivateNetwork"`
	Proxy               string   `json:"proxy"`
	SearchProviders     []string `json:"searchProviders"`
	SearxngURL          string   `json:"searxngUrl"`
}

// configurable is what has settings under a name: an installed plugin, or the web
// tools.
func (a *app) configurable(name string) (*abi.Manifest, error) {
	if name == webName {
		return &abi.Manifest{Name: webName, Config: json.RawMessage(webSchema)}, nil
	}
	return a.installedManifest(name)
}

// checkSettings is nil for settings that can be used.
func checkSettings(m *abi.Manifest, raw json.RawMessage) error {
	if err := host.CheckSettings(m, raw); err != nil || m.Name != webName {
		return err
	}
	var s webSettings
	if err := json.Unmarshal(raw, &s); err != nil {
		return abi.NewError(abi.CodeUsage, "%v", err)
	}
	o, err := s.options(nil)
	if err == nil {
		err = o.Check()
	}
	if err != nil {
		return usage("the settings of the web tools: %v", err)
	}
	return nil
}

// options are the settings as the tools take them.
func (s webSettings) options(key func(name string) web.Key) (web.Options, error) {
	o := web.Options{AllowedHosts: s.AllowedHosts, BlockedHosts: s.BlockedHosts, AllowPrivateNetwork: s.AllowPrivateNetwork}
	if s.Proxy != "" {
		u, err := url.Parse(s.Proxy)
		if err != nil {
			return o, abi.NewError(abi.CodeOptions, "proxy is no address")
		}
		o.Proxy = u
	}
	names := s.SearchProviders
	if names == nil && s.SearxngURL != "" {
		names = []string{"searxng"}
	}
	if key == nil {
		key = func(string) web.Key { return nil }
	}
	for _, n := range names {
		var p web.Provider
		var err error
		switch n {
		case "searxng":
			if s.SearxngURL == "" {
				return o, abi.NewError(abi.CodeOptions, "searxng needs its address; set searxngUrl in the same command")
			}
			p, err = web.SearXNG(web.Engine{URL: s.SearxngURL, Proxy: o.Proxy})
		case "brave":
			p, err = web.Brave(web.Engine{Key: key(braveKey), Proxy: o.Proxy})
		case "tavily":
			p, err = web.Tavily(web.Engine{Key: key(tavilyKey), Proxy: o.Proxy})
		}
		if err != nil {
			return o, err
		}
		o.Search = append(o.Search, p)
	}
	return o, nil
}

// webOptions are the settings of this user. They are read from the user's own
// configuration only, never from a project.
func (a *app) webOptions(p places) (web.Options, error) {
	raw, err := a.settingsOf(p, webName)
	if err != nil || raw == nil {
		return web.Options{}, err
	}
	path := settingsPath(p)
	if err := checkSettings(&abi.Manifest{Name: webName, Config: json.RawMessage(webSchema)}, raw); err != nil {
		return web.Options{}, abi.NewError(abi.CodeIO, "%s: %v; mend it with: bladehost config set web …", path, err).Because(err)
	}
	var s webSettings
	if err := json.Unmarshal(raw, &s); err != nil {
		return web.Options{}, abi.NewError(abi.CodeIO, "%s: %v", path, err)
	}
	return s.options(func(name string) web.Key {
		return func(ctx context.Context) (string, error) { return a.searchKey(ctx, p, name) }
	})
}

// searchKey looks for a key where secrets are, each time it is needed.
func (a *app) searchKey(ctx context.Context, p places, name string) (string, error) {
	sources, err := a.secretSources(p)
	if err != nil {
		return "", err
	}
	for _, s := range sources {
		v, ok, err := s.Get(ctx, name)
		if err != nil {
			return "", err
		}
		if ok && v != "" {
			return v, nil
		}
	}
	return "", abi.NewError(abi.CodeSecretMissing, "there is no secret %s; keep it with: bladehost secret set %s", name, name)
}
