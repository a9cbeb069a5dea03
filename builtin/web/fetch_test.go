package web

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
	"github.com/bladehost/bladehost/host/tool/tooltest"
)

// Requests and what is told of their answers.
func TestFetch(t *testing.T) {
	u := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Add("X-Two", "1")
		w.Header().Add("X-Two", "2")
		fmt.Fprintf(w, "%s %s %q %q %q %q", r.Method, r.URL, r.Header.Get("User-Agent"), r.Header.Get("Content-Type"), r.Header.Get("X-Mine"), body)
	})
	f := local(t, Options{})
	for in, want := range map[string]string{
		input(u + "/a?b=c#d"):                   `GET /a?b=c "Blade-AI/1.0" "" "" ""`,
		input(u, `"method":"POST","body":"{}"`): `POST / "Blade-AI/1.0" "application/json" "" "{}"`,
		input(u, `"method":"PUT","body":"x","headers":{"content-type":"text/x","user-AGENT":"me","x-mine":"1"}`): `PUT / "me" "text/x" "1" "x"`,
		input(u, `"method":"DELETE"`):                                 `DELETE / "Blade-AI/1.0" "" "" ""`,
		input(u, `"body":"ignored"`):                                  `GET / "Blade-AI/1.0" "" "" ""`,
		input(u, `"method":"HEAD","body":"ignored"`):                  ``,
		input(u, `"extract_content":true,"method":"POST","body":"x"`): `GET / "Blade-AI/1.0" "" "" ""`,
		input(strings.ToUpper(u[:4])+u[4:], `"timeout":1000.0`):       `GET / "Blade-AI/1.0" "" "" ""`,
		input(u, `"follow_redirects":false,"max_redirects":0,"jina_options":{"wait_for_selector":"x"},"unknown":"dropped"`): `GET / "Blade-AI/1.0" "" "" ""`,
	} {
		r := get(t, f, in)
		out := ok(t, r)
		if out.Body != want || out.Status != 200 || out.StatusText != "OK" || out.Redirected || out.Chain == nil || out.Headers != nil {
			t.Errorf("%s: %+v", in, out)
		}
		for _, key := range []string{"url", "method", "status", "response_time", "content_length", "redirected", "redirect_count", "final_url", "content_type", "redirect_chain", "summary"} {
			if _, there := r.Metadata[key]; !there {
				t.Errorf("metadata has no %s", key)
			}
		}
	}
	if out := ok(t, get(t, f, input(u, `"return_headers":true`))); out.Headers["x-two"] != "1, 2" || out.Headers["content-type"] != "text/plain" {
		t.Errorf("%+v", out.Headers)
	}
}

