package http

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bladehost/bladehost/abi"
)

// BLT-05 BLT-06: every row of the handed table.
func TestSSRFTable(t *testing.T) {
	raw, err := os.ReadFile("testdata/ssrf-cases.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for i, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") {
		f := strings.Split(line, "\t")
		if i == 0 || len(f) < 4 {
			continue
		}
		rows++
		u := f[0]
		if s, err := unquote(u); err == nil {
			u = s
		}
		want := f[2] == "allow"
		got, why := judgeRow(u, f[1])
		if got != want {
			t.Errorf("%s (%s): allowed %v (%v), want %v: %s", f[0], f[1], got, why, want, f[3])
		}
	}
	if rows < 100 {
		t.Fatalf("only %d rows", rows)
	}
}

func unquote(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var out string
	_, err := fmt.Sscanf(`"`+s+`"`, "%q", &out)
	return out, err
}

func judgeRow(u, resolved string) (bool, error) {
	t, err := ParseTarget(u)
	if err != nil {
		return false, err
	}
	p := Policy{}
	if _, refused := p.judge(t, "GET"); refused != nil {
		return false, refused
	}
	for _, r := range strings.Split(resolved, ",") {
		if a, err := netip.ParseAddr(strings.TrimSpace(r)); err == nil {
			if err := checkDial("tcp4", netip.AddrPortFrom(a, uint16(t.Port)).String(), false); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// BLT-08: what the lists say, with and without a private address.
func TestPolicy(t *testing.T) {
	for _, c := range []struct {
		name    string
		p       Policy
		url     string
		want    abi.Code
		private bool
	}{
		{"nothing said", Policy{}, "https://a.example.com/", "", false},
		{"empty list", Policy{Hosts: []string{}}, "https://a.example.com/", abi.CodeNotGranted, false},
		{"exact", Policy{Hosts: []string{"a.example.com"}}, "https://A.Example.com:8443/", "", false},
		{"other name", Policy{Hosts: []string{"a.example.com"}}, "https://b.example.com/", abi.CodeNotGranted, false},
		{"suffix trick", Policy{Hosts: []string{"example.com"}}, "https://evil-example.com/", abi.CodeNotGranted, false},
		{"below", Policy{Hosts: []string{"*.example.com"}}, "https://x.y.example.com/", "", false},
		{"below is not itself", Policy{Hosts: []string{"*.example.com"}}, "https://example.com/", abi.CodeNotGranted, false},
		{"below on a border", Policy{Hosts: []string{"*.example.com"}}, "https://xexample.com/", abi.CodeNotGranted, false},
		{"a star is no address", Policy{Hosts: []string{"*.0.0.1"}}, "http://127.0.0.1/", abi.CodeNotGranted, false},
		{"with a port", Policy{Hosts: []string{"a.example.com:8443"}}, "https://a.example.com/", abi.CodeNotGranted, false},
		{"exact address and port", Policy{Hosts: []string{"127.0.0.1:8080"}}, "http://127.0.0.1:8080/", "", true},
		{"exact address, other port", Policy{Hosts: []string{"127.0.0.1:8080"}}, "http://127.0.0.1:8081/", abi.CodeNotGranted, false},
		{"address without a port", Policy{Hosts: []string{"127.0.0.1"}}, "http://127.0.0.1:8080/", abi.CodeNetBlocked, false},
		{"IPv6 and port", Policy{Hosts: []string{"[::1]:8080"}}, "http://[::1]:8080/", "", true},
		{"localhost and port", Policy{Hosts: []string{"localhost:8080"}}, "http://localhost:8080/", "", true},
		{"localhost without a port", Policy{Hosts: []string{"localhost"}}, "http://localhost:8080/", abi.CodeNetBlocked, false},
		{"private name", Policy{Hosts: []string{"git.corp"}, Private: []string{"git.corp:443"}}, "https://git.corp/", "", true},
		{"private name, other port", Policy{Hosts: []string{"git.corp"}, Private: []string{"git.corp:443"}}, "https://git.corp:8443/", abi.CodeNetBlocked, false},
		{"private name, not allowed", Policy{Hosts: []string{"a.example.com"}, Private: []string{"git.corp:443"}}, "https://git.corp/", abi.CodeNotGranted, false},
		{"blocked wins", Policy{Hosts: []string{"*.example.com"}, Blocked: []string{"b.example.com"}}, "https://b.example.com/", abi.CodeNetBlocked, false},
		{"private network", Policy{AllowPrivateNetwork: true}, "http://10.0.0.1/", "", true},
		{"method", Policy{Methods: []string{"POST"}}, "https://a.example.com/", abi.CodeNotGranted, false},
		{"a port of mail", Policy{}, "http://a.example.com:25/", abi.CodeNetBlocked, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			target, err := ParseTarget(c.url)
			if err != nil {
				t.Fatal(err)
			}
			private, refused := c.p.judge(target, "GET")
			var code abi.Code
			if refused != nil {
				code = refused.Code
			}
			if code != c.want || private != c.private {
				t.Errorf("%v, private %v; want %s, %v", refused, private, c.want, c.private)
			}
		})
	}
	for p, ok := range map[string]bool{"a.example.com": true, "*.example.com": true, "a.example.com:8443": true, "127.0.0.1:80": true, "[::1]:80": true, "::1": true, "localhost:80": true,
		"*": false, "*.com": false, "a.*.com": false, "*.1.2.3.4": false, "http://x": false, "a b": false, "A.example.com": false, "a:0": false, "a:x": false, "a:": false, "": false, "[::1": false, "0x7f.1": false} {
		if err := CheckPattern(p); (err == nil) != ok {
			t.Errorf("CheckPattern(%q) = %v", p, err)
		}
	}
}

// local is a client that may reach one test server and nothing else private.
func local(t *testing.T, srv *httptest.Server, change ...func(*Options)) *Client {
	t.Helper()
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Policy: Policy{Hosts: []string{u.Host}}}
	for _, c := range change {
		c(&o)
	}
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

func get(t *testing.T, c *Client, u string) (string, *Response, error) {
	t.Helper()
	res, err := c.Do(t.Context(), Request{URL: u})
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return string(b), res, err
}

func TestExchange(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Method+" "+r.Header.Get("X-Own")+" "+string(b))
		if r.URL.Path == "/gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte("unpacked"))
			_ = z.Close()
			return
		}
		w.WriteHeader(404)
		_, _ = w.Write([]byte("nothing here"))
	}))
	defer srv.Close()
	c := local(t, srv)
	res, err := c.Do(t.Context(), Request{Method: "POST", URL: srv.URL + "/x", Header: http.Header{"x-own": {"1"}}, Body: []byte("body")})
	if err != nil || res.Status != 404 || res.Header.Get("X-Seen") != "POST 1 body" || res.Length != 12 {
		t.Fatalf("%+v %v", res, err)
	}
	_ = res.Body.Close()
	if b, res, err := get(t, c, srv.URL+"/gzip"); err != nil || b != "unpacked" || res.Header.Get("Content-Encoding") != "" || res.Length != -1 {
		t.Errorf("%q %+v %v", b, res, err)
	}
}

