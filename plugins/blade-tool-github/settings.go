package main

import (
	"net/netip"
	"net/url"
	"strings"

	"github.com/bladehost/bladehost/pdk"
)

const tokenName = "GITHUB_TOKEN"

// settings are the user's. Where the token goes is never a parameter of a tool.
type settings struct {
	BaseURL string `json:"baseUrl" jsonschema:"The address of GitHub's REST API: https://api.github.com, https://api.NAME.ghe.com, or https://HOST/api/v3 of a GitHub Enterprise Server. http is for a server on this machine only." default:"https://api.github.com" maxLength:"1000"`
}

// parseBase checks the address of the API and takes the slashes at its end away.
func parseBase(raw string) (string, error) {
	bad := func(why string) (string, error) {
		return "", pdk.Errorf("bad_base_url", "the setting baseUrl is wrong: %s; the user sets it with: bladehost config set blade-tool-github baseUrl=https://api.github.com", why)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return bad("it is no address such as https://api.github.com")
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return bad("it starts neither with https:// nor with http://")
	case u.Scheme == "http" && !loopback(host):
		return bad("http is for a server on this machine only; the token would be readable on its way")
	case u.User != nil:
		return bad("it holds a name or a password; the token is the secret " + tokenName)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return bad("it has a ? or a #")
	case host == "github.com" || host == "www.github.com":
		return bad("the API of github.com is at https://api.github.com")
	case strings.HasSuffix(host, ".ghe.com") && !strings.HasPrefix(host, "api."):
		return bad("the API of NAME.ghe.com is at https://api.NAME.ghe.com")
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == "." || part == ".." {
			return bad("its path has . or ..")
		}
	}
	return strings.TrimRight(u.Scheme+"://"+strings.ToLower(u.Host)+u.EscapedPath(), "/"), nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// originOf is scheme, host and port of an address, or "" where it is none.
func originOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil {
		return ""
	}
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	default:
		return ""
	}
	return u.Scheme + "://" + host
}
