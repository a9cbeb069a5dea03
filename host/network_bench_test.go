package host

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/bladehost/bladehost/host/caps/secrets"
)

// BenchmarkRequest compares a plugin's http.request with a plain client. The
// plugin's time includes its call, from the raw arguments to the result.
func BenchmarkRequest(b *testing.B) {
	payload := make([]byte, 10<<20)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Path[1:])
		w.Header().Set("Content-Length", strconv.Itoa(n))
		_, _ = w.Write(payload[:n])
	}))
	b.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		b.Fatal(err)
	}
	s := netSession(b, newHost(b, Options{}), Grants{Net: []string{u.Host}, Secrets: []secrets.Grant{{Name: "TOKEN"}}, SecretSources: []secrets.Source{&memorySource{m: map[string]string{"TOKEN": theSecret}}}})
	for _, n := range []int{1 << 10, 10 << 20} {
		address := fmt.Sprintf("%s/%d", srv.URL, n)
		b.Run(fmt.Sprintf("%dKiB/plain", n>>10), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				res, err := http.Get(address)
				if err != nil {
					b.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || len(body) != n {
					b.Fatal(len(body), err)
				}
			}
		})
		b.Run(fmt.Sprintf("%dKiB/plugin", n>>10), func(b *testing.B) {
			b.SetBytes(int64(n))
			call := Call{Tool: "Request", Input: in(fmt.Sprintf(`{"url":%q,"quiet":true}`, address))}
			do(b, s, call) // compiles the plugin
			for b.Loop() {
				if r := do(b, s, call); r.IsError() {
					b.Fatal(r.Error)
				}
			}
		})
	}
}
