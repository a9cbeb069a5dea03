package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	caphttp "github.com/bladehost/bladehost/host/caps/http"
	"github.com/bladehost/bladehost/host/caps/secrets"
)

// secretVault lends the secret T; use uses it.
func secretVault(t *testing.T, value string) (v *secrets.Vault, use func()) {
	t.Helper()
	v = secrets.NewVault([]secrets.Source{&memorySource{m: map[string]string{"T": value}}}, []secrets.Grant{{Name: "T", Hosts: []string{"a.example"}}}, caphttp.Covers)
	return v, func() {
		if got, err := v.Fill(t.Context(), "a.example:443", "{{secret:T}}"); err != nil || got != value {
			t.Errorf("%q %v", got, err)
		}
	}
}

// A server that makes a header's name of a secret does not show it.
func TestSecretAsHeaderName(t *testing.T) {
	const value = "0123456789abcdef"
	v, use := secretVault(t, value)
	use()
	res := &caphttp.Response{Header: http.Header{value: {"1"}}, Body: io.NopCloser(bytes.NewReader(nil))}
	ans, err := (&run{}).httpAnswer(abi.HTTPRequestHead{}, res, v)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(ans.Head, []byte(value)) || !bytes.Contains(ans.Head, []byte("[secret:T]")) {
		t.Errorf("%s", ans.Head)
	}
	ans.Release()
}

// lateBody has the secret, which is used for the first time while it is read.
type lateBody struct {
	parts []func() string
}

func (b *lateBody) Read(p []byte) (int, error) {
	if len(b.parts) == 0 {
		return 0, io.EOF
	}
	part := b.parts[0]
	b.parts = b.parts[1:]
	return copy(p, part()), nil
}

func (b *lateBody) Close() error { return nil }

// A secret that another call uses while an answer comes is taken out of that, too.
func TestSecretUsedLate(t *testing.T) {
	const value = "0123456789abcdef"
	body := func(use func()) *lateBody {
		return &lateBody{[]func() string{
			func() string { return "before " },
			func() string { use(); return "it is 01234567" },
			func() string { return "89abcdef, and " + value + " after" },
		}}
	}
	const want = "before it is [secret:T], and [secret:T] after"
	v, use := secretVault(t, value)
	ans, err := (&run{}).httpAnswer(abi.HTTPRequestHead{}, &caphttp.Response{Length: -1, Body: body(use)}, v)
	if err != nil || string(ans.Body) != want {
		t.Errorf("%q, %v", ans.Body, err)
	}
	v, use = secretVault(t, value)
	got, err := io.ReadAll(v.Reader(body(use)))
	if err != nil || string(got) != want {
		t.Errorf("as a stream: %q, %v", got, err)
	}
	var none *secrets.Vault
	if got, err := io.ReadAll(none.Reader(strings.NewReader(value))); err != nil || string(got) != value {
		t.Errorf("without secrets: %q, %v", got, err)
	}
}

// Answers of calls that run at once, up to the largest one, are each call's own: their
// buffers are used again.
func TestAnswersAtOnce(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		c := r.URL.Query().Get("c")
		if r.URL.Query().Get("known") != "" {
			w.Header().Set("Content-Length", strconv.Itoa(n))
		}
		for sent := 0; sent < n; {
			part := strings.Repeat(c, min(n-sent, 100_000))
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
			sent += len(part)
		}
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := netSession(t, newHost(t, Options{}), Grants{Net: []string{u.Host}, Secrets: []secrets.Grant{{Name: "TOKEN"}}, SecretSources: []secrets.Source{&memorySource{m: map[string]string{"TOKEN": theSecret}}}})
	done := make(chan struct{})
	for i := range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			c, n := string(rune('a'+i)), 200_000+i*1000
			for k := range 6 {
				r := request(t, s, fmt.Sprintf(`{"url":"%s/?c=%s&n=%d&known=%s"}`, srv.URL, c, n, strings.Repeat("1", k%2)))
				var out struct {
					Body  string `json:"body"`
					Bytes int    `json:"bytes"`
				}
				if r.IsError() || json.Unmarshal(r.Data, &out) != nil || out.Bytes != n || out.Body != strings.Repeat(c, n) {
					t.Errorf("%s: %v, %d bytes", c, r.Error, out.Bytes)
					return
				}
			}
		}()
	}
	for range 8 {
		<-done
	}
	for n, whole := range map[int]bool{abi.MaxFrameBody: true, abi.MaxFrameBody + 1: false} {
		for _, known := range []string{"", "1"} {
			r := request(t, s, fmt.Sprintf(`{"url":"%s/?c=x&n=%d&known=%s","quiet":true}`, srv.URL, n, known))
			if whole != strings.Contains(string(r.Data), fmt.Sprintf(`"bytes":%d}`, n)) || whole == r.IsError() {
				t.Errorf("%d bytes, said to be %q: %s, %v", n, known, r.Data, r.Error)
			}
		}
	}
}
