package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/caps/http"
)

// maxAnswer bounds the answer of a search engine, in bytes.
const maxAnswer = 4 << 20

// Key gives the key of a search engine. It is asked for each search, so that one
// that was missing works as soon as it is there.
type Key func(ctx context.Context) (string, error)

// Engine says how a search engine is reached.
type Engine struct {
	// URL is its address; empty means the engine's own, where it has one.
	URL string
	// Key gives its key, for engines that want one.
	Key Key
	// Proxy is an HTTP proxy, as http://host:port, or nil.
	Proxy *url.URL
}

// engine is a search engine that answers with JSON. Its client reaches its own host
// and no other; that host may be private, because whoever configured it chose it.
type engine struct {
	name    string
	base    *url.URL
	client  *http.Client
	key     Key
	request func(base url.URL, query string, n int, key string) (http.Request, error)
	hits    func(body []byte) ([]Hit, error)
}

func newEngine(e engine, at Engine) (Provider, error) {
	t, err := http.ParseTarget(at.URL)
	if err != nil {
		return nil, abi.NewError(abi.CodeOptions, "the address of %s: %v", e.name, err)
	}
	e.base, e.key = t.URL, at.Key
	host := net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	p := http.Policy{Hosts: []string{host}}
	if !t.Addr.IsValid() {
		p.Private = []string{host}
	}
	e.client = http.New(http.Options{Policy: p, Proxy: at.Proxy, Limits: http.Limits{MaxBody: maxAnswer}})
	return &e, nil
}

// Name is the engine's.
func (e *engine) Name() string { return e.name }

// Search asks the engine.
func (e *engine) Search(ctx context.Context, query string, n int) ([]Hit, error) {
	key := ""
	if e.key != nil {
		var err error
		if key, err = e.key(ctx); err != nil {
			return nil, failure(abi.TypeExecution, codeNotProvided, "its key is missing: %v", err)
		}
	}
	req, err := e.request(*e.base, query, n, key)
	if err != nil {
		return nil, err
	}
	req.Redirect = http.Manual
	res, err := e.client.Do(ctx, req)
	defer e.client.Close()
	if err != nil {
		return nil, new(shared).explain(err, e.base.String(), 0)
	}
	defer func() { _ = res.Body.Close() }() // read to its end below
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, new(shared).explain(err, e.base.String(), 0)
	}
	if to, err := e.base.Parse(res.Header.Get("Location")); err == nil && res.Status >= 300 && res.Status <= 399 && to.Host != "" {
		return nil, failure(abi.TypePermission, codeAddress, "it redirects to %s, and redirects of search engines are not followed; give the address that it redirects to as its own", clip(to.Scheme+"://"+to.Host))
	}
	if res.Status < 200 || res.Status > 299 {
		return nil, failure(abi.TypeNetwork, codeStatus, "it answered with status %d", res.Status)
	}
	hits, err := e.hits(body)
	if err != nil {
		return nil, failure(abi.TypeExecution, codeNotProvided, "its answer cannot be used: %v", err)
	}
	return hits[:min(len(hits), n)], nil
}

// resultsAt are the hits of the list at a path of an answer; text is the member that has
// a hit's text. A hit that is no object is left out, and a member that is a number is
// text.
func resultsAt(body []byte, text string, path ...string) ([]Hit, error) {
	if !json.Valid(body) {
		return nil, errors.New("it is no JSON")
	}
	raw := json.RawMessage(body)
	for _, name := range path {
		var obj map[string]json.RawMessage
		if json.Unmarshal(raw, &obj) != nil {
			return nil, errors.New("it has no list " + strings.Join(path, "."))
		}
		if raw = obj[name]; raw == nil {
			return []Hit{}, nil // nothing was found
		}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, errors.New("it has no list " + strings.Join(path, "."))
	}
	out := make([]Hit, 0, len(list))
	for _, item := range list {
		var m map[string]any
		if json.Unmarshal(item, &m) == nil && m != nil {
			out = append(out, Hit{asText(m["title"]), asText(m["url"]), asText(m[text])})
		}
	}
	return out, nil
}

func asText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// SearXNG asks an instance of SearXNG, or of what answers like one, at its address.
// The instance must allow the format json.
func SearXNG(at Engine) (Provider, error) {
	e := engine{
		name: "SearXNG",
		request: func(u url.URL, query string, _ int, _ string) (http.Request, error) {
			u.Path = strings.TrimSuffix(u.Path, "/") + "/search"
			u.RawQuery = url.Values{"q": {query}, "format": {"json"}, "categories": {"general"}}.Encode()
			return http.Request{URL: u.String()}, nil
		},
		hits: func(body []byte) ([]Hit, error) { return resultsAt(body, "content", "results") },
	}
	if u, err := url.Parse(at.URL); err == nil {
		e.name = "SearXNG(" + u.Host + ")"
	}
	return newEngine(e, at)
}

// Addresses of the engines that need a key.
const (
	BraveURL  = "https://api.search.brave.com/res/v1/web/search"
	TavilyURL = "https://api.tavily.com/search"
)

// Brave asks Brave Search with a key, by default at BraveURL.
func Brave(at Engine) (Provider, error) {
	if at.URL == "" {
		at.URL = BraveURL
	}
	return newEngine(engine{
		name: "Brave",
		request: func(u url.URL, query string, n int, key string) (http.Request, error) {
			u.RawQuery = url.Values{"q": {query}, "count": {strconv.Itoa(min(n, 20))}}.Encode() // the API's own limit
			return http.Request{URL: u.String(), Header: map[string][]string{"X-Subscription-Token": {key}, "Accept": {"application/json"}}}, nil
		},
		hits: func(body []byte) ([]Hit, error) { return resultsAt(body, "description", "web", "results") },
	}, at)
}

// Tavily asks Tavily with a key, by default at TavilyURL.
func Tavily(at Engine) (Provider, error) {
	if at.URL == "" {
		at.URL = TavilyURL
	}
	return newEngine(engine{
		name: "Tavily",
		request: func(u url.URL, query string, n int, key string) (http.Request, error) {
			body, err := abi.Marshal(map[string]any{"query": query, "max_results": min(n, 20)}) // the API's own limit
			if err != nil {
				return http.Request{}, fmt.Errorf("the query: %w", err)
			}
			return http.Request{Method: "POST", URL: u.String(), Body: body,
				Header: map[string][]string{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}, "Accept": {"application/json"}}}, nil
		},
		hits: func(body []byte) ([]Hit, error) { return resultsAt(body, "content", "results") },
	}, at)
}
