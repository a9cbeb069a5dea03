package main

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const theToken = "ghp_0123456789abcdefTOKEN"

type object = map[string]any

// github is a server on this machine that behaves as GitHub's REST API: pages
// with Link, ETags, rate limits, errors with bodies, redirects of renamed
// repositories, and files in base64 or as they are.
type github struct {
	*httptest.Server
	t *testing.T
	// prefix is where the API begins, as on an Enterprise Server.
	prefix string
	// answer takes a request before the API does, and reports whether it answered.
	answer func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	seen     []*http.Request
	bodies   []string
	issues   []object
	pulls    []object
	comments map[string][]object
	reviews  []object
	changed  []object
	files    map[string][]byte
	folder   map[string][]object
	code     []object
	repos    []object
	left     int
	accepted string // by the newest request
	auth     string // of any request
}

func newGitHub(t *testing.T) *github {
	g := &github{t: t, comments: map[string][]object{}, files: map[string][]byte{}, folder: map[string][]object{}, left: 5000}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *github) base() string { return g.URL + g.prefix }

// answering sets answer while an earlier request may still be with it.
func (g *github) answering(f func(w http.ResponseWriter, r *http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer = f
}

// requests are the methods and addresses so far, and empties the list.
func (g *github) requests() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for _, r := range g.seen {
		out = append(out, r.Method+" "+r.URL.RequestURI())
	}
	g.seen = nil
	return out
}

// last is the newest request.
func (g *github) last() *http.Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.seen) == 0 {
		g.t.Fatal("there was no request")
	}
	return g.seen[len(g.seen)-1]
}

func (g *github) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g.mu.Lock()
	g.seen, g.bodies = append(g.seen, r.Clone(r.Context())), append(g.bodies, string(body))
	g.left--
	g.accepted = r.Header.Get("Accept")
	g.auth += r.Header.Get("Authorization")
	left, answer := g.left, g.answer
	g.mu.Unlock()
	h := w.Header()
	h.Set("X-GitHub-Request-Id", "ABCD:1234")
	h.Set("X-RateLimit-Limit", "5000")
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10))
	h.Set("X-RateLimit-Resource", "core")
	if answer != nil && answer(w, r) {
		return
	}
	switch auth := r.Header.Get("Authorization"); {
	case auth != "" && auth != "Bearer "+theToken:
		say(w, 401, object{"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest"})
		return
	case r.Header.Get("User-Agent") == "" || r.Header.Get("X-GitHub-Api-Version") != apiVersion:
		say(w, 403, object{"message": "Request forbidden by administrative rules."})
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, g.prefix)
	if !ok {
		say(w, 404, object{"message": "Not Found"})
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.route(w, r, strings.Split(strings.Trim(path, "/"), "/"), body)
}

