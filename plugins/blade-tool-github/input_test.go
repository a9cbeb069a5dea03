package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
	"github.com/bladehost/bladehost/pdk/pdktest"
)

// What a model gives cannot lead a request to another place.
func TestRefuses(t *testing.T) {
	g := newGitHub(t)
	h := lend(t, g, theToken)
	repo := func(owner, name string) object { return object{"owner": owner, "repo": name} }
	long := strings.Repeat("a", 300)
	for _, c := range []struct {
		tool string
		in   object
		code string
	}{
		{"GitHubListIssues", repo("", "x"), "bad_owner"},
		{"GitHubListIssues", repo("..", "x"), "bad_owner"},
		{"GitHubListIssues", repo("a/b", "x"), "bad_owner"},
		{"GitHubListIssues", repo("-a", "x"), "bad_owner"},
		{"GitHubListIssues", repo("a?b", "x"), "bad_owner"},
		{"GitHubListIssues", repo("a%2f", "x"), "bad_owner"},
		{"GitHubListIssues", repo("ä", "x"), "bad_owner"},
		{"GitHubListIssues", repo(long, "x"), "bad_owner"},
		{"GitHubListIssues", repo("a", "."), "bad_repo"},
		{"GitHubListIssues", repo("a", ".."), "bad_repo"},
		{"GitHubListIssues", repo("a", "b/../../c"), "bad_repo"},
		{"GitHubListIssues", repo("a", "a/b"), "bad_repo"},
		{"GitHubListIssues", repo("a", "b#c"), "bad_repo"},
		{"GitHubListIssues", repo("a", ""), "bad_repo"},
		{"GitHubListPullRequests", repo("a", "b c"), "bad_repo"},
		{"GitHubGetFile", repo("a", "b\\c"), "bad_repo"},
		{"GitHubGetIssue", object{"owner": "a", "repo": "b\n", "number": 1}, "bad_repo"},
		{"GitHubComment", object{"owner": "a", "repo": "b@c", "number": 1, "body": "x"}, "bad_repo"},
		{"GitHubGetIssue", of(object{"number": 0}), "bad_number"},
		{"GitHubGetIssue", of(object{"number": -1}), "bad_number"},
		{"GitHubGetPullRequest", of(object{"number": 1 << 31}), "bad_number"},
		{"GitHubGetIssue", of(object{"number": "1/comments"}), "bad_input"},
		{"GitHubGetIssue", of(object{"number": 1, "etag": `x`}), "bad_etag"},
		{"GitHubGetIssue", of(object{"number": 1, "etag": `"{{secret:GITHUB_TOKEN}}"`}), "bad_etag"},
		{"GitHubGetPullRequest", of(object{"number": 1, "etag": "\"a\"\r\nX: y\""}), "bad_etag"},
		{"GitHubGetFile", of(object{"etag": `""`}), "bad_etag"},
		{"GitHubGetFile", of(object{"path": "../x"}), "bad_path"},
		{"GitHubGetFile", of(object{"path": "a/../../../user"}), "bad_path"},
		{"GitHubGetFile", of(object{"path": "a//b"}), "bad_path"},
		{"GitHubGetFile", of(object{"path": "./a"}), "bad_path"},
		{"GitHubGetFile", of(object{"path": "a\x00b"}), "bad_path"},
		{"GitHubGetFile", of(object{"path": strings.Repeat("é/", 1000) + "x"}), "bad_path"},
		{"GitHubGetFile", of(object{"ref": "a..b"}), "bad_ref"},
		{"GitHubGetFile", of(object{"ref": "a b"}), "bad_ref"},
		{"GitHubGetFile", of(object{"ref": "-x"}), "bad_ref"},
		{"GitHubGetFile", of(object{"ref": "a@{1}"}), "bad_ref"},
		{"GitHubGetFile", of(object{"ref": long}), "bad_ref"},
		{"GitHubGetFile", of(object{"offset": -1}), "bad_limit"},
		{"GitHubGetFile", of(object{"maxBytes": 3}), "bad_limit"},
		{"GitHubGetFile", of(object{"maxBytes": 2_000_000}), "bad_limit"},
		{"GitHubGetFile", of(object{"encoding": "hex"}), "bad_encoding"},
		{"GitHubListIssues", of(object{"limit": 0}), "bad_limit"},
		{"GitHubListIssues", of(object{"limit": 1001}), "bad_limit"},
		{"GitHubListPullRequests", of(object{"limit": -3}), "bad_limit"},
		{"GitHubGetIssue", of(object{"number": 1, "comments": 1001}), "bad_limit"},
		{"GitHubGetPullRequest", of(object{"number": 1, "files": -1}), "bad_limit"},
		{"GitHubGetIssue", of(object{"number": 1, "maxText": 300_000}), "bad_limit"},
		{"GitHubListIssues", of(object{"state": "merged"}), "bad_filter"},
		{"GitHubListIssues", of(object{"labels": []string{"a,b"}}), "bad_filter"},
		{"GitHubListIssues", of(object{"labels": []string{""}}), "bad_filter"},
		{"GitHubListIssues", of(object{"creator": long}), "bad_filter"},
		{"GitHubListIssues", of(object{"assignee": "a\nb"}), "bad_filter"},
		{"GitHubListIssues", of(object{"since": "yesterday"}), "bad_filter"},
		{"GitHubListPullRequests", of(object{"sort": "comments"}), "bad_filter"},
		{"GitHubListPullRequests", of(object{"base": "a..b"}), "bad_ref"},
	} {
		o := h.Run(c.tool, c.in)
		if o.Err() == nil || string(o.Err().Code) != c.code || o.Err().Type != abi.TypeValidation || len(o.Err().Message) > 1000 {
			t.Errorf("%s %v: %+v", c.tool, c.in, o.Err())
		}
	}
	if got := g.requests(); got != nil {
		t.Errorf("requests were sent: %v", got)
	}
}