// The catalogue of errors, a row each. BLT-05 BLT-06 BLT-08
func TestFetchErrors(t *testing.T) {
	mux := http.NewServeMux()
	for path, to := range map[string]string{"/loop": "/loop", "/none": "", "/file": "file:///etc/passwd", "/odd": "http://[::1", "/gopher": "gopher://x/"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if to != "" {
				w.Header().Set("Location", to)
			}
			w.WriteHeader(302)
		})
	}
	mux.HandleFunc("/500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); _, _ = io.WriteString(w, "the body") })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/drip", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "x"); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	})
	mux.HandleFunc("/short", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "short")
	})
	mux.HandleFunc("/head", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", 80<<10))
	})
	mux.HandleFunc("/fakezip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "this is no gzip at all")
	})
	mux.HandleFunc("/bomb", bomb)
	u := server(t, mux.ServeHTTP)
	secure := httptest.NewTLSServer(mux)
	defer secure.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + closed.Addr().String()
	_ = closed.Close()
	raw := rawServer(t, "this is not HTTP\r\n\r\n")

	open := local(t, Options{BlockedHosts: []string{"Blocked.example.", "192.0.2.9"}, Limits: Limits{MaxBody: 64 << 20}})
	public := fetcher(t, Options{resolver: (&internet{names: map[string]string{"inside.example.com": "10.0.0.7"}}).resolver()})
	listed := fetcher(t, Options{AllowedHosts: []string{"good.example.com", "127.0.0.1:80", "localhost:80"}, BlockedHosts: []string{"bad.good.example.com"}})
	nothing := fetcher(t, Options{AllowedHosts: []string{}})
	for name, c := range map[string]struct {
		f    *fetch
		in   string
		code abi.Code
		kind abi.ErrorType
	}{
		"ftp":                {open, input("ftp://127.0.0.1/x"), codeScheme, abi.TypePermission},
		"file":               {open, input("file:///etc/passwd"), codeScheme, abi.TypePermission},
		"data":               {open, input("data:text/plain,x"), codeScheme, abi.TypePermission},
		"javascript":         {open, input("javascript:alert(1)"), codeScheme, abi.TypePermission},
		"redirect to file":   {open, input(u + "/file"), codeScheme, abi.TypePermission},
		"redirect to gopher": {open, input(u + "/gopher"), codeScheme, abi.TypePermission},
		"redirect to junk":   {open, input(u + "/odd"), codeBroken, abi.TypeNetwork},
		"no address":         {open, input("not a url"), abi.CodeValidation, abi.TypeValidation},
		"empty":              {open, input(""), abi.CodeValidation, abi.TypeValidation},
		"no host":            {open, input("http:///x"), abi.CodeValidation, abi.TypeValidation},
		"user in address":    {open, input("http://a:b@127.0.0.1/"), abi.CodeValidation, abi.TypeValidation},
		"a header":           {open, input(u, `"headers":{"a b":"x"}`), abi.CodeValidation, abi.TypeValidation},
		"a header's value":   {open, input(u, `"headers":{"a":"x\r\nHost: evil"}`), abi.CodeValidation, abi.TypeValidation},
		"host header":        {open, input(u, `"headers":{"host":"evil"}`), abi.CodeValidation, abi.TypeValidation},
		"blocked":            {open, input("http://blocked.example/"), codeHost, abi.TypePermission},
		"below blocked":      {open, input("http://a.b.BLOCKED.example./"), codeHost, abi.TypePermission},
		"blocked address":    {open, input("http://192.0.2.9/"), codeHost, abi.TypePermission},
		"not listed":         {listed, input("https://example.com/"), codeHost, abi.TypePermission},
		"ends like listed":   {listed, input("https://evilgood.example.com/"), codeHost, abi.TypePermission},
		"blocked, listed":    {listed, input("https://x.bad.good.example.com/"), codeHost, abi.TypePermission},
		"listed, private":    {listed, input("http://127.0.0.1/"), codeAddress, abi.TypePermission},
		"listed, localhost":  {listed, input("http://localhost/"), codeAddress, abi.TypePermission},
		"empty list":         {nothing, input("https://example.com/"), codeHost, abi.TypePermission},
		"loopback":           {public, input(u), codeAddress, abi.TypePermission},
		"localhost":          {public, input("http://localhost:8080/"), codeAddress, abi.TypePermission},
		"decimal":            {public, input("http://2130706433/"), abi.CodeValidation, abi.TypeValidation},
		"metadata":           {public, input("http://169.254.169.254/latest/"), codeAddress, abi.TypePermission},
		"mapped":             {public, input("http://[::ffff:7f00:1]/"), codeAddress, abi.TypePermission},
		"private by DNS":     {public, input("http://inside.example.com/"), codeAddress, abi.TypePermission},
		"no such name":       {public, input("http://nothing.example.com/"), codeDNS, abi.TypeNetwork},
		"nobody there":       {open, input(gone), codeConnect, abi.TypeNetwork},
		"unknown issuer":     {open, input(secure.URL), codeTLS, abi.TypeNetwork},
		"no TLS":             {open, input("https" + u[4:]), codeTLS, abi.TypeNetwork},
		"no HTTP":            {open, input(raw), codeBroken, abi.TypeNetwork},
		"loop":               {open, input(u + "/loop"), codeTooMany, abi.TypeExecution},
		"no redirects":       {open, input(u+"/loop", `"max_redirects":0`), codeTooMany, abi.TypeExecution},
		"no Location":        {open, input(u + "/none"), codeNoLocation, abi.TypeExecution},
		"status":             {open, input(u + "/500"), codeStatus, abi.TypeExecution},
		"slow":               {open, input(u+"/slow", `"timeout":1000`), codeTimeout, abi.TypeTimeout},
		"endless, slow":      {open, input(u+"/drip", `"timeout":1000`), codeTimeout, abi.TypeTimeout},
		"wrong length":       {open, input(u + "/short"), codeBroken, abi.TypeNetwork},
		"huge header":        {open, input(u + "/head"), codeLimit, abi.TypeNetwork},
		"no gzip":            {open, input(u + "/fakezip"), codeBroken, abi.TypeNetwork},
		"gzip bomb":          {open, input(u + "/bomb"), codeLimit, abi.TypeNetwork},
		"wrong types":        {open, `{"url":1}`, abi.CodeValidation, abi.TypeValidation},
	} {
		t.Run(name, func(t *testing.T) {
			r := get(t, c.f, c.in)
			if r.Error == nil || r.Error.Code != c.code || r.Error.Type != c.kind || r.Error.Message == "" || r.Valid() != "" {
				t.Fatalf("%+v, want %s", r.Error, c.code)
			}
			var d struct{ Host string }
			if c.kind == abi.TypePermission && (json.Unmarshal(r.Error.Details, &d) != nil) {
				t.Errorf("no details: %s", r.Error.Details)
			}
		})
	}
	r := get(t, public, input("http://inside.example.com/"))
	if !strings.Contains(string(r.Error.Details), `"address":"10.0.0.7"`) || !strings.Contains(string(r.Error.Details), `"hop":0`) {
		t.Errorf("%s", r.Error.Details)
	}
	r = get(t, open, input(u+"/500"))
	if !strings.Contains(string(r.Error.Details), `"response_body":"the body"`) || !strings.Contains(r.ModelText(), "the body") || r.Metadata["status"] != 500 {
		t.Errorf("%s %s", r.Error.Details, r.ModelText())
	}
	if r := get(t, fetcher(t, Options{BlockedHosts: []string{"a b"}}), input("https://example.com/")); r.Error == nil || r.Error.Code != abi.CodeOptions {
		t.Errorf("%+v", r.Error)
	}
}

