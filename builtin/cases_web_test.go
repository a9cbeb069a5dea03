package builtin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/builtin"
	"github.com/bladehost/bladehost/builtin/web"
	"github.com/bladehost/bladehost/host/tool"
)

// everyTool are the tools with everything that a host's owner can configure:
// WebSearch is there once there is a search engine.
func everyTool(t testing.TB) []tool.Tool {
	t.Helper()
	p, err := web.SearXNG(web.Engine{URL: "https://searx.example.com/"})
	if err != nil {
		t.Fatal(err)
	}
	return builtin.Tools(builtin.Options{Web: web.Options{Search: []web.Provider{p}}})
}

// webServer is the server that the WebFetch cases were recorded against, as far as
// their answers tell.
func webServer(t testing.TB) string {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		b, err := json.Marshal(v)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(b)
	}
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, map[string]bool{"ok": true}) })
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<html><body><h1>Hi</h1></body></html>")
	})
	mux.HandleFunc("/404", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(404)
		_, _ = io.WriteString(w, `{"e":1}`)
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		field := func(name string) any {
			if v := r.Header.Get(name); v != "" {
				return v
			}
			return nil
		}
		answer(w, 200, struct {
			Method string `json:"method"`
			CT     any    `json:"ct"`
			UA     any    `json:"ua"`
			X      any    `json:"x"`
			Body   string `json:"body"`
		}{r.Method, field("Content-Type"), field("User-Agent"), field("X-Test"), string(body)})
	})
	redirect := func(path string, status int, to string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if to != "" {
				w.Header().Set("Location", to)
			}
			w.WriteHeader(status)
		})
	}
	redirect("/r1", 302, "/ok")
	redirect("/r307post", 307, "/echo")
	redirect("/r303", 303, "/echo")
	redirect("/noloc", 302, "")
	over := make(chan struct{})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(func() { close(over); s.Close() })
	return strings.TrimSuffix(s.URL, "/")
}
