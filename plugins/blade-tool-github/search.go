package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/pdk"
)

type searchIn struct {
	Type  string `json:"type" jsonschema:"What to search for; issues finds pull requests too." enum:"issues,code,repositories"`
	Query string `json:"query" jsonschema:"The query, in GitHub's search syntax." minLength:"1" maxLength:"1000"`
	Sort  string `json:"sort,omitempty" jsonschema:"What the results are ordered by, without it by how well they match. issues: comments, created, updated. repositories: stars, forks, updated." enum:"comments,created,updated,stars,forks"`
	Order string `json:"order,omitempty" jsonschema:"The order, where sort is given." enum:"asc,desc" default:"desc"`
	Limit *int   `json:"limit,omitempty" jsonschema:"How many at most." minimum:"1" maximum:"1000" default:"30"`
}

// sorts are what the results of each search can be ordered by.
var sorts = map[string][]string{
	"issues":       {"comments", "created", "updated"},
	"code":         {},
	"repositories": {"stars", "forks", "updated"},
}

type apiRepo struct {
	FullName    string   `json:"full_name"`
	Description string   `json:"description"`
	Private     bool     `json:"private"`
	Fork        bool     `json:"fork"`
	Archived    bool     `json:"archived"`
	Language    string   `json:"language"`
	Topics      []string `json:"topics"`
	Stars       int      `json:"stargazers_count"`
	Forks       int      `json:"forks_count"`
	PushedAt    string   `json:"pushed_at"`
	HTMLURL     string   `json:"html_url"`
}

type apiCode struct {
	Path       string  `json:"path"`
	SHA        string  `json:"sha"`
	HTMLURL    string  `json:"html_url"`
	Repository apiRepo `json:"repository"`
	Matches    []struct {
		Fragment string `json:"fragment"`
	} `json:"text_matches"`
}

type foundIssue struct {
	Repository    string   `json:"repository"`
	Number        int64    `json:"number"`
	Title         string   `json:"title"`
	State         string   `json:"state"`
	IsPullRequest bool     `json:"isPullRequest,omitempty"`
	Author        string   `json:"author"`
	Labels        []string `json:"labels,omitempty"`
	Comments      int      `json:"comments,omitempty"`
	CreatedAt     string   `json:"createdAt"`
	UpdatedAt     string   `json:"updatedAt"`
	URL           string   `json:"url"`
}

type foundCode struct {
	Repository string   `json:"repository"`
	Path       string   `json:"path"`
	Fragments  []string `json:"fragments,omitempty"`
	URL        string   `json:"url"`
}

type foundRepo struct {
	Repository  string   `json:"repository"`
	Description string   `json:"description,omitempty"`
	Language    string   `json:"language,omitempty"`
	Topics      []string `json:"topics,omitempty"`
	Stars       int      `json:"stars"`
	Forks       int      `json:"forks"`
	Private     bool     `json:"private,omitempty"`
	Fork        bool     `json:"fork,omitempty"`
	Archived    bool     `json:"archived,omitempty"`
	PushedAt    string   `json:"pushedAt,omitempty"`
	URL         string   `json:"url"`
}

// found is the result of a search; items are in the list of their kind.
type found struct {
	Type  string `json:"type"`
	Total int    `json:"total"`
	Count int    `json:"count"`
	More  bool   `json:"more"`
	// Incomplete says that GitHub ran out of time and left results out.
	Incomplete bool `json:"incomplete,omitempty"`
	Items      any  `json:"items"`
}

func search(ctx context.Context, in searchIn, call *pdk.Call) (*pdk.Result, error) {
	allowed, known := sorts[in.Type]
	if !known {
		return nil, pdk.Invalid("bad_filter", "type is %q; it can be issues, code or repositories", brief(in.Type))
	}
	if in.Sort != "" && !slices.Contains(allowed, in.Sort) {
		return nil, pdk.Invalid("bad_filter", "results of %s cannot be ordered by %q; leave sort out%s", in.Type, brief(in.Sort), orOneOf(allowed))
	}
	if strings.TrimSpace(in.Query) == "" || len(in.Query) > 4*maxLimit || !plain(in.Query) {
		return nil, pdk.Invalid("bad_query", "the query is empty, too long, or has control characters")
	}
	limit, err := limitOr(in.Limit, 1)
	if err != nil {
		return nil, err
	}
	f := filters{values: url.Values{"q": {in.Query}}}
	if in.Sort != "" {
		f.text("sort", in.Sort)
		f.oneOf("order", in.Order, "asc", "desc")
	}
	if f.err != nil {
		return nil, f.err
	}
	c, err := connect(ctx, call)
	if err != nil {
		return nil, err
	}
	l := listing{path: "/search/" + in.Type, query: f.values, about: "the search for " + in.Type, what: "results", limit: limit}
	out := found{Type: in.Type}
	switch in.Type {
	case "code":
		if err := c.needToken("a search for code"); err != nil {
			return nil, err
		}
		l.accept = mediaMatch
		err = into(c, l, &out, codeFound)
	case "issues":
		err = into(c, l, &out, issueFound)
	default:
		err = into(c, l, &out, repoFound)
	}
	if err != nil {
		return nil, err
	}
	return shown(out, "%d of %d %s", out.Count, out.Total, in.Type), nil
}

func orOneOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " or give one of " + strings.Join(list, ", ")
}

// into runs a search and puts what it finds into out.
func into[In, Out any](c *client, l listing, out *found, conv func(In) (Out, bool)) error {
	items, more, err := collect(c, l, func(body []byte) ([]Out, error) {
		var a struct {
			Total      int   `json:"total_count"`
			Incomplete bool  `json:"incomplete_results"`
			Items      *[]In `json:"items"`
		}
		if err := json.Unmarshal(body, &a); err != nil {
			return nil, err
		}
		if a.Items == nil {
			return nil, errNoItems
		}
		out.Total, out.Incomplete = a.Total, out.Incomplete || a.Incomplete
		return kept(*a.Items, conv), nil
	})
	out.Items, out.Count, out.More = items, len(items), more
	return err
}

func issueFound(a apiIssue) (foundIssue, bool) {
	return foundIssue{
		Repository: repoOf(a.RepositoryURL), Number: a.Number, Title: a.Title, State: a.State, IsPullRequest: a.isPull(), Author: a.User.name(),
		Labels: labelNames(a.Labels), Comments: a.Comments, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt, URL: a.HTMLURL,
	}, true
}

// repoOf is the owner and name at the end of the address of a repository.
func repoOf(address string) string {
	_, name, _ := strings.Cut(address, "/repos/")
	return name
}

func codeFound(a apiCode) (foundCode, bool) {
	out := foundCode{Repository: a.Repository.FullName, Path: a.Path, URL: a.HTMLURL}
	for _, m := range a.Matches {
		if m.Fragment != "" {
			out.Fragments = append(out.Fragments, m.Fragment)
		}
	}
	return out, true
}

func repoFound(a apiRepo) (foundRepo, bool) {
	return foundRepo{
		Repository: a.FullName, Description: a.Description, Language: a.Language, Topics: a.Topics, Stars: a.Stars, Forks: a.Forks,
		Private: a.Private, Fork: a.Fork, Archived: a.Archived, PushedAt: a.PushedAt, URL: a.HTMLURL,
	}, true
}

var errNoItems = errors.New("it has no items")
