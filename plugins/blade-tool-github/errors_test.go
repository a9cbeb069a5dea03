package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// answers makes the server say one thing to everything.
func (g *github) answers(status int, body string, header ...string) {
	g.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
		return true
	}
}

func TestErrorAnswers(t *testing.T) {
	quick(t)
	g := newGitHub(t)
	with, without := lend(t, g, theToken), lend(t, g, "")
	for _, c := range []struct {
		name   string
		status int
		body   string
		code   string
		typ    abi.ErrorType
		says   string
	}{
		{"no such thing", 404, `{"message":"Not Found","documentation_url":"https://docs.github.com/x"}`, "not_found", abi.TypeValidation, "issue 7 of octo/hello"},
		{"forbidden", 403, `{"message":"Resource not accessible by personal access token"}`, "forbidden", abi.TypeExecution, "not accessible"},
		{"gone", 410, `{"message":"This issue was deleted"}`, "gone", abi.TypeValidation, "deleted"},
		{"an empty repository", 409, `{"message":"Git Repository is empty."}`, "conflict", abi.TypeExecution, "empty"},
		{"invalid", 422, `{"message":"Validation Failed","errors":[{"resource":"Search","field":"q","code":"missing"},"a text",{"message":"Too long","value":{"x":1}},7]}`, "validation", abi.TypeValidation, "q missing; a text; Too long"},
		{"not understood", 400, `{"message":"Problems parsing JSON"}`, "validation", abi.TypeValidation, "Problems parsing"},
		{"errors that are no list", 422, `{"message":"No","errors":"x"}`, "validation", abi.TypeValidation, "No"},
		{"it broke", 500, `<html>oops</html>`, "server_error", abi.TypeNetwork, "500"},
		{"a teapot", 418, ``, "unexpected_status", abi.TypeExecution, "418"},
		{"a redirect to nowhere", 301, ``, "moved", abi.TypeExecution, "moved"},
		{"304 that nobody asked for", 304, ``, "moved", abi.TypeExecution, "moved"},
		{"no JSON", 200, `<html>login</html>`, "bad_answer", abi.TypeNetwork, "baseUrl"},
		{"half of it", 200, `{"number":7,"title":"x`, "bad_answer", abi.TypeNetwork, "baseUrl"},
		{"another type", 200, `{"number":"7"}`, "bad_answer", abi.TypeNetwork, "baseUrl"},
		{"a list", 200, `[]`, "bad_answer", abi.TypeNetwork, "baseUrl"},
		{"nothing", 200, ``, "bad_answer", abi.TypeNetwork, "baseUrl"},
		{"control characters", 404, `{"message":"a\u0000\u001b[31mb\nc` + strings.Repeat("x", 1000) + `"}`, "not_found", abi.TypeValidation, "a  [31mb c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.answers(c.status, c.body)
			o := with.Run("GitHubGetIssue", of(object{"number": 7}))
			o.WantCode(c.code)
			e := o.Err()
			if e.Type != c.typ || !strings.Contains(e.Message, c.says) || len(e.Message) > 1000 || strings.ContainsAny(e.Message, "\x00\x1b\n") {
				t.Errorf("%s %q", e.Type, e.Message)
			}
			var d details
			if c.status >= 400 && (json.Unmarshal(e.Details, &d) != nil || d.Status != c.status || d.RequestID != "ABCD:1234") {
				t.Errorf("details %s", e.Details)
			}
		})
	}
	t.Run("the errors of a validation", func(t *testing.T) {
		g.answers(422, `{"message":"Validation Failed","errors":[{"resource":"Search","field":"q","code":"missing"},"a text"],"documentation_url":"https://docs.github.com/y"}`)
		o := with.Run("GitHubSearch", object{"type": "issues", "query": "x"})
		if want := `{"status":422,"requestId":"ABCD:1234","documentationUrl":"https://docs.github.com/y","errors":[{"resource":"Search","field":"q","code":"missing"},{"message":"a text"}]}`; string(o.Err().Details) != want {
			t.Errorf("%s", o.Err().Details)
		}
	})
	t.Run("single sign-on", func(t *testing.T) {
		g.answers(403, `{"message":"Resource protected by organization SAML enforcement."}`, "X-GitHub-SSO", "required; url=https://github.com/orgs/x/sso", "X-Accepted-GitHub-Permissions", "issues=read")
		o := with.Run("GitHubListIssues", of(nil))
		if o.WantCode("forbidden"); !strings.Contains(string(o.Err().Details), "orgs/x/sso") || !strings.Contains(string(o.Err().Details), "issues=read") {
			t.Errorf("%s", o.Err().Details)
		}
	})
	t.Run("a wrong token", func(t *testing.T) {
		g.answer = nil
		o := lend(t, g, "ghp_wrong").Run("GitHubListIssues", of(nil))
		if o.WantCode("unauthorized"); !strings.Contains(o.Err().Message, "Bad credentials") || !strings.Contains(o.Err().Message, "bladehost secret set GITHUB_TOKEN") {
			t.Errorf("%s", o.Err().Message)
		}
	})
	t.Run("without a token", func(t *testing.T) {
		g.answers(404, `{"message":"Not Found"}`)
		o := without.Run("GitHubListIssues", of(nil))
		if o.WantCode("not_found"); !strings.Contains(o.Err().Message, "--allow-secret GITHUB_TOKEN") || g.last().Header["Authorization"] != nil {
			t.Errorf("%s", o.Err().Message)
		}
		g.answers(401, `{"message":"Must authenticate to access this API."}`)
		without.Run("GitHubListIssues", of(nil)).WantCode("token_required")
	})
}

