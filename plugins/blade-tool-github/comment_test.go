package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestComment(t *testing.T) {
	g := newGitHub(t)
	g.issues = []object{issue(5)}
	h := lend(t, g, theToken)
	post := func(body string) object { return of(object{"number": 5, "body": body}) }
	var out posted
	text := "Looks \"good\" <b>&</b> {{secret:GITHUB_TOKEN}}\n\u2028é"
	o := h.Run("GitHubComment", post(text))
	o.Data(&out)
	if !out.Posted || out.ID != 1 || out.Author != "ada" || out.URL == "" || out.Note != "" || len(o.Yields) != 0 {
		t.Errorf("%+v", out)
	}
	if c := g.comments["5"]; len(c) != 1 || c[0]["body"] != text {
		t.Errorf("%v", c)
	}
	if got := g.requests(); len(got) != 1 || got[0] != "POST /repos/octo/hello/issues/5/comments" {
		t.Errorf("%v", got)
	}
	for _, in := range []object{post(""), post(" \n"), post(strings.Repeat("é", maxComment+1))} {
		h.Run("GitHubComment", in).WantCode("bad_body")
	}
	h.Run("GitHubComment", of(object{"number": 0, "body": "x"})).WantCode("bad_number")
	lend(t, g, "").Run("GitHubComment", post("x")).WantCode("token_required")
	if got := g.requests(); got != nil {
		t.Errorf("%v", got)
	}
	t.Run("as long as can be", func(t *testing.T) { h.Run("GitHubComment", post(strings.Repeat("é", maxComment))).Data(&out) })
	t.Run("a locked issue", func(t *testing.T) {
		g.answers(403, `{"message":"Unable to create comment because issue is locked."}`)
		o := h.Run("GitHubComment", post("x"))
		if o.WantCode("forbidden"); !strings.Contains(o.Err().Message, "locked") || strings.Contains(string(o.Err().Details), "outcome") {
			t.Errorf("%+v", o.Err())
		}
	})
	t.Run("an answer that cannot be read is no failure", func(t *testing.T) {
		g.answers(201, `{"id":`)
		out = posted{}
		if h.Run("GitHubComment", post("x")).Data(&out); !out.Posted || out.Note == "" {
			t.Errorf("%+v", out)
		}
	})
	t.Run("a rate limit", func(t *testing.T) {
		g.answers(429, ``, "Retry-After", "7")
		g.requests()
		if h.Run("GitHubComment", post("x")).WantCode("rate_limited"); len(g.requests()) != 1 {
			t.Error("it was sent again")
		}
	})
}

// A redirect turns a POST into a GET that looks like a success: it is not followed.
func TestCommentRedirected(t *testing.T) {
	g := newGitHub(t)
	g.issues = []object{issue(5)}
	h := lend(t, g, theToken)
	in := object{"owner": "octo", "repo": "old", "number": 5, "body": "x"}
	o := h.Run("GitHubComment", in)
	if o.WantCode("moved"); !strings.Contains(o.Err().Message, "octo/hello") || !strings.Contains(string(o.Err().Details), `"repository":"octo/hello"`) {
		t.Errorf("%+v", o.Err())
	}
	posts := 0
	for _, r := range g.requests() {
		if strings.HasPrefix(r, "POST") {
			posts++
		}
	}
	if posts != 1 || g.comments["5"] != nil {
		t.Errorf("%d posts, %v", posts, g.comments)
	}
	g.answers(307, "", "Location", "/elsewhere")
	h.Run("GitHubComment", in).WantCode("moved")
}

// The token goes to the server of the setting and to no other.
func TestTokenStaysHome(t *testing.T) {
	other := newGitHub(t)
	other.answers(200, `{"number":1,"title":"not the one"}`)
	g := newGitHub(t)
	h := lend(t, g, theToken, hostOf(t, other.URL))
	g.answer = func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
		return true
	}
	o := h.Run("GitHubGetIssue", of(object{"number": 1}))
	if o.WantCode("moved"); !strings.Contains(o.Err().Message, "redirected away") {
		t.Errorf("%+v", o.Err())
	}
	if len(other.requests()) == 0 {
		t.Fatal("the redirect was not followed: nothing was tested")
	}
	o = h.Run("GitHubComment", of(object{"number": 1, "body": "x"}))
	o.WantCode("moved")
	for _, r := range other.bodies {
		if r != "" {
			t.Errorf("the other server got %q", r)
		}
	}
	if auth := other.auth; auth != "" {
		t.Errorf("the other server got %q", auth)
	}
}