// Failures of the network are told apart by what is in their chain.
func TestNetworkCodes(t *testing.T) {
	s := newShared(Options{})
	for want, cause := range map[abi.Code]error{
		codeDNS: &net.DNSError{Name: "x"}, codeConnect: &net.OpError{Op: "dial", Err: errors.New("timed out")}, codeBroken: &net.OpError{Op: "read", Err: io.ErrUnexpectedEOF}, codeTLS: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
	} {
		err := s.explain(abi.NewError(abi.CodeNetFailed, "x").Because(fmt.Errorf("outer: %w", cause)), "https://example.com/", 0)
		if abi.CodeOf(err) != want || abi.AsError(err).Type != abi.TypeNetwork {
			t.Errorf("%T: %v, want %s", cause, err, want)
		}
	}
	stop := errors.New("stop")
	if err := s.explain(stop, "x", 0); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// bomb sends a small gzip of very much.
func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Content-Type", "text/plain")
	z := gzip.NewWriter(w)
	zeros := make([]byte, 1<<20)
	for range 40 {
		if _, err := z.Write(zeros); err != nil {
			return
		}
	}
	_ = z.Close()
}

// rawServer answers each connection with the same bytes.
func rawServer(t testing.TB, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // ends when the listener is closed
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return "http://" + l.Addr().String()
}

