package http

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

// Siblings share connections, but none that the policy of one alone would open; their
// policies and secrets are their own.
func TestSiblings(t *testing.T) {
	var mu sync.Mutex
	from := map[string]int{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		from[r.RemoteAddr]++
		_, _ = w.Write([]byte(r.Header.Get("X-Who")))
	}))
	defer srv.Close()
	u, _ := url.Parse(srv.URL)
	name := "intra.example.com:" + u.Port()
	may := Policy{Hosts: []string{name}, Private: []string{name}}
	who := func(is string) func(context.Context, string, string) (string, error) {
		return func(context.Context, string, string) (string, error) { return is, nil }
	}
	base := New(Options{Policy: Policy{Hosts: []string{}}, Resolver: dns(t, "127.0.0.1")})
	defer base.Close()
	a, b, public := base.Sibling(may, who("a")), base.Sibling(may, who("b")), base.Sibling(Policy{Hosts: []string{name}}, nil)
	ask := func(c *Client) (string, error) {
		res, err := c.Do(t.Context(), Request{URL: "http://" + name, Header: http.Header{"X-Who": {"{{secret:WHO}}"}}})
		if err != nil {
			return "", err
		}
		defer func() { _ = res.Body.Close() }()
		buf := make([]byte, 10)
		n, _ := res.Body.Read(buf)
		_, _ = res.Body.Read(buf) // to the end, so that the connection is kept
		return string(buf[:n]), nil
	}
	for want, c := range map[string]*Client{"a": a, "b": b} {
		if got, err := ask(c); err != nil || got != want {
			t.Errorf("%s: %q %v", want, got, err)
		}
	}
	if len(from) != 1 {
		t.Errorf("%d connections", len(from))
	}
	if _, err := ask(public); abi.CodeOf(err) != abi.CodeNetBlocked {
		t.Errorf("on a sibling's connection: %v", err)
	}
	if _, err := ask(base); abi.CodeOf(err) != abi.CodeNotGranted {
		t.Errorf("the base: %v", err)
	}
	b.SetPolicy(Policy{Hosts: []string{}})
	if _, err := ask(b); abi.CodeOf(err) != abi.CodeNotGranted {
		t.Errorf("without its policy: %v", err)
	}
	if _, err := ask(a); err != nil {
		t.Errorf("its sibling's went, too: %v", err)
	}
}