// A proxy of the environment is never used.
func TestNoEnvironmentProxy(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("direct")) }))
	defer srv.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	if b, _, err := get(t, local(t, srv), srv.URL); err != nil || b != "direct" {
		t.Errorf("%q %v", b, err)
	}
}

// BLT-07 PKG-10: redirects are judged anew, and credentials stay with their origin.
func TestRedirects(t *testing.T) {
	var got http.Header
	var method string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got, method = r.Header.Clone(), r.Method }))
	defer other.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := r.URL.Query().Get("to")
		code := http.StatusFound
		if r.URL.Query().Get("keep") != "" {
			code = http.StatusTemporaryRedirect
		}
		if to == "" {
			got, method = r.Header.Clone(), r.Method
			return
		}
		w.Header().Set("Location", to)
		w.WriteHeader(code)
	}))
	defer srv.Close()
	both := func(o *Options) {
		u, _ := url.Parse(other.URL)
		o.Policy.Hosts = append(o.Policy.Hosts, u.Host, "metadata.example.com", "169.254.169.254", "*.example.com")
	}
	c := local(t, srv, both)
	do := func(to string, req Request) error {
		req.URL = srv.URL + "/?to=" + url.QueryEscape(to) + req.URL
		req.Header = http.Header{"Authorization": {"Bearer x"}, "X-Token": {"{{secret:T}}"}, "Accept": {"a/b"}, "Content-Type": {"text/plain"}, "User-Agent": {"me"},
			"Private-Token": {"1"}, "X-Vault-Token": {"1"}, "X-Amz-Security-Token": {"1"}, "Api-Key": {"1"}, "Referer": {"http://a.example/?token=1"}, "X-Own": {"1"}}
		req.Fence = "7"
		res, err := c.Do(t.Context(), req)
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	for _, to := range []string{"http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:1/", "http://localhost/", "file:///etc/passwd", "http://2130706433/", "http://0x7f.1/", "gopher://x/", "http://[::ffff:127.0.0.1]/", "//10.0.0.1/", "http://user:pw@a.example.com/"} {
		if err := do(to, Request{}); err == nil {
			t.Errorf("a redirect to %s was followed", to)
		}
	}
	if err := do(other.URL, Request{Method: "POST", Body: []byte("b")}); err != nil {
		t.Fatal(err)
	}
	if want := map[string][]string{"Accept": {"a/b"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"me"}}; !reflect.DeepEqual(map[string][]string(got), want) || method != "GET" {
		t.Errorf("another origin got %v by %s", got, method)
	}
	if err := do(srv.URL+"/", Request{Method: "POST", Body: []byte("b"), URL: "&keep=1"}); err != nil {
		t.Fatal(err)
	}
	if got.Get("Authorization") == "" || got.Get("X-Own") == "" || got.Get(FencingHeader) != "7" || method != "POST" {
		t.Errorf("the same origin got %v by %s", got, method)
	}
	if err := do(srv.URL+"/?to="+url.QueryEscape(srv.URL+"/?to=%2F%3Fto%3D%2F"), Request{}); err != nil && abi.CodeOf(err) != abi.CodeNetLimit {
		t.Errorf("%v", err)
	}
	loop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }))
	defer loop.Close()
	if _, _, err := get(t, local(t, loop), loop.URL); abi.CodeOf(err) != abi.CodeNetLimit {
		t.Errorf("a loop: %v", err)
	}
	if res, err := c.Do(t.Context(), Request{URL: srv.URL + "/?to=/", Redirect: Manual}); err != nil || res.Status != 302 {
		t.Errorf("%v %v", res, err)
	} else {
		_ = res.Body.Close()
	}
	if _, err := c.Do(t.Context(), Request{URL: srv.URL + "/?to=/", Redirect: Refuse}); abi.CodeOf(err) != abi.CodeNetBlocked {
		t.Errorf("%v", err)
	}
}