// BLT-07 BLT-09: every hop is judged anew, and credentials stay where they belong.
func TestFetchRedirects(t *testing.T) {
	var n *internet
	seen := map[string]http.Header{}
	n = newInternet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := r.URL.Query().Get("to")
		seen[r.Host] = r.Header.Clone()
		if to == "" {
			_, _ = io.WriteString(w, r.Method+" at "+r.Host)
			return
		}
		status := 302
		_, _ = fmt.Sscan(r.URL.Query().Get("status"), &status)
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	}), map[string]string{"one.example.com": "93.184.216.34", "two.example.com": "93.184.216.35", "inside.example.com": "10.0.0.7", "blocked.example.com": "93.184.216.36"})
	f := fetcher(t, Options{resolver: n.resolver(), Proxy: n.proxy, BlockedHosts: []string{"blocked.example.com"}})
	for name, c := range map[string]struct {
		to   string
		code abi.Code
	}{
		"to metadata":    {"http://169.254.169.254/", codeAddress},
		"to loopback":    {"http://127.0.0.1/", codeAddress},
		"to localhost":   {"http://localhost/", codeAddress},
		"to decimal":     {"http://2130706433/", abi.CodeValidation},
		"to inside name": {"http://inside.example.com/", codeAddress},
		"to blocked":     {"http://blocked.example.com/", codeHost},
		"to file":        {"file:///etc/passwd", codeScheme},
		"to user":        {"http://a:b@two.example.com/", abi.CodeValidation},
	} {
		r := get(t, f, input("http://one.example.com/?to="+c.to))
		if r.Error == nil || r.Error.Code != c.code {
			t.Errorf("%s: %+v, want %s", name, r.Error, c.code)
		}
		if c.code == codeAddress && !strings.Contains(string(r.Error.Details), `"hop":1`) {
			t.Errorf("%s: %s", name, r.Error.Details)
		}
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		in := input(fmt.Sprintf("http://one.example.com/?status=%d&to=http://two.example.com/", status), `"method":"POST","body":"b","headers":{"Authorization":"s","X-Api":"s","User-Agent":"me"}`)
		out := ok(t, get(t, f, in))
		method := "GET"
		if status >= 307 {
			method = "POST"
		}
		if out.Body != method+" at two.example.com" || out.Redirects != 1 || out.Chain[0] != fmt.Sprintf("%d → http://two.example.com/", status) || out.URL != "http://two.example.com/" {
			t.Errorf("%d: %+v", status, out)
		}
		h := seen["two.example.com"]
		if h.Get("Authorization")+h.Get("X-Api") != "" || h.Get("User-Agent") != "me" || (h.Get("Content-Type") != "") != (method == "POST") {
			t.Errorf("%d: %v went along", status, h)
		}
	}
	out := ok(t, get(t, f, input("http://one.example.com/?to=/same", `"headers":{"Authorization":"s"}`)))
	if seen["one.example.com"].Get("Authorization") != "s" || out.Redirects != 1 {
		t.Error("the same origin does not get them")
	}
	if out := ok(t, get(t, f, input("http://one.example.com/?to=/x", `"follow_redirects":false`))); out.Status != 302 || out.Redirected {
		t.Errorf("%+v", out)
	}
	// From https to http, and with another scheme or port, it is another origin.
	if _, err := follow(request{method: "GET", url: "https://a.example/"}, 302, "http://a.example/"); abi.CodeOf(err) != codeScheme {
		t.Errorf("%v", err)
	}
	for _, to := range []string{"https://a.example/", "http://a.example:81/", "//b.example/"} {
		next, err := follow(request{method: "GET", url: "http://a.example/x", header: map[string][]string{"Authorization": {"s"}}}, 302, to)
		if err != nil || len(next.header) != 0 {
			t.Errorf("%s: %+v %v", to, next, err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, at := range n.connects {
		if !strings.HasPrefix(at, "93.184.216.") {
			t.Errorf("a connection to %s was asked for", at)
		}
	}
}

// The domains of a turn narrow what the policy allows, at each hop.
func TestFetchDomainsOfTurn(t *testing.T) {
	n := newInternet(t, says("text/plain", "x"), map[string]string{"a.example.com": "93.184.216.34", "other.example.net": "93.184.216.34"})
	f := fetcher(t, Options{resolver: n.resolver(), Proxy: n.proxy})
	for u, want := range map[string]abi.Code{"http://a.example.com/": "", "http://other.example.net/": codeHost} {
		c := config(input(u))
		c.Snapshot = &tool.Snapshot{Context: abi.RuntimeContext{Capabilities: &abi.ContextCapabilities{Network: &abi.NetworkFacet{AllowDomains: []string{"example.com"}}}}}
		r := run(t.Context(), f, c)
		if (r.Error == nil) != (want == "") || (r.Error != nil && r.Error.Code != want) {
			t.Errorf("%s: %+v", u, r.Error)
		}
	}
}

// What bodies become.
func TestFetchBodies(t *testing.T) {
	f := local(t, Options{Limits: Limits{MaxBody: 1 << 20, MaxText: 1000}})
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	for name, c := range map[string]struct {
		kind, body, want, charset string
		base64, cut               bool
	}{
		"latin-1":          {kind: "text/html; charset=iso-8859-1", body: "caf\xe9", want: "café", charset: "windows-1252"},
		"lying charset":    {kind: "text/plain; charset=utf-8", body: "caf\xe9!", want: "caf\ufffd!"},
		"charset by meta":  {kind: "text/html", body: "<meta charset=shift_jis>\x90\xa2", want: "<meta charset=shift_jis>世", charset: "shift_jis"},
		"json":             {kind: "application/problem+json", body: `{"é":1}`, want: `{"é":1}`},
		"image":            {kind: "image/png", body: png, want: png, base64: true},
		"no type, text":    {kind: "", body: "plain", want: "plain"},
		"no type, image":   {kind: "application/octet-stream", body: png, want: png, base64: true},
		"long":             {kind: "text/plain", body: strings.Repeat("x", 2000), want: strings.Repeat("x", 1000), cut: true},
		"long, astral":     {kind: "text/plain", body: "x" + strings.Repeat("𝄞", 2000), want: "x" + strings.Repeat("𝄞", 499), cut: true},
		"long binary":      {kind: "image/png", body: strings.Repeat("\x00", 2000), want: strings.Repeat("\x00", 750), base64: true, cut: true},
		"over the cap":     {kind: "text/plain", body: strings.Repeat("x", 3<<20), want: strings.Repeat("x", 1000), cut: true},
		"empty":            {kind: "text/plain", body: "", want: ""},
		"broken type":      {kind: ";;;", body: "text", want: "text"},
		"NUL in plain":     {kind: "text/plain", body: "a\x00b", want: "a\x00b"},
		"no text but said": {kind: "text/html", body: "\xff\xfe\x00\x00", want: "\x00", charset: "utf-16le"},
	} {
		u := server(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{c.kind}
			_, _ = io.WriteString(w, c.body)
		})
		r := get(t, f, input(u))
		out := ok(t, r)
		got := out.Body
		if c.base64 {
			b, err := base64.StdEncoding.DecodeString(got)
			if err != nil || out.Encoding != "base64" {
				t.Errorf("%s: %v %q", name, err, out.Encoding)
			}
			got = string(b)
		}
		if got != c.want || out.Truncated != c.cut || (r.Metadata["truncated"] == true) != c.cut || !utf8.ValidString(out.Body) {
			t.Errorf("%s: %.100q, cut %v", name, got, out.Truncated)
		}
		if cs, _ := r.Metadata["charset"].(string); cs != c.charset {
			t.Errorf("%s: charset %q", name, cs)
		}
	}
}

const article = `<!doctype html><html><head><title>The &amp; Title</title><script>alert(1)</script></head><body>
<nav><a href="/home">Home</a><a href="/about">About</a></nav>
<article><h1>The &amp; Title</h1><p>First paragraph of the article, which is long enough to be taken for the content of the page, with a <a href="/rel?x=1">relative link</a> and <b>bold</b> words.</p>
<p>Second paragraph of the article, which is long enough as well, and goes on, and on, and on, so that nobody takes it for a menu.</p>
<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table><pre><code>x := 1
</code></pre><p><a href="javascript:alert(1)">bad</a> <a href="https://other.example/">other</a></p></article>
<footer>Imprint</footer></body></html>`

// extract_content gives Markdown, made here.
func TestFetchMarkdown(t *testing.T) {
	kind, body := "text/html; charset=utf-8", article
	u := server(t, func(w http.ResponseWriter, r *http.Request) { says(kind, body)(w, r) })
	f := local(t, Options{})
	out := ok(t, get(t, f, input(u+"/page", `"extract_content":true,"jina_options":{"with_links_summary":true}`)))
	for _, want := range []string{"# The & Title\n", "Source: " + u + "/page\n", "\n---\n", "**bold**", "[relative link](" + u + "/rel?x=1)", "| A", "x := 1", "## Links", "- https://other.example/"} {
		if !strings.Contains(out.Body, want) {
			t.Errorf("%q is not in\n%s", want, out.Body)
		}
	}
	for _, not := range []string{"alert(1)", "<p>", "Imprint"} {
		if strings.Contains(out.Body, not) {
			t.Errorf("%q is in\n%s", not, out.Body)
		}
	}
	if out.Kind != "text/markdown" {
		t.Errorf("%s", out.Kind)
	}
	// What is no HTML stays as it is; odd HTML is no reason to fail or to hang.
	kind, body = "application/json", `{"a":1}`
	if out := ok(t, get(t, f, input(u+"/json", `"extract_content":true`))); out.Body != body || out.Kind != kind {
		t.Errorf("%+v", out)
	}
	kind = "text/html"
	for name, html := range map[string]string{
		"empty": "", "no tags": "just words", "unclosed": "<p><b><i>x", "attributes": "<p " + strings.Repeat("a=b ", 50000) + ">x", "many": strings.Repeat("<p>x</p>", 20000), "nulls": "<p>\x00x\x00</p>",
		"tables": strings.Repeat("<table><tr><td>", 100) + "x", "entities": strings.Repeat("&amp;&#0;&#x110000;", 1000), "svg": "<svg><foreignObject><p>x</p></foreignObject></svg>", "comment": "<!--", "cdata": "<![CDATA[x", "title": "<title>" + strings.Repeat("t", 5000) + "</title>x",
	} {
		body = html
		r := get(t, f, input(u+"/"+strings.ReplaceAll(name, " ", "-"), `"extract_content":true`))
		if r.IsError() && r.Error.Code != codeMarkdown {
			t.Errorf("%s: %+v", name, r.Error)
		}
	}
	body = strings.Repeat("<div>", 100000) + "x"
	if r := get(t, f, input(u+"/deep", `"extract_content":true`)); !r.IsError() || r.Error.Code != codeMarkdown || r.Error.Type != abi.TypeExecution {
		t.Errorf("%+v", r.Error)
	}
}

// What no reader sees is gone before anything counts or reads it.
func TestReadable(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a<b>c": "a<b>c", "a<SCRIPT x=1>alert('<p>')</Script >b": "ab", "a<!-- <p> -->b": "ab", "a<!-- b": "a", "<scripts>a": "<scripts>a", "a<style/>x</style>b": "ab", "a<script>": "a", "a<script>b</script": "a", "<": "<", "a<svg><p>x</p></svg><p>y": "a<p>y", "<script": "<script", "a<noscript>b</noscript>c": "ac",
	} {
		if got := readable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	long := "<html><body>" + strings.Repeat("<script>"+strings.Repeat("x", 1000)+"</script>", 5000) + article
	if md, cut, err := markdown(long, "https://x.example/", readerOptions{}); err != nil || cut || !strings.Contains(md, "First paragraph") {
		t.Errorf("%.200q %v %v", md, cut, err)
	}
	if _, cut, err := markdown(article+strings.Repeat("<p>more</p>", maxHTML/10), "https://x.example/", readerOptions{}); err != nil || !cut {
		t.Errorf("a long page: cut %v, %v", cut, err)
	}
}

// The cache keeps plain GETs of a session, for as long as server and policy allow.
func TestFetchCache(t *testing.T) {
	hits, header := 0, ""
	u := server(t, func(w http.ResponseWriter, r *http.Request) {
		hits++
		if header != "" {
			w.Header().Set("Cache-Control", header)
		}
		w.Header().Set("Content-Type", "text/plain")
		if r.URL.Path == "/404" {
			w.WriteHeader(404)
		}
		fmt.Fprint(w, hits)
	})
	f := local(t, Options{})
	now := time.Unix(1700000000, 0)
	f.now = func() time.Time { return now }
	n := 0
	again := func(in string) bool {
		t.Helper()
		n++
		in = strings.ReplaceAll(in, "/N", fmt.Sprintf("/%d", n))
		for range 2 {
			if r := get(t, f, in); r.IsError() && r.Error.Code != codeStatus {
				t.Fatalf("%+v", r.Error)
			}
		}
		before := hits
		r := get(t, f, in)
		if cached := r.Metadata["cached"] == true; cached != (hits == before) {
			t.Errorf("%s: cached %v, %d hits", in, cached, hits-before)
		}
		return hits == before
	}
	for in, want := range map[string]bool{
		input(u + "/N"): true, input(u+"/N", `"extract_content":true`): true, input(u+"/N", `"headers":{"A":"b"}`): false, input(u+"/N", `"method":"HEAD"`): false, input(u+"/N", `"method":"POST"`): false, input(u+"/N", `"body":"x"`): false, input(u + "/404"): false,
	} {
		if got := again(in); got != want {
			t.Errorf("%s: cached %v", in, got)
		}
	}
	for h, want := range map[string]bool{"no-store": false, "private, max-age=60": false, "No-Cache": false, "max-age=0": false, "max-age=60": true, "public": true, "max-age=junk": false} {
		header = h
		if got := again(input(u + "/N")); got != want {
			t.Errorf("%s: cached %v", h, got)
		}
	}
	header = "max-age=60"
	get(t, f, input(u+"/age"))
	for _, c := range []struct {
		pass time.Duration
		hit  bool
	}{{59 * time.Second, true}, {2 * time.Second, false}} {
		now = now.Add(c.pass)
		before := hits
		if get(t, f, input(u+"/age")); (hits == before) != c.hit {
			t.Errorf("after %v: %v", c.pass, hits == before)
		}
	}
	header = ""
	get(t, f, input(u+"/x"))
	other := config(input(u + "/x"))
	other.SessionID = "other"
	if r := run(t.Context(), f, other); r.Metadata["cached"] == true {
		t.Error("another session has it too")
	}
	other.SessionID = ""
	if run(t.Context(), f, other); run(t.Context(), f, other).Metadata["cached"] == true {
		t.Error("nobody's session has a cache")
	}
	// The policy is asked again.
	host := strings.TrimPrefix(u, "http://")
	p := f.client.Policy()
	p.Blocked = []string{host}
	f.client.SetPolicy(p)
	if r := get(t, f, input(u+"/x")); r.Error == nil || r.Error.Type != abi.TypePermission {
		t.Errorf("%+v", r)
	}
	p.Blocked = nil
	f.client.SetPolicy(p)
	if err := f.EndSession(t.Context(), testSession); err != nil {
		t.Error(err)
	}
	if r := get(t, f, input(u+"/x")); r.Metadata["cached"] == true {
		t.Error("it outlives its session")
	}
}

func TestCacheBounds(t *testing.T) {
	c := newCache(3, 100)
	now, later := time.Unix(1, 0), time.Unix(100, 0)
	for i := range 5 {
		c.put(fmt.Sprint(i), i, 10, later)
	}
	if c.get("0", now) != nil || c.get("1", now) != nil || c.get("2", now) != 2 || len(c.byKey) != 3 || c.used != 30 {
		t.Errorf("%v %d", c.byKey, c.used)
	}
	c.put("big", 1, 101, later)
	c.put("fits", 1, 85, later)
	if c.get("big", now) != nil || c.get("fits", now) != 1 || len(c.byKey) != 2 || c.get("2", now) != 2 {
		t.Errorf("%v %d", c.byKey, c.used)
	}
	if c.get("fits", later) != nil || c.used != 10 {
		t.Errorf("it does not end: %d", c.used)
	}
	c.put("2", 3, 20, later)
	if c.get("2", now) != 3 || c.used != 20 {
		t.Errorf("%d", c.used)
	}
}

// A call that is cancelled ends at once.
func TestFetchCancel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	u := server(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel(&tool.CancelError{Reason: abi.CancelRequest})
		<-r.Context().Done()
	})
	r := run(ctx, local(t, Options{}), config(input(u)))
	if r.Error == nil || r.Error.Code != codeAborted {
		t.Errorf("%+v", r.Error)
	}
}