func TestRateLimits(t *testing.T) {
	g := newGitHub(t)
	h := lend(t, g, theToken)
	now := time.Now().Unix()
	in := func(s int64) string { return strconv.FormatInt(now+s, 10) }
	for _, c := range []struct {
		name   string
		status int
		body   string
		header []string
		want   int64 // seconds from now
	}{
		{"primary", 403, `{"message":"API rate limit exceeded for user ID 1."}`, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", in(90)}, 90},
		{"primary, 429", 429, `{"message":"API rate limit exceeded"}`, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", in(90)}, 90},
		{"secondary", 403, `{"message":"You have exceeded a secondary rate limit."}`, []string{"Retry-After", "30"}, 30},
		{"secondary, in other words", 403, `{"message":"Slow down."}`, []string{"Retry-After", "30"}, 30},
		{"secondary without a time", 403, `{"message":"You have exceeded a secondary rate limit."}`, nil, 60},
		{"a date", 429, ``, []string{"Retry-After", time.Unix(now+120, 0).UTC().Format(http.TimeFormat)}, 120},
		{"over already", 429, ``, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", in(-10)}, 0},
		{"nonsense", 429, `x`, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "99999999999999", "Retry-After", "-5"}, 60},
		{"more nonsense", 429, `x`, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "soon", "Retry-After", "1e9"}, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.answers(c.status, c.body, c.header...)
			g.requests()
			o := h.Run("GitHubListIssues", of(nil))
			o.WantCode("rate_limited")
			var d struct{ ResetUnix, RetryAfterSeconds *int64 }
			if err := json.Unmarshal(o.Err().Details, &d); err != nil || d.ResetUnix == nil || d.RetryAfterSeconds == nil {
				t.Fatalf("details %s", o.Err().Details)
			}
			if off := *d.RetryAfterSeconds - c.want; off > 0 || off < -20 || *d.ResetUnix < now+c.want-1 || *d.ResetUnix > now+c.want+20 {
				t.Errorf("%s, want %d s", o.Err().Details, c.want)
			}
			if o.Err().Type != abi.TypeNetwork || len(g.requests()) != 1 {
				t.Errorf("%s, or it asked again", o.Err().Type)
			}
		})
	}
	g.answers(403, `{"message":"Must have admin rights"}`)
	h.Run("GitHubListIssues", of(nil)).WantCode("forbidden")
	g.answers(403, `{"message":"API rate limit exceeded"}`)
	if o := lend(t, g, "").Run("GitHubListIssues", of(nil)); !strings.Contains(o.Err().Message, "--allow-secret") {
		t.Errorf("%s", o.Err().Message)
	}
}

