package main

import "encoding/json"

// What the API sends, as far as it is used. Any of it may be null.

type apiUser struct {
	Login string `json:"login"`
}

// name is the login; GitHub shows deleted users as ghost.
func (u *apiUser) name() string {
	if u == nil || u.Login == "" {
		return "ghost"
	}
	return u.Login
}

// apiLabel is an object, or a name alone.
type apiLabel struct{ Name string }

// UnmarshalJSON takes both forms.
func (l *apiLabel) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &l.Name)
	}
	var o struct {
		Name string `json:"name"`
	}
	err := json.Unmarshal(b, &o)
	l.Name = o.Name
	return err
}

type apiIssue struct {
	Number      int64      `json:"number"`
	Title       string     `json:"title"`
	State       string     `json:"state"`
	StateReason string     `json:"state_reason"`
	Draft       bool       `json:"draft"`
	Locked      bool       `json:"locked"`
	User        *apiUser   `json:"user"`
	Labels      []apiLabel `json:"labels"`
	Assignees   []apiUser  `json:"assignees"`
	Milestone   *struct {
		Title string `json:"title"`
	} `json:"milestone"`
	Body          string          `json:"body"`
	Comments      int             `json:"comments"`
	PullRequest   json.RawMessage `json:"pull_request"`
	RepositoryURL string          `json:"repository_url"`
	CreatedAt     string          `json:"created_at"`
	UpdatedAt     string          `json:"updated_at"`
	ClosedAt      string          `json:"closed_at"`
	HTMLURL       string          `json:"html_url"`
}

func (i *apiIssue) isPull() bool { return len(i.PullRequest) > 0 && string(i.PullRequest) != "null" }

func (i *apiIssue) milestone() string {
	if i.Milestone == nil {
		return ""
	}
	return i.Milestone.Title
}

type apiComment struct {
	ID          int64    `json:"id"`
	User        *apiUser `json:"user"`
	Body        string   `json:"body"`
	Association string   `json:"author_association"`
	Path        string   `json:"path"`
	Line        int      `json:"line"`
	InReplyTo   int64    `json:"in_reply_to_id"`
	CreatedAt   string   `json:"created_at"`
	UpdatedAt   string   `json:"updated_at"`
	HTMLURL     string   `json:"html_url"`
}

func labelNames(list []apiLabel) []string {
	return kept(list, func(l apiLabel) (string, bool) { return l.Name, l.Name != "" })
}

func logins(list []apiUser) []string {
	return kept(list, func(u apiUser) (string, bool) { return u.name(), true })
}

// What the tools give. Empty lists and texts are left out.

type commentOut struct {
	ID            int64  `json:"id"`
	Author        string `json:"author"`
	Association   string `json:"association,omitempty"`
	Path          string `json:"path,omitempty"`
	Line          int    `json:"line,omitempty"`
	InReplyTo     int64  `json:"inReplyTo,omitempty"`
	Body          string `json:"body"`
	BodyTruncated bool   `json:"bodyTruncated,omitempty"`
	CreatedAt     string `json:"createdAt"`
	UpdatedAt     string `json:"updatedAt,omitempty"`
	URL           string `json:"url"`
}

// comments reads a list of comments with texts of at most maxText bytes.
func comments(maxText int) func([]byte) ([]commentOut, error) {
	return listOf(func(a apiComment) (commentOut, bool) {
		out := commentOut{ID: a.ID, Author: a.User.name(), Path: a.Path, Line: a.Line, InReplyTo: a.InReplyTo, CreatedAt: a.CreatedAt, URL: a.HTMLURL}
		out.Body, out.BodyTruncated = clip(a.Body, maxText)
		if a.Association != "NONE" {
			out.Association = a.Association
		}
		if a.UpdatedAt != a.CreatedAt {
			out.UpdatedAt = a.UpdatedAt
		}
		return out, true
	})
}

// notModified is what a tool gives where the etag is still right.
type notModified struct {
	NotModified bool   `json:"notModified"`
	ETag        string `json:"etag"`
}
