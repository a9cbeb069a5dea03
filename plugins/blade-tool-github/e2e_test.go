package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/caps/secrets"
	"github.com/bladehost/bladehost/host/tool"
)

// buildFor builds the plugin for Wasm with one more host in hosts.go: what the
// README tells the owner of a GitHub Enterprise Server to do.
func buildFor(t *testing.T, extra string) []byte {
	t.Helper()
	dir := t.TempDir()
	src, err := os.ReadFile("hosts.go")
	if err != nil {
		t.Fatal(err)
	}
	edited := bytes.Replace(src, []byte(`"*.ghe.com"`), []byte(`"*.ghe.com", "`+extra+`"`), 1)
	if bytes.Equal(edited, src) {
		t.Fatal("hosts.go does not look as it should")
	}
	original, err := filepath.Abs("hosts.go")
	if err != nil {
		t.Fatal(err)
	}
	replace, _ := json.Marshal(map[string]any{"Replace": map[string]string{original: filepath.Join(dir, "hosts.go")}})
	for name, b := range map[string][]byte{"hosts.go": edited, "overlay.json": replace} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "plugin.wasm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"), "-o", out, ".")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, msg)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The plugin as users run it: a Wasm module in a host, with grants, against a
// server on this machine.
func TestInHost(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and compiles the module")
	}
	g := newGitHub(t)
	g.issues = many(101, issue)
	g.files["big.txt"] = bytes.Repeat([]byte("0123456789abcde\n"), 3<<20/16)
	h, err := host.New(host.Options{Interpreter: raced})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	module := buildFor(t, "127.0.0.1")
	manifest, err := h.Describe(t.Context(), module)
	if err != nil {
		t.Fatal(err)
	}
	if module, err = host.WithManifest(module, manifest); err != nil {
		t.Fatal(err)
	}
	p, err := h.LoadPlugin(module, host.PluginOptions{Trust: tool.TrustWorkspace})
	if err != nil {
		t.Fatal(err)
	}
	session := func(change func(*host.Grants)) *host.Session {
		t.Helper()
		config, _ := json.Marshal(settings{BaseURL: g.base()})
		grants := host.Grants{
			Net: []string{hostOf(t, g.URL)}, Config: config,
			Secrets: []secrets.Grant{{Name: tokenName}}, SecretSources: []secrets.Source{source(theToken)},
		}
		if change != nil {
			change(&grants)
		}
		s, err := h.NewSession(host.SessionOptions{AutoApprove: true, Plugins: []host.Attachment{{Plugin: p, Grants: grants}}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	run := func(s *host.Session, name string, in object, limit time.Duration) (*abi.Result, int) {
		t.Helper()
		raw, _ := json.Marshal(in)
		x := s.Start(t.Context(), host.Call{Tool: name, Input: raw, Timeout: limit})
		yields := 0
		for range x.Yields() {
			yields++
		}
		r, err := x.Result()
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := json.Marshal(r); bytes.Contains(b, []byte(theToken)) {
			t.Errorf("%s: the result holds the token: %s", name, b)
		}
		return r, yields
	}
	data := func(r *abi.Result, into any) {
		t.Helper()
		if r.IsError() {
			t.Fatalf("%s: %s %s", r.Error.Code, r.Error.Message, r.Error.Details)
		}
		if err := json.Unmarshal(r.Data, into); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(r *abi.Result, code, says string) {
		t.Helper()
		if r.Error == nil || string(r.Error.Code) != code || !strings.Contains(r.Error.Message, says) {
			t.Errorf("%+v, want %s with %q", r.Error, code, says)
		}
	}
	s := session(nil)
	t.Run("lists by pages", func(t *testing.T) {
		var out issueList
		r, yields := run(s, "GitHubListIssues", of(object{"limit": 101}), 0)
		if data(r, &out); out.Count != 101 || out.More || yields == 0 {
			t.Errorf("%d issues, %d yields", out.Count, yields)
		}
		if auth := g.last().Header.Get("Authorization"); auth != "Bearer "+theToken {
			t.Errorf("the server got %q", auth)
		}
	})
	t.Run("the defaults of the schema", func(t *testing.T) {
		var out pullList
		r, _ := run(s, "GitHubListPullRequests", of(nil), 0)
		if data(r, &out); !strings.Contains(g.last().URL.RawQuery, "state=open") {
			t.Errorf("%s", g.last().URL)
		}
	})
	t.Run("unchanged", func(t *testing.T) {
		var out issueOut
		r, _ := run(s, "GitHubGetIssue", of(object{"number": 2}), 0)
		data(r, &out)
		var same notModified
		r, _ = run(s, "GitHubGetIssue", of(object{"number": 2, "etag": out.ETag}), 0)
		if data(r, &same); !same.NotModified {
			t.Errorf("%s", r.Data)
		}
	})
	t.Run("a large file", func(t *testing.T) {
		var out fileOut
		r, _ := run(s, "GitHubGetFile", of(object{"path": "big.txt", "offset": 2 << 20, "maxBytes": 1000}), 0)
		if data(r, &out); len(*out.Content) != 1000 || !out.Truncated || out.Size != 3<<20 {
			t.Errorf("%d bytes of %d", len(*out.Content), out.Size)
		}
	})
	t.Run("comments once", func(t *testing.T) {
		var out posted
		r, _ := run(s, "GitHubComment", of(object{"number": 2, "body": "{{secret:GITHUB_TOKEN}}"}), 0)
		if data(r, &out); !out.Posted || len(g.comments["2"]) != 1 || g.comments["2"][0]["body"] != "{{secret:GITHUB_TOKEN}}" {
			t.Errorf("%+v %v", out, g.comments["2"])
		}
	})
	t.Run("a renamed repository", func(t *testing.T) {
		var out issueList
		in := object{"owner": "octo", "repo": "old", "number": 2, "body": "x"}
		r, _ := run(s, "GitHubListIssues", object{"owner": "octo", "repo": "old"}, 0)
		if data(r, &out); out.Count != 30 {
			t.Errorf("%+v", out)
		}
		r, _ = run(s, "GitHubComment", in, 0)
		if refused(r, "moved", "octo/hello"); len(g.comments["2"]) != 1 {
			t.Error("it was posted")
		}
	})
	t.Run("a rate limit, a broken answer, a slow one", func(t *testing.T) {
		defer g.answering(nil)
		g.answers(429, `{"message":"slow down `+theToken+`"}`, "Retry-After", "9")
		r, _ := run(s, "GitHubListIssues", of(nil), 0)
		if refused(r, "rate_limited", "9 s"); !strings.Contains(string(r.Error.Details), `"retryAfterSeconds":9`) {
			t.Errorf("%s", r.Error.Details)
		}
		g.answers(200, `{"total_count":`)
		r, _ = run(s, "GitHubSearch", object{"type": "issues", "query": "x"}, 0)
		refused(r, "bad_answer", "baseUrl")
		g.answer = func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
		r, _ = run(s, "GitHubGetIssue", of(object{"number": 1}), 300*time.Millisecond)
		if r.Error == nil || r.Error.Type != abi.TypeTimeout {
			t.Errorf("%+v", r.Error)
		}
	})
	t.Run("without a token", func(t *testing.T) {
		s := session(func(g *host.Grants) { g.Secrets = nil })
		var out issueList
		r, _ := run(s, "GitHubListIssues", of(nil), 0)
		if data(r, &out); out.Count != 30 || g.last().Header["Authorization"] != nil {
			t.Errorf("%+v", out)
		}
		g.requests()
		r, _ = run(s, "GitHubComment", of(object{"number": 2, "body": "x"}), 0)
		refused(r, "token_required", "--allow-secret GITHUB_TOKEN")
		r, _ = run(s, "GitHubSearch", object{"type": "code", "query": "x"}, 0)
		if refused(r, "token_required", "--allow-secret GITHUB_TOKEN"); g.requests() != nil {
			t.Error("it asked all the same")
		}
	})
	t.Run("without a grant, and of a host that the build does not know", func(t *testing.T) {
		s := session(func(g *host.Grants) { g.Net = nil })
		r, _ := run(s, "GitHubListIssues", of(nil), 0)
		refused(r, "not_granted", "--allow-net 127.0.0.1:")
		s = session(func(g *host.Grants) {
			g.Config, g.Net = json.RawMessage(`{"baseUrl":"https://ghe.example.com/api/v3"}`), []string{"ghe.example.com"}
		})
		r, _ = run(s, "GitHubListIssues", of(nil), 0)
		refused(r, "host_not_declared", "hosts.go")
	})
	if _, err := h.NewSession(host.SessionOptions{Plugins: []host.Attachment{{Plugin: p, Grants: host.Grants{Config: json.RawMessage(`{"baseUrl":7}`)}}}}); abi.CodeOf(err) != abi.CodeOptions {
		t.Errorf("%v", err)
	}
}
