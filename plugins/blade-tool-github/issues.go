package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

// defaultText is how many bytes of one text a model reads.
const (
	defaultText = 10_000
	maxText     = 200_000
)

type listIssuesIn struct {
	Owner     string   `json:"owner" jsonschema:"The user or organisation that owns the repository." minLength:"1" maxLength:"100"`
	Repo      string   `json:"repo" jsonschema:"The repository's name, without its owner." minLength:"1" maxLength:"100"`
	State     string   `json:"state,omitempty" jsonschema:"Which issues." enum:"open,closed,all" default:"open"`
	Labels    []string `json:"labels,omitempty" jsonschema:"Only issues that have all these labels." maxItems:"20"`
	Assignee  string   `json:"assignee,omitempty" jsonschema:"Only issues of this user; none for those of nobody, * for those of anybody." maxLength:"100"`
	Creator   string   `json:"creator,omitempty" jsonschema:"Only issues that this user opened." maxLength:"100"`
	Since     string   `json:"since,omitempty" jsonschema:"Only issues that changed since then, as 2026-01-02T03:04:05Z." maxLength:"40"`
	Sort      string   `json:"sort,omitempty" jsonschema:"What they are ordered by." enum:"created,updated,comments" default:"created"`
	Direction string   `json:"direction,omitempty" jsonschema:"The order." enum:"asc,desc" default:"desc"`
	Limit     *int     `json:"limit,omitempty" jsonschema:"How many at most." minimum:"1" maximum:"1000" default:"30"`
}

type issueLine struct {
	Number    int64    `json:"number"`
	Title     string   `json:"title"`
	State     string   `json:"state"`
	Author    string   `json:"author"`
	Labels    []string `json:"labels,omitempty"`
	Assignees []string `json:"assignees,omitempty"`
	Milestone string   `json:"milestone,omitempty"`
	Comments  int      `json:"comments,omitempty"`
	CreatedAt string   `json:"createdAt"`
	UpdatedAt string   `json:"updatedAt"`
	URL       string   `json:"url"`
}

type issueList struct {
	Repository string      `json:"repository"`
	Count      int         `json:"count"`
	More       bool        `json:"more"`
	Issues     []issueLine `json:"issues"`
}

func listIssues(ctx context.Context, in listIssuesIn, call *pdk.Call) (*pdk.Result, error) {
	at, err := repoPath(in.Owner, in.Repo)
	if err != nil {
		return nil, err
	}
	limit, err := limitOr(in.Limit, 1)
	if err != nil {
		return nil, err
	}
	f := filters{values: url.Values{}}
	f.oneOf("state", in.State, "open", "closed", "all")
	f.oneOf("sort", in.Sort, "created", "updated", "comments")
	f.oneOf("direction", in.Direction, "asc", "desc")
	f.labels(in.Labels)
	f.text("assignee", in.Assignee)
	f.text("creator", in.Creator)
	f.time("since", in.Since)
	if f.err != nil {
		return nil, f.err
	}
	c, err := connect(ctx, call)
	if err != nil {
		return nil, err
	}
	out := issueList{Repository: in.Owner + "/" + in.Repo}
	// Pull requests are issues to GitHub and come along, so the pages are larger
	// than the limit.
	l := listing{path: at + "/issues", query: f.values, about: out.Repository, what: "issues", limit: limit, perPage: min(maxPerPage, 2*limit)}
	out.Issues, out.More, err = collect(c, l, listOf(func(a apiIssue) (issueLine, bool) {
		return issueLine{
			Number: a.Number, Title: a.Title, State: a.State, Author: a.User.name(), Labels: labelNames(a.Labels), Assignees: logins(a.Assignees),
			Milestone: a.milestone(), Comments: a.Comments, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt, URL: a.HTMLURL,
		}, !a.isPull()
	}))
	if err != nil {
		return nil, err
	}
	out.Count = len(out.Issues)
	return shown(out, "%d issues of %s", out.Count, out.Repository), nil
}

type getIssueIn struct {
	Owner    string `json:"owner" jsonschema:"The user or organisation that owns the repository." minLength:"1" maxLength:"100"`
	Repo     string `json:"repo" jsonschema:"The repository's name, without its owner." minLength:"1" maxLength:"100"`
	Number   int64  `json:"number" jsonschema:"The issue's number." minimum:"1" maximum:"2147483647"`
	Comments *int   `json:"comments,omitempty" jsonschema:"How many comments at most; 0 for none." minimum:"0" maximum:"1000" default:"30"`
	MaxText  *int   `json:"maxText,omitempty" jsonschema:"How many bytes of each text at most; longer ones are cut and marked." minimum:"100" maximum:"200000" default:"10000"`
	ETag     string `json:"etag,omitempty" jsonschema:"The etag of an earlier answer: where the issue is the same, only notModified comes back." maxLength:"200"`
}