// dns is a name server on loopback that answers a name with one address after
// another.
func dns(t *testing.T, answers ...string) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	var n atomic.Int64
	go func() { // ends when the test closes the socket
		buf := make([]byte, 512)
		for {
			k, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:k]) != nil || len(m.Questions) == 0 {
				continue
			}
			q := m.Questions[0]
			out := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}, Questions: m.Questions}
			if q.Type == dnsmessage.TypeA {
				a := netip.MustParseAddr(answers[min(int(n.Add(1))-1, len(answers)-1)])
				out.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type, TTL: 0}, Body: &dnsmessage.AResource{A: a.As4()}}}
			}
			if b, err := out.Pack(); err == nil {
				_, _ = pc.WriteTo(b, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

// BLT-09: a name that leads elsewhere a moment later gains nothing.
func TestRebinding(t *testing.T) {
	var hits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	for name, answers := range map[string][]string{"at once": {"127.0.0.1"}, "later": {"93.184.215.14", "127.0.0.1"}} {
		c := New(Options{Resolver: dns(t, answers...), Limits: Limits{Timeout: 2 * time.Second, Dial: 300 * time.Millisecond}})
		for range 2 {
			_, _, err := get(t, c, "http://rebind.example.com:"+port+"/")
			if err == nil {
				t.Errorf("%s: it was reached", name)
			}
		}
		c.Close()
	}
	if hits.Load() != 0 {
		t.Errorf("the internal server was hit %d times", hits.Load())
	}
	c := New(Options{Resolver: dns(t, "127.0.0.1"), Policy: Policy{Hosts: []string{"git.corp"}, Private: []string{"git.corp:" + port}}})
	defer c.Close()
	if _, _, err := get(t, c, "http://git.corp:"+port+"/"); err != nil || hits.Load() != 1 {
		t.Errorf("a name that may be private: %v, %d hits", err, hits.Load())
	}
}

// The limits on what a server sends.
func TestLimits(t *testing.T) {
	stop := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := func() { w.(http.Flusher).Flush() }
		switch r.URL.Path {
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			flush()
			z, _ := gzip.NewWriterLevel(w, gzip.BestCompression)
			for range 1 << 7 {
				if _, err := z.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
			_ = z.Close()
		case "/notgzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("plain"))
		case "/headers":
			for i := range 2000 {
				w.Header().Set(fmt.Sprintf("X-H%d", i), strings.Repeat("v", 100))
			}
		case "/silent":
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		case "/drip":
			for {
				if _, err := w.Write([]byte("x")); err != nil {
					return
				}
				flush()
				select {
				case <-time.After(20 * time.Millisecond):
				case <-r.Context().Done():
					return
				}
			}
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("short"))
		}
	}))
	defer srv.Close()
	defer close(stop)
	c := local(t, srv, func(o *Options) {
		o.Limits = Limits{Timeout: 3 * time.Second, Header: 300 * time.Millisecond, MaxBody: 6 << 20}
	})
	for path, want := range map[string]abi.Code{"/endless": abi.CodeNetLimit, "/bomb": abi.CodeNetLimit, "/notgzip": abi.CodeNetFailed, "/headers": abi.CodeNetLimit,
		"/silent": abi.CodeNetFailed, "/drip": abi.CodeNetFailed, "/cut": abi.CodeNetFailed} {
		_, _, err := get(t, c, srv.URL+path)
		if abi.CodeOf(err) != want {
			t.Errorf("%s: %v (%s), want %s", path, err, abi.CodeOf(err), want)
		}
		if err != nil && strings.Contains(err.Error(), "http://") {
			t.Errorf("%s: the URL is in the error: %v", path, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user left")
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	if _, err := c.Do(ctx, Request{URL: srv.URL + "/silent"}); !errors.Is(err, why) {
		t.Errorf("cancelled: %v", err)
	}
}

// A rate is judged over ten seconds; here the clock is turned by hand.
func TestMinimumRate(t *testing.T) {
	b := &body{r: io.NopCloser(strings.NewReader(strings.Repeat("x", 5000))), lim: Limits{}.withDefaults(), fail: func(err error) error { return err }, most: 1 << 20, cancel: func() {}}
	if err := b.decode(http.Header{}, false); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 500)
	b.since = time.Now().Add(-rateWindow)
	if _, err := b.Read(buf); abi.CodeOf(err) != abi.CodeNetLimit {
		t.Errorf("500 bytes in ten seconds: %v", err)
	}
	b.since = time.Now().Add(-rateWindow)
	b.mark = b.in - 2000
	if _, err := b.Read(buf); err != nil {
		t.Errorf("2500 bytes in ten seconds: %v", err)
	}
}

// Requests that make no sense are refused before anything is sent.
func TestRequestsRefused(t *testing.T) {
	c := New(Options{})
	defer c.Close()
	many := http.Header{}
	for i := range 40_000 {
		many.Add(fmt.Sprintf("X-%d", i), "v")
	}
	for name, r := range map[string]Request{
		"lower-case method": {Method: "get"}, "method with a space": {Method: "GE T"}, "CONNECT": {Method: "CONNECT"}, "TRACE": {Method: "TRACE"},
		"host header": {Header: http.Header{"Host": {"x"}}}, "cookie": {Header: http.Header{"cookie": {"x"}}}, "length": {Header: http.Header{"Content-Length": {"1"}}},
		"transfer encoding": {Header: http.Header{"transfer-encoding": {"chunked"}}}, "proxy header": {Header: http.Header{"Proxy-X": {"1"}}},
		"line end in a value": {Header: http.Header{"X": {"a\r\nEvil: 1"}}}, "line end in a name": {Header: http.Header{"X\r\nEvil": {"1"}}}, "NUL": {Header: http.Header{"X": {"a\x00b"}}},
		"40,000 headers": {Header: many}, "large header": {Header: http.Header{"X": {strings.Repeat("v", 70<<10)}}},
	} {
		r.URL = "https://a.example.com/"
		if _, err := c.Do(t.Context(), r); abi.CodeOf(err) != abi.CodeRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An explicit proxy is asked for an address that was judged here.
func TestExplicitProxy(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("through")) }))
	defer srv.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []string
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				proxyOne(conn, srv.Listener.Addr().String(), func(line string) { mu.Lock(); asked = append(asked, line); mu.Unlock() })
			})
		}
	})
	defer wg.Wait()
	defer func() { _ = l.Close() }()
	proxy := &url.URL{Scheme: "http", Host: l.Addr().String()}
	c := New(Options{Proxy: proxy, Resolver: dns(t, "93.184.215.14")})
	if b, _, err := get(t, c, "http://a.example.com/"); err != nil || b != "through" {
		t.Errorf("%q %v", b, err)
	}
	c.Close()
	c = New(Options{Proxy: proxy, Resolver: dns(t, "10.0.0.1")})
	if _, _, err := get(t, c, "http://a.example.com/"); abi.CodeOf(err) != abi.CodeNetBlocked {
		t.Errorf("a private address through the proxy: %v", err)
	}
	c.Close()
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 1 || asked[0] != "93.184.215.14:80" {
		t.Errorf("the proxy was asked for %v", asked)
	}
}

