package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk/pdktest"
)

func many(n int, make func(int) object) []object {
	out := []object{}
	for i := range n {
		out = append(out, make(i+1))
	}
	return out
}

func TestListIssues(t *testing.T) {
	g := newGitHub(t)
	g.issues = many(250, func(n int) object {
		i := issue(n)
		if n%5 == 0 {
			i["pull_request"] = object{"url": "x"}
		}
		return i
	})
	h := lend(t, g, "")
	list := func(more object) (issueList, *pdktest.Outcome) {
		t.Helper()
		var out issueList
		o := h.Run("GitHubListIssues", of(more))
		o.Data(&out)
		return out, o
	}
	t.Run("the default", func(t *testing.T) {
		out, o := list(nil)
		if out.Count != 30 || !out.More || len(out.Issues) != 30 || out.Repository != "octo/hello" {
			t.Fatalf("%+v", out)
		}
		want := `{"number":1,"title":"Issue 1","state":"open","author":"ada","labels":["bug","help"],"assignees":["bob"],"milestone":"v1","createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-02T00:00:00Z","url":"https://github.com/octo/hello/issues/1"}`
		if !strings.Contains(string(o.Result.Data), want) {
			t.Errorf("no %s in %s", want, o.Result.Data)
		}
		if slices.ContainsFunc(out.Issues, func(l issueLine) bool { return l.Number%5 == 0 }) {
			t.Error("a pull request is among the issues")
		}
		if got := g.requests(); len(got) != 1 || got[0] != "GET /repos/octo/hello/issues?per_page=60" {
			t.Errorf("%v", got)
		}
	})
	t.Run("several pages, with progress", func(t *testing.T) {
		out, o := list(object{"limit": 1000, "state": "all", "labels": []string{"bug", "good first issue"}, "sort": "updated", "direction": "asc", "assignee": "*", "creator": "a&b", "since": "2026-01-02T03:04:05Z"})
		if out.Count != 200 || out.More {
			t.Errorf("%d issues, more %v", out.Count, out.More)
		}
		got := g.requests()
		if len(got) != 3 || !strings.Contains(got[2], "page=3") {
			t.Fatalf("%v", got)
		}
		for _, part := range []string{"per_page=100", "labels=bug%2Cgood+first+issue", "creator=a%26b", "assignee=%2A", "direction=asc", "sort=updated", "state=all", "since=2026-01-02T03%3A04%3A05Z"} {
			if !strings.Contains(got[0], part) {
				t.Errorf("no %s in %s", part, got[0])
			}
		}
		if len(o.Yields) != 3 {
			t.Fatalf("%d yields", len(o.Yields))
		}
		for i, want := range []float64{80, 160, 200} {
			if y := o.Yields[i]; y.Kind != abi.YieldProgress || *y.Completed != want || *y.Total != 300 || !strings.Contains(y.Message, "issues of octo/hello") {
				t.Errorf("%+v: %v of %v", y, *y.Completed, *y.Total)
			}
		}
	})
	t.Run("exactly what is there", func(t *testing.T) {
		out, _ := list(object{"limit": 200})
		if out.Count != 200 || out.More {
			t.Errorf("%d issues, more %v", out.Count, out.More)
		}
		if out, _ = list(object{"limit": 199}); out.Count != 199 || !out.More {
			t.Errorf("%d issues, more %v", out.Count, out.More)
		}
	})
	t.Run("cancelled between pages", func(t *testing.T) {
		g.requests()
		h.OnYield = func(abi.Yield) abi.Cancel { return abi.CancelRequest }
		defer func() { h.OnYield = nil }()
		h.Run("GitHubListIssues", of(object{"limit": 1000})).WantCode("cancelled")
		if got := g.requests(); len(got) != 1 {
			t.Errorf("%v", got)
		}
	})
	t.Run("none", func(t *testing.T) {
		g.issues = nil
		if out, o := list(nil); out.Count != 0 || out.More || !strings.Contains(string(o.Result.Data), `"issues":[]`) || len(o.Yields) != 0 {
			t.Errorf("%s", o.Result.Data)
		}
	})
	t.Run("a renamed repository", func(t *testing.T) {
		g.issues = many(120, issue)
		g.requests()
		var out issueList
		h.Run("GitHubListIssues", object{"owner": "octo", "repo": "old", "limit": 120}).Data(&out)
		if got := g.requests(); out.Count != 120 || len(got) != 3 || !strings.HasPrefix(got[2], "GET /repositories/1/issues?page=2") {
			t.Errorf("%d issues by %v", out.Count, got)
		}
	})
}