func TestFilePath(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "/": "", ".": "", "a": "/a", "/a/": "/a", "a/b.c": "/a/b.c", "...": "/...", "..a": "/..a", ".github/x": "/.github/x", "%2e%2e": "/%252e%252e",
		"a b": "/a%20b", "ü": "/%C3%BC", "a?b#c": "/a%3Fb%23c", `a\b`: "/a%5Cb", "a;b": "/a%3Bb", "@v": "/@v",
	} {
		if got, err := filePath(in); err != nil || got != want {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
}

func TestBaseURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://api.github.com": "https://api.github.com", "https://api.github.com/": "https://api.github.com", "https://API.GitHub.com": "https://api.github.com",
		"https://ghe.example.com/api/v3//": "https://ghe.example.com/api/v3", "https://ghe.example.com:8443/api/v3": "https://ghe.example.com:8443/api/v3",
		"https://api.octo.ghe.com": "https://api.octo.ghe.com", "http://127.0.0.1:8080": "http://127.0.0.1:8080", "http://127.1.2.3": "http://127.1.2.3",
		"http://localhost:1/api": "http://localhost:1/api", "http://[::1]:80": "http://[::1]:80",
	} {
		if got, err := parseBase(in); err != nil || got != want {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", "api.github.com", "http://api.github.com", "http://10.0.0.1", "http://localhost.evil.com", "http://127.0.0.1.nip.io", "ftp://localhost", "https://", "https:///x", "//api.github.com",
		"https://user:pw@ghe.example.com", "https://ghe.example.com?x=1", "https://ghe.example.com?", "https://ghe.example.com#x", "https://ghe.example.com#", "https://ghe.example.com/../x", "https://ghe.example.com/a/%2e%2e",
		"https://github.com", "https://www.github.com", "https://octo.ghe.com", "https://a b", "https://ghe.example.com:x", "javascript:alert(1)",
	} {
		if got, err := parseBase(in); err == nil {
			t.Errorf("%q is taken as %q", in, got)
		} else if e, ok := err.(*pdk.Error); !ok || e.Code != "bad_base_url" || !strings.Contains(e.Message, "bladehost config set") {
			t.Errorf("%q: %v", in, err)
		}
	}
	g := newGitHub(t)
	g.prefix = "/api/v3"
	g.issues = many(120, issue)
	h := lend(t, g, theToken)
	var out issueList
	h.Run("GitHubListIssues", of(object{"limit": 120})).Data(&out)
	if got := g.requests(); out.Count != 120 || len(got) != 2 || !strings.HasPrefix(got[1], "GET /api/v3/repos/octo/hello/issues?page=2") {
		t.Errorf("%d issues by %v", out.Count, got)
	}
	lendSettings(h, "http://ghe.example.com")
	h.Run("GitHubListIssues", of(nil)).WantCode("bad_base_url")
}

