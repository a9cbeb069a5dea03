package main

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bladehost/bladehost/pdk"
)

const (
	defaultLimit = 30
	maxLimit     = 1000
	// maxPerPage is GitHub's.
	maxPerPage = 100
	// morePages is how many pages beyond the fullest case are read: pages may
	// hold fewer than was asked for, or none that pass a filter.
	morePages = 20
)

// listing is a list that comes in pages.
type listing struct {
	path   string
	query  url.Values
	accept string
	about  string
	// what are its items, for the progress.
	what  string
	limit int
	// perPage is how many to ask for at once; 0 means as many as limit needs.
	perPage int
}

// limitOr checks a limit of the input, which is defaultLimit where it is missing.
func limitOr(n *int, least int) (int, error) {
	if n == nil {
		return defaultLimit, nil
	}
	if *n < least || *n > maxLimit {
		return 0, pdk.Invalid("bad_limit", "%d is no limit: give a number from %d to %d", *n, least, maxLimit)
	}
	return *n, nil
}

// collect reads pages until there are enough items or no more pages. read makes
// items of one answer. more says that there are further ones.
func collect[T any](c *client, l listing, read func(body []byte) ([]T, error)) (items []T, more bool, err error) {
	if l.perPage == 0 {
		l.perPage = min(l.limit, maxPerPage)
	}
	if l.query == nil {
		l.query = url.Values{}
	}
	l.query.Set("per_page", strconv.Itoa(l.perPage))
	next := c.base + l.path + "?" + l.query.Encode()
	items = make([]T, 0, min(l.limit, maxPerPage))
	total, seen := l.limit, []string{}
	for most := l.limit/l.perPage + morePages; ; most-- {
		if c.ctx.Err() != nil {
			return nil, false, context.Cause(c.ctx)
		}
		res, _, err := c.send(request{url: next, accept: l.accept, about: l.about})
		if err != nil {
			return nil, false, err
		}
		batch, err := read(res.Body)
		if err != nil {
			return nil, false, badAnswer(l.about, "%v", err)
		}
		room := l.limit - len(items)
		items = append(items, batch[:min(room, len(batch))]...)
		seen = append(seen, next)
		if next = link(res, "next"); next != "" && (originOf(next) != c.origin || slices.Contains(seen, next)) {
			return nil, false, badAnswer(l.about, "the next page is not at %s, or is one that was there already", c.origin)
		}
		more = next != "" || len(batch) > room
		if len(seen) == 1 {
			total = l.total(res)
		}
		if next != "" || len(seen) > 1 {
			if err := c.call.Progress("Read "+strconv.Itoa(len(items))+" "+l.what+" of "+l.about, float64(len(items)), float64(max(total, len(items)))); err != nil {
				return nil, false, err
			}
		}
		if next == "" || len(items) >= l.limit || most <= 1 {
			return items, more, nil
		}
	}
}

// total is how many items there will be, as far as the first page tells.
func (l *listing) total(res *pdk.HTTPResponse) int {
	u, err := url.Parse(link(res, "last"))
	if err != nil {
		return l.limit
	}
	pages, err := strconv.Atoi(u.Query().Get("page"))
	if err != nil || pages < 1 || pages > maxLimit {
		return l.limit
	}
	return min(l.limit, pages*l.perPage)
}

// link is the address that an answer's field Link gives for a relation, or "".
func link(res *pdk.HTTPResponse, rel string) string {
	for _, field := range res.Headers["link"] {
		for field != "" {
			_, rest, ok := strings.Cut(field, "<")
			if !ok {
				break
			}
			target, params, ok := strings.Cut(rest, ">")
			if !ok {
				break
			}
			// The parameters end where the next address begins.
			end := strings.IndexByte(params, '<')
			if end < 0 {
				end = len(params)
			}
			if hasRel(params[:end], rel) {
				return target
			}
			field = params[end:]
		}
	}
	return ""
}

func hasRel(params, rel string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.Trim(p, " \t,"), "=")
		if strings.EqualFold(strings.TrimSpace(name), "rel") && slices.Contains(strings.Fields(strings.Trim(strings.TrimSpace(value), `"`)), rel) {
			return true
		}
	}
	return false
}

// listOf reads a JSON list, and keeps what conv says.
func listOf[In, Out any](conv func(In) (Out, bool)) func([]byte) ([]Out, error) {
	return func(body []byte) ([]Out, error) {
		var in []In
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		return kept(in, conv), nil
	}
}

func kept[In, Out any](in []In, conv func(In) (Out, bool)) []Out {
	out := make([]Out, 0, len(in))
	for _, x := range in {
		if y, ok := conv(x); ok {
			out = append(out, y)
		}
	}
	return out
}