// Pages are followed on the server that the token is for, and not for ever.
func TestPagesLeadAstray(t *testing.T) {
	elsewhere := newGitHub(t)
	elsewhere.issues = many(3, issue)
	g := newGitHub(t)
	h := lend(t, g, theToken, hostOf(t, elsewhere.URL))
	page := func(link string) {
		g.answer = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Link", strings.ReplaceAll(link, "SELF", g.URL+r.URL.RequestURI()))
			say(w, 200, []object{issue(1)})
			return true
		}
	}
	for _, link := range []string{
		"<" + elsewhere.URL + `/repos/octo/hello/issues?page=2>; rel="next"`, `<https://evil.example/x>; rel="next"`, `<SELF>; rel="next"`, `</relative>; rel="next"`,
		"<" + strings.Replace(g.URL, "http://", "http://user@", 1) + `/x>; rel="next"`, "<" + g.URL + `@evil.example/x>; rel="next"`,
	} {
		page(link)
		h.Run("GitHubListIssues", of(object{"limit": 1000})).WantCode("bad_answer")
	}
	if got := elsewhere.requests(); got != nil {
		t.Errorf("it followed: %v", got)
	}
	g.requests()
	n := 0
	g.answer = func(w http.ResponseWriter, r *http.Request) bool {
		n++
		w.Header().Set("Link", fmt.Sprintf(`<%s/x?page=%d>; rel="next"`, g.URL, n))
		say(w, 200, []object{})
		return true
	}
	var out issueList
	h.Run("GitHubListIssues", of(nil)).Data(&out)
	if n > 25 || !out.More || out.Count != 0 {
		t.Errorf("%d pages, %+v", n, out)
	}
}

func TestGetIssue(t *testing.T) {
	g := newGitHub(t)
	g.issues = []object{issue(1), issue(2), issue(3)}
	g.issues[0]["comments"] = 130
	g.issues[0]["body"] = strings.Repeat("é", 400)
	g.comments["1"] = many(130, func(n int) object { return comment0(n, fmt.Sprintf("Comment %d", n)) })
	g.comments["1"][0]["user"] = nil
	g.issues[1]["body"], g.issues[1]["user"], g.issues[1]["milestone"], g.issues[1]["labels"] = nil, nil, nil, []any{}
	g.issues[2]["pull_request"] = object{"url": "x"}
	h := lend(t, g, theToken)
	var out issueOut
	h.Run("GitHubGetIssue", of(object{"number": 1, "maxText": 101})).Data(&out)
	if out.Title != "Issue 1" || out.CommentCount != 130 || len(out.Comments) != 30 || !out.MoreComments || out.Comments[29].Body != "Comment 30" || out.Comments[0].Author != "ghost" {
		t.Errorf("%+v", out)
	}
	if out.Body != strings.Repeat("é", 50) || !out.BodyTruncated {
		t.Errorf("the text is %q", out.Body)
	}
	if auth := g.last().Header.Get("Authorization"); auth != "Bearer "+theToken {
		t.Errorf("it was sent as %q", auth)
	}
	tag := out.ETag
	out = issueOut{}
	o := h.Run("GitHubGetIssue", of(object{"number": 1, "comments": 1000}))
	if o.Data(&out); len(out.Comments) != 130 || out.MoreComments || len(o.Yields) != 2 {
		t.Errorf("%d comments, more %v, %d yields", len(out.Comments), out.MoreComments, len(o.Yields))
	}
	g.requests()
	out = issueOut{}
	h.Run("GitHubGetIssue", of(object{"number": 1, "comments": 0})).Data(&out)
	if got := g.requests(); len(got) != 1 || out.Comments != nil || !out.MoreComments || len(out.Body) != 800 {
		t.Errorf("%v %+v", got, out)
	}
	t.Run("unchanged", func(t *testing.T) {
		var same notModified
		h.Run("GitHubGetIssue", of(object{"number": 1, "etag": tag})).Data(&same)
		if got := g.requests(); !same.NotModified || same.ETag != tag || len(got) != 1 {
			t.Errorf("%+v after %v", same, got)
		}
		g.issues[0]["title"] = "Another"
		out = issueOut{}
		h.Run("GitHubGetIssue", of(object{"number": 1, "etag": tag})).Data(&out)
		if out.Title != "Another" || out.ETag == tag || out.ETag == "" {
			t.Errorf("%+v", out)
		}
	})
	t.Run("much of it is null", func(t *testing.T) {
		g.requests()
		o := h.Run("GitHubGetIssue", of(object{"number": 2}))
		out = issueOut{}
		if o.Data(&out); out.Author != "ghost" || out.Body != "" || strings.Contains(string(o.Result.Data), "labels") || len(g.requests()) != 1 {
			t.Errorf("%s", o.Result.Data)
		}
	})
	t.Run("a pull request", func(t *testing.T) {
		out = issueOut{}
		if h.Run("GitHubGetIssue", of(object{"number": 3})).Data(&out); !out.IsPullRequest {
			t.Errorf("%+v", out)
		}
	})
}