func proxyOne(conn net.Conn, to string, note func(string)) {
	defer func() { _ = conn.Close() }()
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err != nil {
		return
	}
	f := strings.Fields(string(buf[:n]))
	note(f[1])
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	go func() { _, _ = io.Copy(out, conn); _ = out.Close() }()
	_, _ = io.Copy(conn, out)
}

// FuzzTarget: what passes is public, and its text is stable.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"https://a.example.com/x", "http://0x7f.1/", "http://①②⑦.0.0.1/", "http://[::1]:80/", "http://a.example.com:8080/?q#f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := ParseTarget(s)
		if err != nil {
			return
		}
		p := Policy{}
		if _, refused := p.judge(target, "GET"); refused != nil {
			return
		}
		if target.Addr.IsValid() && CheckAddr(target.Addr) != nil {
			t.Fatalf("%q is a private address", s)
		}
		if a, err := netip.ParseAddr(target.Host); err == nil && CheckAddr(a) != nil {
			t.Fatalf("%q is a private address", s)
		}
		again, err := ParseTarget(target.URL.Scheme + "://" + target.HostPort() + "/")
		if err != nil || again.Host != target.Host || again.Port != target.Port {
			t.Fatalf("%q: %v then %v, %v", s, target.HostPort(), again.HostPort(), err)
		}
	})
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		host    string
		pattern string
		want    bool
	}{
		{"api.example.com", "api.example.com", true},
		{"API.example.com.", "api.example.com", true},
		{"api.example.com:443", "api.example.com", true},
		{"api.example.com:8443", "api.example.com:8443", true},
		{"api.example.com:443", "api.example.com:8443", false},
		{"api.example.com", "api.example.com:443", false},
		{"a.b.example.com:80", "*.example.com", true},
		{"example.com:80", "*.example.com", false},
		{"[::1]:80", "[::1]:80", true},
		{"[::1]:80", "::1", true},
		{"::1", "::1", true},
		{"127.0.0.1:80", "127.0.0.1:81", false},
		{"[::1", "::1", false},
		{"a.example.com:x", "a.example.com", false},
	} {
		if got := Covers(c.host, []string{c.pattern}); got != c.want {
			t.Errorf("Covers(%q, %q) = %v", c.host, c.pattern, got)
		}
	}
}

