package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/bladehost/bladehost/pdk"
)

type apiBranch struct {
	Label string `json:"label"`
	Ref   string `json:"ref"`
	SHA   string `json:"sha"`
}

type apiPull struct {
	Number         int64      `json:"number"`
	Title          string     `json:"title"`
	State          string     `json:"state"`
	Draft          bool       `json:"draft"`
	Merged         bool       `json:"merged"`
	MergedAt       string     `json:"merged_at"`
	Mergeable      *bool      `json:"mergeable"`
	MergeableState string     `json:"mergeable_state"`
	User           *apiUser   `json:"user"`
	Labels         []apiLabel `json:"labels"`
	Assignees      []apiUser  `json:"assignees"`
	Reviewers      []apiUser  `json:"requested_reviewers"`
	Body           string     `json:"body"`
	Comments       int        `json:"comments"`
	ReviewComments int        `json:"review_comments"`
	Commits        int        `json:"commits"`
	Additions      int        `json:"additions"`
	Deletions      int        `json:"deletions"`
	ChangedFiles   int        `json:"changed_files"`
	Head           apiBranch  `json:"head"`
	Base           apiBranch  `json:"base"`
	CreatedAt      string     `json:"created_at"`
	UpdatedAt      string     `json:"updated_at"`
	ClosedAt       string     `json:"closed_at"`
	HTMLURL        string     `json:"html_url"`
}

// state is open, closed or merged.
func (p *apiPull) state() string {
	if p.Merged || p.MergedAt != "" {
		return "merged"
	}
	return p.State
}