func TestPullRequests(t *testing.T) {
	g := newGitHub(t)
	g.pulls = many(3, pull)
	g.pulls[1]["merged_at"], g.pulls[1]["state"] = "2026-02-01T00:00:00Z", "closed"
	p := g.pulls[0]
	p["changed_files"], p["comments"], p["review_comments"], p["mergeable"] = 120, 1, 1, nil
	g.changed = many(120, func(n int) object {
		return object{"filename": fmt.Sprintf("f%d.go", n), "status": "renamed", "previous_filename": "old.go", "additions": 1, "deletions": 2, "patch": strings.Repeat("+", 200), "sha": "x"}
	})
	g.comments["1"] = []object{comment0(1, "Fine.")}
	g.reviews = []object{comment0(2, "Why?")}
	g.reviews[0]["path"], g.reviews[0]["line"], g.reviews[0]["in_reply_to_id"] = "f1.go", 7, 1
	h := lend(t, g, theToken)
	t.Run("list", func(t *testing.T) {
		var out pullList
		h.Run("GitHubListPullRequests", of(object{"base": "main", "head": "ada:topic", "state": "all", "sort": "long-running"})).Data(&out)
		if out.Count != 3 || out.More || out.PullRequests[1].State != "merged" || out.PullRequests[0].Head != "ada:topic" || !out.PullRequests[0].Draft {
			t.Errorf("%+v", out)
		}
		if got := g.requests(); len(got) != 1 || got[0] != "GET /repos/octo/hello/pulls?base=main&head=ada%3Atopic&per_page=30&sort=long-running&state=all" {
			t.Errorf("%v", got)
		}
	})
	t.Run("get", func(t *testing.T) {
		var out pullOut
		o := h.Run("GitHubGetPullRequest", of(object{"number": 1, "files": 110, "patches": true, "maxText": 100}))
		o.Data(&out)
		if len(out.Files) != 110 || !out.MoreFiles || len(out.Files[0].Patch) != 100 || !out.Files[0].PatchTruncated || out.Files[0].From != "old.go" {
			t.Errorf("%d files: %+v", len(out.Files), out.Files[:1])
		}
		if len(out.Comments) != 1 || len(out.ReviewComments) != 1 || out.ReviewComments[0].Line != 7 || out.MoreComments || out.MoreReviewComments || out.Mergeable != nil {
			t.Errorf("%+v", out)
		}
		if len(o.Yields) != 2 {
			t.Errorf("%d yields", len(o.Yields))
		}
		g.requests()
		out = pullOut{}
		h.Run("GitHubGetPullRequest", of(object{"number": 1, "files": 1, "comments": 0, "reviewComments": 0})).Data(&out)
		if got := g.requests(); len(got) != 2 || out.Files[0].Patch != "" || !out.MoreComments || !out.MoreReviewComments {
			t.Errorf("%v %+v", got, out)
		}
		var same notModified
		h.Run("GitHubGetPullRequest", of(object{"number": 1, "etag": out.ETag})).Data(&same)
		if !same.NotModified {
			t.Errorf("%+v", same)
		}
	})
	h.Run("GitHubGetPullRequest", of(object{"number": 9})).WantCode("not_found")
}