// A GET is repeated once where a gateway stumbles; nothing else is.
func TestRepeats(t *testing.T) {
	quick(t)
	g := newGitHub(t)
	g.issues = many(1, issue)
	g.files["big"] = make([]byte, 2<<20)
	h := lend(t, g, theToken)
	var failures atomic.Int32
	status, after := 502, ""
	g.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if failures.Add(-1) < 0 {
			return false
		}
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		return true
	}
	for _, c := range []struct {
		status, failures int
		after, code      string
		asks             int
	}{
		{502, 1, "", "", 2}, {503, 1, "0", "", 2}, {504, 1, "", "", 2}, {503, 1, "1", "", 2}, {502, 2, "", "server_error", 2}, {503, 1, "3600", "server_error", 1}, {500, 1, "", "server_error", 1}, {501, 1, "", "server_error", 1},
	} {
		status, after = c.status, c.after
		failures.Store(int32(c.failures))
		g.requests()
		o := h.Run("GitHubListIssues", of(nil))
		code := ""
		if o.Err() != nil {
			code = string(o.Err().Code)
		}
		if n := len(g.requests()); code != c.code || n != c.asks {
			t.Errorf("%+v: %q after %d requests", c, code, n)
		}
	}
	status, after = 503, ""
	failures.Store(1)
	g.requests()
	o := h.Run("GitHubComment", of(object{"number": 1, "body": "x"}))
	if o.WantCode("server_error"); !strings.Contains(string(o.Err().Details), `"outcome":"unknown"`) || !strings.Contains(o.Err().Message, "look at the comments") || len(g.requests()) != 1 {
		t.Errorf("%+v", o.Err())
	}
	t.Run("a stream", func(t *testing.T) {
		g.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "blobs") || failures.Add(-1) < 0 {
				return false
			}
			w.WriteHeader(502)
			return true
		}
		failures.Store(1)
		var out fileOut
		if h.Run("GitHubGetFile", of(object{"path": "big", "encoding": "base64"})).Data(&out); out.Size != 2<<20 {
			t.Errorf("%+v", out)
		}
		failures.Store(2)
		h.Run("GitHubGetFile", of(object{"path": "big"})).WantCode("server_error")
	})
	t.Run("cancelled while it waits", func(t *testing.T) {
		firstWait = time.Second
		g.answers(502, "")
		h.CancelAfter = 3
		defer func() { h.CancelAfter = 0 }()
		from := time.Now()
		h.Run("GitHubGetIssue", of(object{"number": 1})).WantCode("cancelled")
		if d := time.Since(from); d > 900*time.Millisecond {
			t.Errorf("it took %v", d)
		}
	})
}

func TestNoAnswer(t *testing.T) {
	g := newGitHub(t)
	h := lend(t, g, theToken)
	stop := make(chan struct{})
	g.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
		return true
	}
	o := h.Run("GitHubGetIssue", of(object{"number": 1}))
	if o.WantCode("network_error"); o.Err().Type != abi.TypeNetwork || !strings.Contains(o.Err().Message, "in time") {
		t.Errorf("%+v", o.Err())
	}
	close(stop)
	g.answering(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", "17825792")
		_, _ = w.Write([]byte(strings.Repeat(" ", 17<<20)))
		return true
	})
	h.Run("GitHubGetIssue", of(object{"number": 1})).WantCode("network_limit")
	g.Close()
	h.Run("GitHubGetIssue", of(object{"number": 1})).WantCode("network_error")
	o = h.Run("GitHubComment", of(object{"number": 1, "body": "x"}))
	if o.WantCode("network_error"); !strings.Contains(string(o.Err().Details), `"outcome":"unknown"`) {
		t.Errorf("%+v", o.Err())
	}
	lendSettings(h, "https://ghe.example.com/api/v3")
	o = h.Run("GitHubGetIssue", of(object{"number": 1}))
	if o.WantCode("not_granted"); !strings.Contains(o.Err().Message, "ghe.example.com") {
		t.Errorf("%+v", o.Err())
	}
}