func (g *github) route(w http.ResponseWriter, r *http.Request, p []string, body []byte) {
	notFound := func() {
		say(w, 404, object{"message": "Not Found", "documentation_url": "https://docs.github.com/rest"})
	}
	if p[0] == "search" && len(p) == 2 {
		g.search(w, r, p[1])
		return
	}
	if p[0] == "repos" && len(p) >= 3 && p[1] == "octo" && p[2] == "old" {
		to := g.base() + "/repositories/1" + strings.TrimPrefix(r.URL.Path, g.prefix+"/repos/octo/old")
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		w.Header().Set("Location", to)
		say(w, 301, object{"message": "Moved Permanently", "url": to})
		return
	}
	switch {
	case p[0] == "repositories" && len(p) >= 2 && p[1] == "1":
		p = p[2:]
	case p[0] == "repos" && len(p) >= 3 && p[1] == "octo" && p[2] == "hello":
		p = p[3:]
	default:
		notFound()
		return
	}
	at := strings.Join(p, "/")
	switch {
	case at == "":
		g.one(w, r, object{"full_name": "octo/hello"})
	case at == "issues":
		if s := r.URL.Query().Get("state"); s != "" && !slices.Contains([]string{"open", "closed", "all"}, s) {
			say(w, 422, object{"message": "Validation Failed", "errors": []object{{"resource": "Issue", "field": "state", "code": "invalid"}}})
			return
		}
		g.page(w, r, g.issues, nil)
	case at == "pulls":
		g.page(w, r, g.pulls, nil)
	case len(p) == 2 && (p[0] == "issues" || p[0] == "pulls"):
		for _, i := range map[string][]object{"issues": g.issues, "pulls": g.pulls}[p[0]] {
			if fmt.Sprint(i["number"]) == p[1] {
				g.one(w, r, i)
				return
			}
		}
		notFound()
	case len(p) == 3 && p[0] == "issues" && p[2] == "comments" && r.Method == "POST":
		g.comment(w, r, p[1], body)
	case len(p) == 3 && p[0] == "issues" && p[2] == "comments":
		g.page(w, r, g.comments[p[1]], nil)
	case len(p) == 3 && p[0] == "pulls" && p[2] == "files":
		g.page(w, r, g.changed, nil)
	case len(p) == 3 && p[0] == "pulls" && p[2] == "comments":
		g.page(w, r, g.reviews, nil)
	case p[0] == "contents":
		g.contents(w, r, strings.Join(p[1:], "/"))
	case len(p) == 3 && p[0] == "git" && p[1] == "blobs":
		for _, b := range g.files {
			if sha(b) == p[2] && r.Header.Get("Accept") == mediaRaw {
				_, _ = w.Write(b)
				return
			}
		}
		notFound()
	default:
		notFound()
	}
}

func (g *github) comment(w http.ResponseWriter, r *http.Request, number string, body []byte) {
	var in struct {
		Body string `json:"body"`
	}
	switch {
	case r.Header.Get("Authorization") == "":
		say(w, 401, object{"message": "Requires authentication"})
	case json.Unmarshal(body, &in) != nil || r.Header.Get("Content-Type") != "application/json":
		say(w, 400, object{"message": "Problems parsing JSON"})
	case in.Body == "":
		say(w, 422, object{"message": "Validation Failed", "errors": []object{{"resource": "IssueComment", "code": "unprocessable", "field": "data", "message": "Body cannot be blank"}}})
	default:
		c := comment0(len(g.comments[number])+1, in.Body)
		g.comments[number] = append(g.comments[number], c)
		say(w, 201, c)
	}
}

func (g *github) search(w http.ResponseWriter, r *http.Request, kind string) {
	if kind == "code" && r.Header.Get("Authorization") == "" {
		say(w, 401, object{"message": "Requires authentication", "errors": []object{{"message": "Must be authenticated to access the code search API", "resource": "Search", "field": "q", "code": "invalid"}}})
		return
	}
	list := map[string][]object{"issues": g.issues, "code": g.code, "repositories": g.repos}[kind]
	g.page(w, r, list, func(part []object) any {
		return object{"total_count": len(list), "incomplete_results": false, "items": part}
	})
}

func (g *github) contents(w http.ResponseWriter, r *http.Request, path string) {
	if ref := r.URL.Query().Get("ref"); ref != "" && ref != "main" && ref != "feature/x" {
		say(w, 404, object{"message": "No commit found for the ref " + ref})
		return
	}
	if list, ok := g.folder[path]; ok {
		g.one(w, r, object{"type": "dir", "path": path, "name": path, "size": 0, "entries": list, "html_url": "https://github.com/octo/hello/tree/main/" + path})
		return
	}
	b, ok := g.files[path]
	if !ok {
		say(w, 404, object{"message": "Not Found"})
		return
	}
	out := object{"type": "file", "path": path, "name": path, "sha": sha(b), "size": len(b), "encoding": "base64", "html_url": "https://github.com/octo/hello/blob/main/" + path}
	if len(b) > 1<<20 {
		out["encoding"], out["content"] = "none", ""
	} else {
		out["content"] = lines(base64.StdEncoding.EncodeToString(b))
	}
	g.one(w, r, out)
}