func TestSearch(t *testing.T) {
	g := newGitHub(t)
	g.issues = many(150, issue)
	g.issues[0]["pull_request"] = object{"url": "x"}
	g.code = []object{{"path": "a/b.go", "sha": "x", "html_url": "https://github.com/octo/hello/blob/x/a/b.go", "repository": object{"full_name": "octo/hello"}, "text_matches": []object{{"fragment": "func main()"}, {"fragment": ""}}}}
	g.repos = []object{{"full_name": "octo/hello", "description": nil, "language": "Go", "topics": []string{"x"}, "stargazers_count": 5, "forks_count": 1, "archived": true, "pushed_at": "2026-01-01T00:00:00Z", "html_url": "https://github.com/octo/hello"}}
	h := lend(t, g, theToken)
	var out found
	o := h.Run("GitHubSearch", object{"type": "issues", "query": `is:issue "a b"&c`, "sort": "created", "order": "asc", "limit": 120})
	o.Data(&out)
	if out.Total != 150 || out.Count != 120 || !out.More || len(o.Yields) != 2 || !strings.Contains(string(o.Result.Data), `{"repository":"octo/hello","number":1,"title":"Issue 1","state":"open","isPullRequest":true,`) {
		t.Errorf("%+v", out)
	}
	if got := g.requests(); len(got) != 2 || got[0] != "GET /search/issues?order=asc&per_page=100&q=is%3Aissue+%22a+b%22%26c&sort=created" {
		t.Errorf("%v", got)
	}
	o = h.Run("GitHubSearch", object{"type": "code", "query": "main repo:octo/hello"})
	if want := `"items":[{"repository":"octo/hello","path":"a/b.go","fragments":["func main()"],"url":"https://github.com/octo/hello/blob/x/a/b.go"}]`; !strings.Contains(string(o.Result.Data), want) {
		t.Errorf("%s %+v", o.Result.Data, o.Err())
	}
	if a := g.last().Header.Get("Accept"); a != mediaMatch {
		t.Errorf("it accepts %s", a)
	}
	o = h.Run("GitHubSearch", object{"type": "repositories", "query": "hello"})
	if want := `{"repository":"octo/hello","language":"Go","topics":["x"],"stars":5,"forks":1,"archived":true,"pushedAt":"2026-01-01T00:00:00Z","url":"https://github.com/octo/hello"}`; !strings.Contains(string(o.Result.Data), want) {
		t.Errorf("%s", o.Result.Data)
	}
	g.requests()
	for _, in := range []object{{"type": "users", "query": "x"}, {"type": "code", "query": "x", "sort": "stars"}, {"type": "issues", "query": "x", "sort": "created", "order": "up"}} {
		h.Run("GitHubSearch", in).WantCode("bad_filter")
	}
	h.Run("GitHubSearch", object{"type": "code", "query": " "}).WantCode("bad_query")
	h.Run("GitHubSearch", object{"type": "issues", "query": "x", "limit": 0}).WantCode("bad_limit")
	if got := g.requests(); got != nil {
		t.Errorf("%v", got)
	}
	lend(t, g, "").Run("GitHubSearch", object{"type": "code", "query": "x"}).WantCode("token_required")
	if got := g.requests(); got != nil {
		t.Errorf("%v", got)
	}
	g.answer = func(w http.ResponseWriter, _ *http.Request) bool { say(w, 200, object{"message": "ok"}); return true }
	h.Run("GitHubSearch", object{"type": "issues", "query": "x"}).WantCode("bad_answer")
}
