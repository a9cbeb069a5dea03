package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
	"github.com/bladehost/bladehost/host/tool/tooltest"
)

const secret = "k-53cr3t"

func key(context.Context) (string, error) { return secret, nil }

// want is what every engine is made to answer.
var want = []Hit{{"First <b>hit</b>", "https://a.example.com/x", "Text &amp;lt; &amp; more"}, {"Second", "http://b.example.net/", "two"}}

// engines are the three engines with local servers that answer as theirs do.
func engines(t testing.TB, seen *http.Request) []Provider {
	t.Helper()
	serve := func(check func(r *http.Request) bool, wrap func(hits []map[string]string) any, text string) string {
		return server(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if seen != nil {
				*seen = *r.Clone(context.Background())
				seen.Body = io.NopCloser(strings.NewReader(string(body)))
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			if !check(r) {
				w.WriteHeader(401)
				return
			}
			var hits []map[string]string
			for _, h := range want {
				hits = append(hits, map[string]string{"title": h.Title, "url": h.URL, text: h.Text})
			}
			_ = json.NewEncoder(w).Encode(wrap(hits))
		})
	}
	plain := func(hits []map[string]string) any { return map[string]any{"results": hits, "query": "x"} }
	must := func(p Provider, err error) Provider {
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return []Provider{
		must(SearXNG(Engine{URL: serve(func(r *http.Request) bool {
			return r.URL.Path == "/sub/search" && r.URL.Query().Get("format") == "json" && r.URL.Query().Get("q") == "go & rust"
		}, plain, "content") + "/sub/"})),
		must(Brave(Engine{Key: key, URL: serve(func(r *http.Request) bool {
			return r.Header.Get("X-Subscription-Token") == secret && r.URL.Query().Get("q") == "go & rust" && strings.Contains("20 1", r.URL.Query().Get("count"))
		}, func(h []map[string]string) any { return map[string]any{"web": map[string]any{"results": h}} }, "description")})),
		must(Tavily(Engine{Key: key, URL: serve(func(r *http.Request) bool {
			var in struct {
				Query string
				Max   int `json:"max_results"`
			}
			return r.Method == "POST" && r.Header.Get("Authorization") == "Bearer "+secret && json.NewDecoder(r.Body).Decode(&in) == nil && in.Query == "go & rust" && (in.Max == 20 || in.Max == 1)
		}, plain, "content")})),
	}
}

// Each engine is asked as it wants, and its answer is read.
func TestEngines(t *testing.T) {
	var seen http.Request
	for _, p := range engines(t, &seen) {
		hits, err := p.Search(t.Context(), "go & rust", askHits)
		if err != nil || !slices.Equal(hits, want) {
			t.Errorf("%s: %+v %v", p.Name(), hits, err)
		}
		if hits, err := p.Search(t.Context(), "go & rust", 1); err != nil || len(hits) != 1 {
			t.Errorf("%s: %+v %v", p.Name(), hits, err)
		}
		if _, err := p.Search(t.Context(), "other", 1); abi.CodeOf(err) != codeStatus || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", p.Name(), err)
		}
	}
	none := func(context.Context) (string, error) { return "", errors.New("no secret of this name") }
	for _, make := range []func(Engine) (Provider, error){Brave, Tavily} {
		p, err := make(Engine{Key: none})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Search(t.Context(), "x", 1); abi.CodeOf(err) != codeNotProvided {
			t.Errorf("%v", err)
		}
	}
	for _, bad := range []string{"", "ftp://x/", "x", "http://a:b@c/"} {
		if _, err := SearXNG(Engine{URL: bad}); abi.CodeOf(err) != abi.CodeOptions {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Engines go through the proxy that is configured, to public addresses too.
func TestEngineProxy(t *testing.T) {
	n := newInternet(t, says("application/json", `{"results":[{"title":"t","url":"https://x.example/","content":"c"}]}`), nil)
	p, err := SearXNG(Engine{URL: "http://93.184.216.34/", Proxy: n.proxy})
	if err != nil {
		t.Fatal(err)
	}
	if hits, err := p.Search(t.Context(), "x", 1); err != nil || len(hits) != 1 || len(n.connects) != 1 || n.connects[0] != "93.184.216.34:80" {
		t.Errorf("%+v %v, %q", hits, err, n.connects)
	}
}

// An engine reaches its own host and no other, and its answers are bounded.
func TestEnginesAreHeld(t *testing.T) {
	elsewhere := false
	other := server(t, func(http.ResponseWriter, *http.Request) { elsewhere = true })
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		code abi.Code
	}{
		"redirect": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", other)
			w.WriteHeader(302)
		}, codeAddress},
		"no JSON":   {says("text/html", "<html>"), codeNotProvided},
		"wrong":     {says("application/json", `{"results":{"a":1}}`), codeNotProvided},
		"too much":  {says("application/json", `{"results":[],"x":"`+strings.Repeat("x", maxAnswer)+`"}`), codeLimit},
		"bomb":      {bomb, codeLimit},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, codeStatus},
	} {
		p, err := SearXNG(Engine{URL: server(t, c.h)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Search(t.Context(), "x", 1); abi.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if elsewhere {
		t.Error("a redirect was followed")
	}
}

// stub is a provider of a test.
type stub struct {
	name  string
	calls atomic.Int64
	do    func(ctx context.Context, n int) ([]Hit, error)
}

func (s *stub) Name() string { return s.name }

func (s *stub) Search(ctx context.Context, _ string, _ int) ([]Hit, error) {
	return s.do(ctx, int(s.calls.Add(1)))
}

func gives(name string, hits ...Hit) *stub {
	return &stub{name: name, do: func(context.Context, int) ([]Hit, error) { return hits, nil }}
}

func fails(name string, code abi.Code) *stub {
	return &stub{name: name, do: func(context.Context, int) ([]Hit, error) {
		return nil, failure(abi.TypeNetwork, code, "it is %s", name)
	}}
}

func searcher(t testing.TB, lim Limits, list ...*stub) *search {
	t.Helper()
	lim.RetryWait = time.Nanosecond
	o := Options{Limits: lim}
	for _, p := range list {
		o.Search = append(o.Search, p)
	}
	return newSearch(newShared(o))
}

func found1(t testing.TB, s *search, in string) (searchOut, *abi.Result) {
	t.Helper()
	var out searchOut
	r := run(t.Context(), s, config(in))
	if !r.IsError() {
		if err := json.Unmarshal(r.Model, &out); err != nil {
			t.Fatal(err)
		}
	}
	return out, r
}

// The first provider with results wins; failures and empty answers go on to the
// next.
func TestSearchProviders(t *testing.T) {
	hit := Hit{"T", "https://x.example/p?q=1", "s"}
	for name, c := range map[string]struct {
		list  []*stub
		from  string
		calls string
		n     int
	}{
		"first":                 {[]*stub{gives("a", hit), gives("b", hit)}, "a", "1 0", 1},
		"status":                {[]*stub{fails("a", codeStatus), gives("b", hit)}, "b", "1 1", 1},
		"network is retried":    {[]*stub{fails("a", codeConnect), gives("b", hit)}, "b", "3 1", 1},
		"names are retried":     {[]*stub{fails("a", codeDNS), gives("b", hit)}, "b", "3 1", 1},
		"empty goes on":         {[]*stub{gives("a"), gives("b", hit)}, "b", "1 1", 1},
		"empty, then a failure": {[]*stub{gives("a"), fails("b", codeStatus)}, "a", "1 1", 0},
		"all empty":             {[]*stub{gives("a"), gives("b")}, "a", "1 1", 0},
		"panics":                {[]*stub{{name: "a", do: func(context.Context, int) ([]Hit, error) { panic("x") }}, gives("b", hit)}, "b", "1 1", 1},
		"comes back": {[]*stub{{name: "a", do: func(_ context.Context, n int) ([]Hit, error) {
			if n < 3 {
				return nil, failure(abi.TypeNetwork, codeBroken, "x")
			}
			return []Hit{hit}, nil
		}}}, "a", "3", 1},
	} {
		s := searcher(t, Limits{}, c.list...)
		out, r := found1(t, s, `{"query":"  Query "}`)
		var calls []string
		for _, p := range c.list {
			calls = append(calls, fmt.Sprint(p.calls.Load()))
		}
		if r.IsError() || out.Provider != c.from || strings.Join(calls, " ") != c.calls || out.Total != c.n || out.Query != "  Query " || out.Fetched == "" {
			t.Errorf("%s: %+v after %v, %+v", name, out, calls, r.Error)
		}
	}
	s := searcher(t, Limits{}, fails("a", codeStatus), fails("b", codeConnect))
	_, r := found1(t, s, `{"query":"x y","allowed_domains":["a"]}`)
	if r.Error == nil || r.Error.Code != codeAllFailed || r.Error.Type != abi.TypeNetwork || !strings.Contains(r.Error.Message, "it is a") || !strings.Contains(r.Error.Message, "it is b") ||
		string(r.Error.Details) != `{"allowedDomains":["a"],"blockedDomains":[],"query":"x y"}` {
		t.Errorf("%+v %s", r.Error, r.Error.Details)
	}
	slow := &stub{name: "slow", do: func(ctx context.Context, _ int) ([]Hit, error) { <-ctx.Done(); return nil, ctx.Err() }}
	if out, r := found1(t, searcher(t, Limits{SearchTime: time.Millisecond}, slow, gives("b", hit)), `{"query":"xx"}`); r.IsError() || out.Provider != "b" {
		t.Errorf("%+v", r.Error)
	}
	ctx, cancel := context.WithCancel(t.Context())
	quits := &stub{name: "q", do: func(context.Context, int) ([]Hit, error) {
		cancel()
		return nil, failure(abi.TypeNetwork, codeConnect, "x")
	}}
	next := gives("n", hit)
	if r := run(ctx, searcher(t, Limits{}, quits, next), config(`{"query":"xx"}`)); !r.IsError() || quits.calls.Load() != 1 || next.calls.Load() != 0 {
		t.Errorf("%+v after %d and %d", r.Error, quits.calls.Load(), next.calls.Load())
	}
}

// What is shown of the hits.
func TestSearchResults(t *testing.T) {
	hits := []Hit{
		{"A &amp; <i>B</i>\n C", "https://WWW.Example.com/", "one <b>two</b> &amp;lt;tag&amp;gt; &lt;b&gt;"}, {"x", "javascript:alert(1)", ""}, {"x", "::", ""}, {"x", "ftp://a/", ""}, {"x", "https://u:p@a.example/", ""}, {"x", "//a.example/", ""},
		{"path", "https://sub.example.com/a/b?c#d", strings.Repeat("é", 500)}, {"net", "http://example.net:8080/x", ""},
	}
	s := searcher(t, Limits{}, gives("a", hits...))
	out, r := found1(t, s, `{"query":"xx"}`)
	if out.Total != 3 || r.Metadata["returned_results"] != 3 {
		t.Fatalf("%+v", out)
	}
	if g := out.Results[0]; g.Title != "A & B C" || g.Snippet != "one two &lt;tag&gt; <b>" || g.Display != "www.example.com" || g.Source != "www.example.com" || g.URL != "https://WWW.Example.com/" {
		t.Errorf("%+v", g)
	}
	if g := out.Results[1]; g.Display != "sub.example.com/a/b" || utfLen(g.Snippet) != maxSnippet {
		t.Errorf("%+v", g)
	}
	for in, want := range map[string]int{
		`"allowed_domains":["example.com"]`: 2, `"allowed_domains":["*.Example.COM."]`: 2, `"allowed_domains":["ample.com"]`: 0, `"blocked_domains":["example.com"]`: 1, `"allowed_domains":["example.com"],"blocked_domains":["sub.example.com"]`: 1, `"allowed_domains":[]`: 3,
	} {
		if out, _ := found1(t, s, `{"query":"xx",`+in+`}`); out.Total != want {
			t.Errorf("%s: %d", in, out.Total)
		}
	}
	var many []Hit
	for i := range 30 {
		many = append(many, Hit{fmt.Sprint(i), fmt.Sprintf("https://a.example/%d", i), ""})
	}
	if out, _ := found1(t, searcher(t, Limits{}, gives("a", many...)), `{"query":"xx"}`); len(out.Results) != maxHits || out.Total != 30 {
		t.Errorf("%d of %d", len(out.Results), out.Total)
	}
}

func utfLen(s string) int { return len([]rune(s)) }

// Answers with results are kept for the session, and filtered anew.
func TestSearchCache(t *testing.T) {
	p, empty := gives("a", Hit{"T", "https://x.example/", ""}), gives("b")
	s := searcher(t, Limits{}, p)
	now := time.Unix(1700000000, 0)
	s.now = func() time.Time { return now }
	one, _ := found1(t, s, `{"query":"Go Lang"}`)
	now = now.Add(59 * time.Minute)
	two, _ := found1(t, s, `{"query":" go lang ","blocked_domains":["x.example"]}`)
	if p.calls.Load() != 1 || two.Provider != "a (cached)" || two.Total != 0 || two.Fetched != one.Fetched {
		t.Errorf("%d calls, %+v", p.calls.Load(), two)
	}
	now = now.Add(2 * time.Minute)
	if three, _ := found1(t, s, `{"query":"go lang"}`); p.calls.Load() != 2 || three.Provider != "a" {
		t.Errorf("%d calls, %+v", p.calls.Load(), three)
	}
	c := config(`{"query":"go lang"}`)
	c.SessionID = "other"
	if run(t.Context(), s, c); p.calls.Load() != 3 {
		t.Error("another session has it too")
	}
	s = searcher(t, Limits{}, empty)
	found1(t, s, `{"query":"xx"}`)
	if found1(t, s, `{"query":"xx"}`); empty.calls.Load() != 2 {
		t.Error("nothing is kept")
	}
}

func TestSearchSuite(t *testing.T) {
	s := searcher(t, Limits{}, gives("a", Hit{"T", "https://x.example/", ""}))
	waits := searcher(t, Limits{SearchTime: time.Millisecond}, &stub{name: "w", do: func(ctx context.Context, _ int) ([]Hit, error) { <-ctx.Done(); return nil, ctx.Err() }})
	bad := []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"query":"x"}`), json.RawMessage(`{"query":"  "}`), json.RawMessage(`{"query":"xx","allowed_domains":[""]}`), json.RawMessage(`{"query":"xx","more":1}`)}
	tooltest.Run(t, tooltest.Case{New: func(testing.TB) tool.Tool { return s }, Input: json.RawMessage(`{"query":"xx"}`), Bad: bad})
	tooltest.Run(t, tooltest.Case{New: func(testing.TB) tool.Tool { return waits }, Input: json.RawMessage(`{"query":"xx"}`), Fails: true, Bad: bad})
	if b := tool.Static(s.Spec()); b.Kind != abi.KindReadOnly || b.SideEffect != abi.SideEffectPure || b.Interrupt != abi.InterruptCancel || !b.ConcurrencySafe {
		t.Errorf("%+v", b)
	}
	if got, rule := s.PermissionSignature(json.RawMessage(`{"query":" Go "}`)); got != "search:go" || rule != "search:*" {
		t.Errorf("%s %s", got, rule)
	}
	p, err := SearXNG(Engine{URL: "http://127.0.0.1:1/"})
	if err != nil {
		t.Fatal(err)
	}
	if got := Tools(Options{Search: []Provider{p}}); len(got) != 2 || got[1].Spec().Name != "WebSearch" {
		t.Error("with a provider there is no WebSearch")
	}
	if u, _ := url.Parse("http://127.0.0.1:1/"); p.Name() != "SearXNG("+u.Host+")" {
		t.Errorf("%s", p.Name())
	}
	if got, err := s.NormalizeInput(json.RawMessage(`{"query":"x","more":1}`)); err != nil || string(got) != `{"query":"x"}` {
		t.Errorf("%s %v", got, err)
	}
}

// FuzzHits: whatever an engine answers, what is shown is of http and https, clean
// and short.
func FuzzHits(f *testing.F) {
	f.Add("a <b>", "https://x/", "&lt;")
	f.Add("\xff", "javascript:x", strings.Repeat("<", 100))
	f.Fuzz(func(t *testing.T, title, u, text string) {
		for _, r := range clean([]Hit{{title, u, text}}) {
			if !strings.HasPrefix(r.URL, "http") || r.Source == "" || utf16(r.Snippet) > maxSnippet || utf16(r.Title) > 200 || strings.ContainsAny(r.Snippet+r.Title, "\n\r") {
				t.Fatalf("%+v", r)
			}
		}
	})
}

func utf16(s string) (n int) {
	for _, r := range s {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}

// One odd result does not take the others away, and what is wrong is said without the
// names of our types.
func TestOddAnswers(t *testing.T) {
	for body, want := range map[string]string{
		`{"results":[{"title":7,"url":"https://a.example/","content":true},{"title":"t","url":"https://b.example/","content":"c"}]}`: "[{7 https://a.example/ true} {t https://b.example/ c}]",
		`{"results":["x",null,[],{"title":{"a":1},"url":5}]}`:                                                                        "[{ 5 }]", `{"results":[]}`: "[]", `{"results":null}`: "[]", `{}`: "[]", `{"results":{}}`: "it has no list results", `[]`: "it has no list results", `{`: "it is no JSON", ``: "it is no JSON",
	} {
		got, err := resultsAt([]byte(body), "content", "results")
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if text != want {
			t.Errorf("%s: %s, want %s", body, text, want)
		}
	}
	p, err := SearXNG(Engine{URL: server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "https://new.example/path?secret")
		w.WriteHeader(301)
	})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Search(t.Context(), "x", 1); abi.CodeOf(err) != codeAddress || !strings.Contains(err.Error(), "https://new.example") || strings.Contains(err.Error(), "allowPrivateNetwork") {
		t.Errorf("%v", err)
	}
}

// A domain may be written as an address; what is none is refused, not ignored.
func TestSearchDomains(t *testing.T) {
	s := searcher(t, Limits{}, gives("p", Hit{"a", "https://docs.a.example/x", ""}, Hit{"b", "https://b.example/", ""}, Hit{"m", "https://m\u00fcnchen.example/", ""}, Hit{"x", "https://xn--mnchen-3ya.example/y", ""}))
	for domain, want := range map[string]int{
		"a.example": 1, "https://a.example/path?q#f": 1, "HTTP://A.Example:8080": 1, "*.a.example": 1, ".a.example.": 1, "a.example/docs": 1, " a.example ": 1, "example": 4, "m\u00fcnchen.example": 2, "https://xn--mnchen-3ya.example": 2, "c.example": 0, "ample": 0,
		"https://": -1, " ": -1, "a b": -1, "user@a.example": -1, "*": -1, "/": -1, ".": -1,
	} {
		for member, count := range map[string]int{"allowed_domains": want, "blocked_domains": 4 - want} {
			out, r := found1(t, s, `{"query":"query","`+member+`":[`+string(abi.String(domain))+`]}`)
			if want < 0 {
				if r.Error == nil || r.Error.Code != abi.CodeValidation {
					t.Errorf("%s %q: %+v", member, domain, r)
				}
			} else if r.IsError() || out.Total != count {
				t.Errorf("%s %q: %d results, want %d (%+v)", member, domain, out.Total, count, r.Error)
			}
		}
	}
}