type issueOut struct {
	Repository    string       `json:"repository"`
	Number        int64        `json:"number"`
	Title         string       `json:"title"`
	State         string       `json:"state"`
	StateReason   string       `json:"stateReason,omitempty"`
	IsPullRequest bool         `json:"isPullRequest,omitempty"`
	Author        string       `json:"author"`
	Labels        []string     `json:"labels,omitempty"`
	Assignees     []string     `json:"assignees,omitempty"`
	Milestone     string       `json:"milestone,omitempty"`
	Locked        bool         `json:"locked,omitempty"`
	Body          string       `json:"body"`
	BodyTruncated bool         `json:"bodyTruncated,omitempty"`
	CreatedAt     string       `json:"createdAt"`
	UpdatedAt     string       `json:"updatedAt"`
	ClosedAt      string       `json:"closedAt,omitempty"`
	URL           string       `json:"url"`
	CommentCount  int          `json:"commentCount"`
	Comments      []commentOut `json:"comments,omitempty"`
	MoreComments  bool         `json:"moreComments,omitempty"`
	ETag          string       `json:"etag,omitempty"`
}

func getIssue(ctx context.Context, in getIssueIn, call *pdk.Call) (*pdk.Result, error) {
	at, lim, err := oneOfRepo(in.Owner, in.Repo, in.Number, in.ETag, in.MaxText, in.Comments)
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, call)
	if err != nil {
		return nil, err
	}
	at += "/issues/" + strconv.FormatInt(in.Number, 10)
	about := fmt.Sprintf("issue %d of %s/%s", in.Number, in.Owner, in.Repo)
	var a apiIssue
	tag, same, err := c.object(at, "", in.ETag, about, &a)
	if err != nil {
		return nil, err
	}
	if same {
		return unchanged(tag, about), nil
	}
	out := issueOut{
		Repository: in.Owner + "/" + in.Repo, Number: a.Number, Title: a.Title, State: a.State, StateReason: a.StateReason, IsPullRequest: a.isPull(),
		Author: a.User.name(), Labels: labelNames(a.Labels), Assignees: logins(a.Assignees), Milestone: a.milestone(), Locked: a.Locked,
		CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt, ClosedAt: a.ClosedAt, URL: a.HTMLURL, CommentCount: a.Comments, ETag: tag,
	}
	out.Body, out.BodyTruncated = clip(a.Body, lim.text)
	l := listing{path: at + "/comments", about: about, what: "comments", limit: lim.lists[0]}
	if out.Comments, out.MoreComments, err = part(c, a.Comments, l, comments(lim.text)); err != nil {
		return nil, err
	}
	return shown(out, "%s: %s", about, brief(a.Title)), nil
}

// limits are how much of one object a tool gives.
type limits struct {
	text  int
	lists []int
}

// oneOfRepo checks what the tools for one object have in common.
func oneOfRepo(owner, repo string, number int64, etag string, text *int, lists ...*int) (at string, l limits, err error) {
	if at, err = repoPath(owner, repo); err != nil {
		return "", l, err
	}
	if err = checkNumber(number); err != nil {
		return "", l, err
	}
	if err = checkETag(etag); err != nil {
		return "", l, err
	}
	l.text = defaultText
	if text != nil {
		l.text = *text
	}
	if l.text < 0 || l.text > maxText {
		return "", l, pdk.Invalid("bad_limit", "maxText is %d; give a number up to %d", l.text, maxText)
	}
	for _, n := range lists {
		limit, err := limitOr(n, 0)
		if err != nil {
			return "", l, err
		}
		l.lists = append(l.lists, limit)
	}
	return at, l, nil
}

// object reads one JSON object. same says that it is the one that the etag is of.
func (c *client) object(at, accept, etag, about string, into any) (tag string, same bool, err error) {
	res, _, err := c.send(request{url: c.base + at, accept: accept, etag: etag, about: about})
	if err != nil {
		return "", false, err
	}
	tag = header(res, "etag")
	if checkETag(tag) != nil {
		tag = "" // it could not be sent back
	}
	if res.Status == 304 {
		return etag, true, nil
	}
	if err := json.Unmarshal(res.Body, into); err != nil {
		return "", false, badAnswer(about, "%v", err)
	}
	return tag, false, nil
}

func unchanged(tag, about string) *pdk.Result {
	return shown(notModified{NotModified: true, ETag: tag}, "%s did not change", about)
}

func shown(data any, format string, args ...any) *pdk.Result {
	return &pdk.Result{Data: data, Display: &abi.Display{Summary: fmt.Sprintf(format, args...)}}
}