// Whoever uses secrets gets answers that can be looked through for them: whole, and in
// an encoding that is undone here.
func TestAnswersCanBeLookedThrough(t *testing.T) {
	var encoding string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, e := range strings.Split(encoding, "|") {
			w.Header().Add("Content-Encoding", e)
		}
		_, _ = w.Write([]byte("x"))
	}))
	defer srv.Close()
	plain := local(t, srv)
	filling := local(t, srv, func(o *Options) {
		o.Fill = func(_ context.Context, _, v string) (string, error) { return v, nil }
	})
	for _, h := range []http.Header{{"Range": {"bytes=0-1"}}, {"If-Range": {"x"}}, {"Accept-Encoding": {"deflate"}}, {"Accept-Encoding": {"gzip", "br"}}, {"Accept-Encoding": {"gzip, br"}}} {
		if _, err := filling.Do(t.Context(), Request{URL: srv.URL, Header: h}); abi.CodeOf(err) != abi.CodeRequest {
			t.Errorf("%v: %v", h, err)
		}
		if res, err := plain.Do(t.Context(), Request{URL: srv.URL, Header: h}); err != nil {
			t.Errorf("%v without secrets: %v", h, err)
		} else {
			_ = res.Body.Close()
		}
	}
	for _, encoding = range []string{"deflate", "br", "zstd", "gzip, gzip", "gzip|gzip", "x"} {
		if _, err := filling.Do(t.Context(), Request{URL: srv.URL}); abi.CodeOf(err) != abi.CodeNetFailed || !strings.Contains(err.Error(), "looked through") {
			t.Errorf("%s: %v", encoding, err)
		}
	}
	encoding = "identity"
	if res, err := filling.Do(t.Context(), Request{URL: srv.URL, Header: http.Header{"Accept-Encoding": {"identity"}}}); err != nil {
		t.Error(err)
	} else {
		_ = res.Body.Close()
	}
}