// BLT-01 BLT-10: what a call does depends on its method.
func TestFetchBehavior(t *testing.T) {
	f := fetcher(t, Options{})
	for in, want := range map[string]string{
		"": "readonly pure true true false", input("https://x.example/"): "readonly pure true true false", `{"url":"x","method":"GET"}`: "readonly pure true true false", `{"url":"x","method":"HEAD"}`: "readonly pure true true false",
		`{"url":"x","method":"PUT"}`: "execute idempotent false false false", `{"url":"x","method":"DELETE"}`: "execute idempotent false false true", `{"url":"x","method":"POST"}`: "execute non_idempotent false false false",
		`{"url":"x","method":"PATCH"}`: "execute non_idempotent false false false", `{"url":"x","method":"get"}`: "execute non_idempotent false false false", `{"url":1}`: "execute non_idempotent false false false", `[]`: "execute non_idempotent false false false",
		`{"url":"x","timeout":"1000","method":"GET"}`: "readonly pure true true false", `{"url":"x","timeout":"x"}`: "execute non_idempotent false false false",
	} {
		var raw json.RawMessage
		if in != "" {
			raw = json.RawMessage(in)
		}
		b, widened := tool.Resolve(f, raw)
		if got := fmt.Sprint(b.Kind, " ", b.SideEffect, " ", b.ReadOnly, " ", b.ConcurrencySafe, " ", b.Destructive); got != want || widened != 0 || b.Interrupt != abi.InterruptCancel {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		input("https://Docs.Example.com:8443/x?y"): "domain:docs.example.com", input("http://[::1]/"): "domain:::1", input("http://ｅxample.com/"): "domain:example.com", input("http://example.com./"): "domain:example.com", input("ftp://A/"): "domain:a",
	} {
		if got, rule := f.PermissionSignature(json.RawMessage(in)); got != want || rule != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	got, err := f.NormalizeInput(json.RawMessage(`{"url":"u","timeout":"2000","extract_content":"yes","follow_redirects":"0","jina_options":{"with_links_summary":"on","x":1},"more":1,"max_redirects":"3"}`))
	if want := `{"extract_content":true,"follow_redirects":false,"jina_options":{"with_links_summary":true},"max_redirects":"3","timeout":2000,"url":"u"}`; err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{"host": {AllowedHosts: []string{"http://x"}}, "star": {BlockedHosts: []string{"*"}}, "provider": {Search: []Provider{nil}}} {
		if abi.CodeOf(o.Check()) != abi.CodeOptions {
			t.Errorf("%s: %v", name, o.Check())
		}
	}
	for in, want := range map[string]string{"Example.COM.": "example.com", "*.A.example": "*.a.example", "bücher.example": "xn--bcher-kva.example", "*.bücher.example:80": "*.xn--bcher-kva.example:80", "[::1]:80": "[::1]:80", "::1": "::1", "10.0.0.1:80": "10.0.0.1:80", "x:y:z": "x:y:z", "": ""} {
		if got := cleanPattern(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if err := (Options{AllowedHosts: []string{"Example.COM.", "bücher.example", "*.a.example", "10.0.0.1:80", "[::1]:80", "::1", "a.example:8080"}}).Check(); err != nil {
		t.Error(err)
	}
}

// FuzzFetchURL: whatever the address, nothing private is reached, and no error is
// without a code.
func FuzzFetchURL(f *testing.F) {
	for _, s := range []string{"http://127.0.0.1/", "http://[::1]/", "https://example.com/", "http://0x7f.1/", "http://a@b/", "//x", "HTTP://LOCALHOST./", "http://127。0。0。1/", "http://1.1.1.1:22/", "%", "http://x/\x00"} {
		f.Add(s)
	}
	// Nothing resolves, so nothing is ever reached.
	tool := newFetch(newShared(Options{resolver: (&internet{}).resolver(), Proxy: nil, AllowedHosts: []string{"example.com", "127.0.0.1:80", "localhost:80"}}))
	f.Fuzz(func(t *testing.T, u string) {
		r := get(t, tool, input(u, `"timeout":1000`))
		if r.Error == nil || r.Error.Code == "" || r.Valid() != "" {
			t.Fatalf("%q: %+v", u, r)
		}
		switch r.Error.Code {
		case codeScheme, codeHost, codeAddress, codeDNS, abi.CodeValidation:
		default:
			t.Fatalf("%q: %+v", u, r.Error)
		}
	})
}

// FuzzMarkdown: whatever the page, there is text or an error, and no script of it.
func FuzzMarkdown(f *testing.F) {
	f.Add(article, true)
	f.Add("<a href='//x'>y<table><td>", false)
	f.Fuzz(func(t *testing.T, page string, links bool) {
		md, _, err := markdown(page, "https://example.com/x", readerOptions{Links: links})
		if err == nil && (md == "" || !strings.Contains(md, "https://example.com/x")) {
			t.Fatalf("%q: %q", page, md)
		}
	})
}

func TestFetchSuite(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", says("text/plain", "x"))
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	u := server(t, mux.ServeHTTP)
	f := local(t, Options{})
	tooltest.Run(t, tooltest.Case{
		New: func(testing.TB) tool.Tool { return f }, Input: json.RawMessage(input(u)), Slow: json.RawMessage(input(u+"/slow", `"timeout":120000`)),
		Bad: []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"url":"x","method":"TRACE"}`), json.RawMessage(`{"url":"x","timeout":999}`), json.RawMessage(`{"url":"x","timeout":120001}`), json.RawMessage(`{"url":"x","max_redirects":11}`), json.RawMessage(`{"url":"x","jina_options":{"more":1}}`)},
	})
	if got := Tools(Options{}); len(got) != 1 || got[0].Spec().Name != "WebFetch" {
		t.Error("without a provider there is only WebFetch")
	}
}