func TestLink(t *testing.T) {
	for field, want := range map[string]string{
		"":                          "",
		`<https://x/2>; rel="next"`: "https://x/2",
		`<https://x/1>; rel="prev", <https://x/3>; rel="next", <https://x/9>; rel="last"`: "https://x/3",
		`<https://x/a,b;c>; rel=next`:                    "https://x/a,b;c",
		`<https://x/2>; title="a"; REL="first next"`:     "https://x/2",
		`<https://x/2>; rel="nextish"`:                   "",
		`<https://x/2; rel="next"`:                       "",
		`rel="next"`:                                     "",
		`<>; rel="next"`:                                 "",
		`<a>;rel="prev"<b>;rel="next"`:                   "b",
		`<https://x/2>; rel="prev"; rel="next"`:          "https://x/2",
		`<https://x/2>`:                                  "",
		`<https://x/1>, <https://x/2>; rel  =  "next"  `: "https://x/2",
	} {
		if got := link(&pdk.HTTPResponse{Headers: abi.HTTPHeaders{"link": {field}}}, "next"); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}

func FuzzLink(f *testing.F) {
	f.Add(`<https://x/2>; rel="next"`)
	f.Fuzz(func(t *testing.T, field string) {
		_ = link(&pdk.HTTPResponse{Headers: abi.HTTPHeaders{"link": {field}}}, "next")
	})
}

// FuzzFilePath: whatever is taken stays below the contents of the repository.
func FuzzFilePath(f *testing.F) {
	f.Add("a/../b")
	f.Fuzz(func(t *testing.T, p string) {
		out, err := filePath(p)
		if err != nil {
			return
		}
		for part := range strings.SplitSeq(strings.TrimPrefix(out, "/"), "/") {
			if part == "." || part == ".." || strings.ContainsAny(part, "?#\\ \n") {
				t.Fatalf("%q became %q", p, out)
			}
		}
	})
}

// What the plugin hands to the host, without any server.
func TestRequestHead(t *testing.T) {
	h := pdktest.New(t, plugin())
	lendSettings(h, "https://api.github.com")
	h.Service(abi.SecretPresence, func(_ context.Context, head json.RawMessage, _ []byte) (any, []byte, error) {
		if string(head) != `{"name":"GITHUB_TOKEN"}` {
			t.Errorf("%s", head)
		}
		return abi.SecretExistsAnswer{Exists: true}, nil, nil
	})
	var got abi.HTTPRequestHead
	var sent []byte
	h.Service(abi.HTTPCall, func(_ context.Context, head json.RawMessage, body []byte) (any, []byte, error) {
		got, sent = abi.HTTPRequestHead{}, body
		err := json.Unmarshal(head, &got)
		return abi.HTTPResponseHead{Status: 201, URL: got.URL, Headers: abi.HTTPHeaders{}}, []byte(`{"id":3}`), err
	})
	h.Run("GitHubComment", of(object{"number": 5, "body": "<x>"}))
	if got.Method != "POST" || got.URL != "https://api.github.com/repos/octo/hello/issues/5/comments" || got.Redirect != abi.RedirectManual || string(sent) != `{"body":"<x>"}` {
		t.Errorf("%+v %s", got, sent)
	}
	if a := got.Headers["authorization"]; len(a) != 1 || a[0] != "Bearer {{secret:GITHUB_TOKEN}}" || got.Headers["x-github-api-version"][0] != apiVersion {
		t.Errorf("%v", got.Headers)
	}
	h.Run("GitHubGetIssue", of(object{"number": 5, "etag": `W/"ab"`}))
	if got.Method != "" && got.Method != "GET" || got.Redirect != "" || got.Headers["if-none-match"][0] != `W/"ab"` || got.Headers["accept"][0] != mediaJSON {
		t.Errorf("%+v", got)
	}
	h.Service(abi.HTTPCall, func(context.Context, json.RawMessage, []byte) (any, []byte, error) {
		return nil, nil, abi.NewError(abi.CodeNotDeclared, "ghe.example.com:443 is not among the hosts that the plugin declares")
	})
	o := h.Run("GitHubGetIssue", of(object{"number": 5}))
	if o.WantCode("host_not_declared"); !strings.Contains(o.Err().Message, "hosts.go") {
		t.Errorf("%+v", o.Err())
	}
}

// The manifest says what the plugin does, and no parameter says where it goes.
func TestManifest(t *testing.T) {
	m := pdktest.New(t, plugin()).Manifest()
	for _, spec := range m.Tools {
		wantKind, wantEffect, wantStop := abi.KindReadOnly, abi.SideEffectPure, abi.InterruptCancel
		if spec.Name == "GitHubComment" {
			wantKind, wantEffect, wantStop = abi.KindExecute, abi.SideEffectNonIdempotent, abi.InterruptBlock
		}
		if spec.Kind != wantKind || spec.SideEffect != wantEffect || spec.Interrupt != wantStop {
			t.Errorf("%s: %s %s %s", spec.Name, spec.Kind, spec.SideEffect, spec.Interrupt)
		}
		for _, word := range []string{`"url"`, `"baseUrl"`, `"host"`, `"token"`} {
			if strings.Contains(string(spec.Parameters), word+":") {
				t.Errorf("%s has the parameter %s", spec.Name, word)
			}
		}
	}
	c := m.Requested()
	if len(c.Secrets) != 1 || c.Secrets[0].Name != "GITHUB_TOKEN" || c.Secrets[0].Required || strings.Join(c.HTTP.Hosts, " ") != "api.github.com *.ghe.com" || strings.Join(c.HTTP.Methods, " ") != "GET POST" {
		t.Errorf("%+v %+v", c.HTTP, c.Secrets)
	}
}