// lines breaks a text after every 60 characters, as GitHub does.
func lines(s string) string {
	var b strings.Builder
	for len(s) > 60 {
		b.WriteString(s[:60] + "\n")
		s = s[60:]
	}
	return b.String() + s + "\n"
}

// page answers with one page of a list and the field Link.
func (g *github) page(w http.ResponseWriter, r *http.Request, list []object, wrap func([]object) any) {
	q := r.URL.Query()
	n, _ := strconv.Atoi(q.Get("page"))
	n = max(1, n)
	per, _ := strconv.Atoi(q.Get("per_page"))
	if per <= 0 || per > 100 {
		per = 30
	}
	pages := (len(list) + per - 1) / per
	var rels []string
	add := func(page int, rel string) {
		q.Set("page", strconv.Itoa(page))
		rels = append(rels, fmt.Sprintf(`<%s%s?%s>; rel="%s"`, g.URL, r.URL.Path, q.Encode(), rel))
	}
	if n > 1 {
		add(n-1, "prev")
	}
	if n < pages {
		add(n+1, "next")
		add(pages, "last")
	}
	if n > 1 {
		add(1, "first")
	}
	if rels != nil {
		w.Header().Set("Link", strings.Join(rels, ", "))
	}
	part := append([]object{}, list[min(len(list), (n-1)*per):min(len(list), n*per)]...)
	if wrap != nil {
		g.one(w, r, wrap(part))
		return
	}
	g.one(w, r, part)
}

// one answers with JSON and its ETag, or with 304.
func (g *github) one(w http.ResponseWriter, r *http.Request, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		g.t.Error(err)
	}
	tag := fmt.Sprintf(`W/"%x"`, sha256.Sum256(b))
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(304)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(b)
}

func say(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func sha(b []byte) string {
	s := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(b), b))
	return hex.EncodeToString(s[:])
}

func issue(n int) object {
	return object{
		"number": n, "title": fmt.Sprintf("Issue %d", n), "state": "open", "state_reason": nil, "user": object{"login": "ada"}, "body": fmt.Sprintf("The text of %d.", n),
		"labels": []any{object{"name": "bug", "color": "ff0000"}, "help"}, "assignees": []object{{"login": "bob"}}, "milestone": object{"title": "v1"}, "comments": 0,
		"repository_url": "https://api.github.com/repos/octo/hello", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z", "closed_at": nil,
		"html_url": fmt.Sprintf("https://github.com/octo/hello/issues/%d", n), "reactions": object{"+1": 3}, "node_id": strings.Repeat("x", 60),
	}
}

func pull(n int) object {
	p := issue(n)
	for k, v := range (object{
		"title": fmt.Sprintf("Pull %d", n), "draft": true, "merged": false, "merged_at": nil, "mergeable": true, "mergeable_state": "clean", "requested_reviewers": []object{{"login": "eve"}},
		"head": object{"label": "ada:topic", "ref": "topic", "sha": strings.Repeat("ab", 20)}, "base": object{"label": "octo:main", "ref": "main", "sha": strings.Repeat("cd", 20)},
		"commits": 2, "additions": 10, "deletions": 3, "changed_files": 0, "review_comments": 0, "html_url": fmt.Sprintf("https://github.com/octo/hello/pull/%d", n),
	}) {
		p[k] = v
	}
	return p
}

func comment0(id int, body string) object {
	return object{
		"id": id, "user": object{"login": "ada"}, "body": body, "author_association": "MEMBER", "created_at": "2026-01-03T00:00:00Z", "updated_at": "2026-01-03T00:00:00Z",
		"html_url": fmt.Sprintf("https://github.com/octo/hello/issues/1#issuecomment-%d", id),
	}
}