type apiFile struct {
	Filename  string `json:"filename"`
	Previous  string `json:"previous_filename"`
	Status    string `json:"status"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Patch     string `json:"patch"`
}

type listPullsIn struct {
	Owner     string `json:"owner" jsonschema:"The user or organisation that owns the repository." minLength:"1" maxLength:"100"`
	Repo      string `json:"repo" jsonschema:"The repository's name, without its owner." minLength:"1" maxLength:"100"`
	State     string `json:"state,omitempty" jsonschema:"Which pull requests; merged ones are among the closed." enum:"open,closed,all" default:"open"`
	Base      string `json:"base,omitempty" jsonschema:"Only those into this branch." maxLength:"255"`
	Head      string `json:"head,omitempty" jsonschema:"Only those from this branch, as owner:branch." maxLength:"255"`
	Sort      string `json:"sort,omitempty" jsonschema:"What they are ordered by." enum:"created,updated,popularity,long-running" default:"created"`
	Direction string `json:"direction,omitempty" jsonschema:"The order." enum:"asc,desc" default:"desc"`
	Limit     *int   `json:"limit,omitempty" jsonschema:"How many at most." minimum:"1" maximum:"1000" default:"30"`
}

type pullLine struct {
	Number    int64    `json:"number"`
	Title     string   `json:"title"`
	State     string   `json:"state"`
	Draft     bool     `json:"draft,omitempty"`
	Author    string   `json:"author"`
	Labels    []string `json:"labels,omitempty"`
	Assignees []string `json:"assignees,omitempty"`
	Head      string   `json:"head"`
	Base      string   `json:"base"`
	CreatedAt string   `json:"createdAt"`
	UpdatedAt string   `json:"updatedAt"`
	URL       string   `json:"url"`
}

type pullList struct {
	Repository   string     `json:"repository"`
	Count        int        `json:"count"`
	More         bool       `json:"more"`
	PullRequests []pullLine `json:"pullRequests"`
}

func listPulls(ctx context.Context, in listPullsIn, call *pdk.Call) (*pdk.Result, error) {
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
	f.oneOf("sort", in.Sort, "created", "updated", "popularity", "long-running")
	f.oneOf("direction", in.Direction, "asc", "desc")
	f.ref("base", in.Base)
	f.ref("head", in.Head)
	if f.err != nil {
		return nil, f.err
	}
	c, err := connect(ctx, call)
	if err != nil {
		return nil, err
	}
	out := pullList{Repository: in.Owner + "/" + in.Repo}
	l := listing{path: at + "/pulls", query: f.values, about: out.Repository, what: "pull requests", limit: limit}
	out.PullRequests, out.More, err = collect(c, l, listOf(func(a apiPull) (pullLine, bool) {
		return pullLine{
			Number: a.Number, Title: a.Title, State: a.state(), Draft: a.Draft, Author: a.User.name(), Labels: labelNames(a.Labels),
			Assignees: logins(a.Assignees), Head: a.Head.Label, Base: a.Base.Ref, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt, URL: a.HTMLURL,
		}, true
	}))
	if err != nil {
		return nil, err
	}
	out.Count = len(out.PullRequests)
	return shown(out, "%d pull requests of %s", out.Count, out.Repository), nil
}

type getPullIn struct {
	Owner          string `json:"owner" jsonschema:"The user or organisation that owns the repository." minLength:"1" maxLength:"100"`
	Repo           string `json:"repo" jsonschema:"The repository's name, without its owner." minLength:"1" maxLength:"100"`
	Number         int64  `json:"number" jsonschema:"The pull request's number." minimum:"1" maximum:"2147483647"`
	Files          *int   `json:"files,omitempty" jsonschema:"How many changed files at most; 0 for none." minimum:"0" maximum:"1000" default:"30"`
	Patches        bool   `json:"patches,omitempty" jsonschema:"Whether each file comes with its changes."`
	Comments       *int   `json:"comments,omitempty" jsonschema:"How many comments at most; 0 for none." minimum:"0" maximum:"1000" default:"30"`
	ReviewComments *int   `json:"reviewComments,omitempty" jsonschema:"How many comments on lines of the changes at most; 0 for none." minimum:"0" maximum:"1000" default:"30"`
	MaxText        *int   `json:"maxText,omitempty" jsonschema:"How many bytes of each text and patch at most; longer ones are cut and marked." minimum:"100" maximum:"200000" default:"10000"`
	ETag           string `json:"etag,omitempty" jsonschema:"The etag of an earlier answer: where the pull request is the same, only notModified comes back." maxLength:"200"`
}

type fileLine struct {
	Path           string `json:"path"`
	From           string `json:"from,omitempty"`
	Status         string `json:"status"`
	Additions      int    `json:"additions"`
	Deletions      int    `json:"deletions"`
	Patch          string `json:"patch,omitempty"`
	PatchTruncated bool   `json:"patchTruncated,omitempty"`
}

type pullOut struct {
	Repository         string       `json:"repository"`
	Number             int64        `json:"number"`
	Title              string       `json:"title"`
	State              string       `json:"state"`
	Draft              bool         `json:"draft,omitempty"`
	Mergeable          *bool        `json:"mergeable,omitempty"`
	MergeableState     string       `json:"mergeableState,omitempty"`
	Author             string       `json:"author"`
	Labels             []string     `json:"labels,omitempty"`
	Assignees          []string     `json:"assignees,omitempty"`
	Reviewers          []string     `json:"requestedReviewers,omitempty"`
	Head               string       `json:"head"`
	HeadSHA            string       `json:"headSha"`
	Base               string       `json:"base"`
	Body               string       `json:"body"`
	BodyTruncated      bool         `json:"bodyTruncated,omitempty"`
	CreatedAt          string       `json:"createdAt"`
	UpdatedAt          string       `json:"updatedAt"`
	ClosedAt           string       `json:"closedAt,omitempty"`
	MergedAt           string       `json:"mergedAt,omitempty"`
	URL                string       `json:"url"`
	Commits            int          `json:"commits"`
	Additions          int          `json:"additions"`
	Deletions          int          `json:"deletions"`
	ChangedFiles       int          `json:"changedFiles"`
	Files              []fileLine   `json:"files,omitempty"`
	MoreFiles          bool         `json:"moreFiles,omitempty"`
	CommentCount       int          `json:"commentCount"`
	Comments           []commentOut `json:"comments,omitempty"`
	MoreComments       bool         `json:"moreComments,omitempty"`
	ReviewCommentCount int          `json:"reviewCommentCount"`
	ReviewComments     []commentOut `json:"reviewComments,omitempty"`
	MoreReviewComments bool         `json:"moreReviewComments,omitempty"`
	ETag               string       `json:"etag,omitempty"`
}

func getPull(ctx context.Context, in getPullIn, call *pdk.Call) (*pdk.Result, error) {
	at, lim, err := oneOfRepo(in.Owner, in.Repo, in.Number, in.ETag, in.MaxText, in.Files, in.Comments, in.ReviewComments)
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, call)
	if err != nil {
		return nil, err
	}
	number := strconv.FormatInt(in.Number, 10)
	about := fmt.Sprintf("pull request %d of %s/%s", in.Number, in.Owner, in.Repo)
	var a apiPull
	tag, same, err := c.object(at+"/pulls/"+number, "", in.ETag, about, &a)
	if err != nil {
		return nil, err
	}
	if same {
		return unchanged(tag, about), nil
	}
	out := pullOut{
		Repository: in.Owner + "/" + in.Repo, Number: a.Number, Title: a.Title, State: a.state(), Draft: a.Draft, Mergeable: a.Mergeable, MergeableState: a.MergeableState,
		Author: a.User.name(), Labels: labelNames(a.Labels), Assignees: logins(a.Assignees), Reviewers: logins(a.Reviewers),
		Head: a.Head.Label, HeadSHA: a.Head.SHA, Base: a.Base.Ref, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt, ClosedAt: a.ClosedAt, MergedAt: a.MergedAt, URL: a.HTMLURL,
		Commits: a.Commits, Additions: a.Additions, Deletions: a.Deletions, ChangedFiles: a.ChangedFiles,
		CommentCount: a.Comments, ReviewCommentCount: a.ReviewComments, ETag: tag,
	}
	out.Body, out.BodyTruncated = clip(a.Body, lim.text)
	of := func(path, what string, limit int) listing {
		return listing{path: at + path, about: about, what: what, limit: limit}
	}
	out.Files, out.MoreFiles, err = part(c, a.ChangedFiles, of("/pulls/"+number+"/files", "files", lim.lists[0]), files(in.Patches, lim.text))
	if err == nil {
		out.Comments, out.MoreComments, err = part(c, a.Comments, of("/issues/"+number+"/comments", "comments", lim.lists[1]), comments(lim.text))
	}
	if err == nil {
		out.ReviewComments, out.MoreReviewComments, err = part(c, a.ReviewComments, of("/pulls/"+number+"/comments", "review comments", lim.lists[2]), comments(lim.text))
	}
	if err != nil {
		return nil, err
	}
	return shown(out, "%s: %s", about, brief(a.Title)), nil
}

// part reads one of the lists of an object, unless it is empty or not wanted.
func part[T any](c *client, there int, l listing, read func([]byte) ([]T, error)) ([]T, bool, error) {
	if there == 0 || l.limit == 0 {
		return nil, there > 0, nil
	}
	return collect(c, l, read)
}

// files reads a list of changed files.
func files(patches bool, maxText int) func([]byte) ([]fileLine, error) {
	return listOf(func(a apiFile) (fileLine, bool) {
		out := fileLine{Path: a.Filename, From: a.Previous, Status: a.Status, Additions: a.Additions, Deletions: a.Deletions}
		if patches {
			out.Patch, out.PatchTruncated = clip(a.Patch, maxText)
		}
		return out, true
	})
}