// Nobody who sends requests speaks for the session's lease.
func TestFencingHeaderIsTheHosts(t *testing.T) {
	c := New(Options{})
	defer c.Close()
	if _, err := c.Do(t.Context(), Request{URL: "http://a.example/", Header: http.Header{"x-blade-fencing-token": {"9"}}}); abi.CodeOf(err) != abi.CodeRequest || !strings.Contains(err.Error(), FencingHeader) {
		t.Error(err)
	}
}

// A request that may go to private addresses ends when it may no more.
func TestPrivateGrantIsTakenBack(t *testing.T) {
	going := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("first"))
		w.(http.Flusher).Flush()
		close(going)
		<-r.Context().Done()
	}))
	defer srv.Close()
	u, _ := url.Parse(srv.URL)
	name := "intra.example.com:" + u.Port()
	c := New(Options{Policy: Policy{Hosts: []string{name}, Private: []string{name}}, Resolver: dns(t, "127.0.0.1")})
	defer c.Close()
	res, err := c.Do(t.Context(), Request{URL: "http://" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	<-going
	c.SetPolicy(Policy{Hosts: []string{name}})
	if _, err := io.ReadAll(res.Body); abi.CodeOf(err) != abi.CodeNetBlocked {
		t.Errorf("%v", err)
	}
}
