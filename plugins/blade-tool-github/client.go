package main

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

const (
	// apiVersion is the version of the REST API that this was written for.
	apiVersion  = "2022-11-28"
	mediaJSON   = "application/vnd.github+json"
	mediaObject = "application/vnd.github.object+json"
	mediaRaw    = "application/vnd.github.raw+json"
	mediaMatch  = "application/vnd.github.text-match+json"

	// maxErrorBody is how much of a stream is read to learn what went wrong.
	maxErrorBody = 64 << 10
	// maxWait is the longest pause before a request is repeated.
	maxWait = 2 * time.Second
)

// firstWait is the pause where the server names none.
var firstWait = 500 * time.Millisecond

// client asks one GitHub for one call of a tool.
type client struct {
	ctx    context.Context
	call   *pdk.Call
	base   string
	origin string
	token  bool
}

func connect(ctx context.Context, call *pdk.Call) (*client, error) {
	var set settings
	if err := pdk.Config(ctx, &set); err != nil {
		return nil, err
	}
	base, err := parseBase(set.BaseURL)
	if err != nil {
		return nil, err
	}
	token, err := pdk.SecretExists(ctx, tokenName)
	if err != nil {
		return nil, err
	}
	return &client{ctx: ctx, call: call, base: base, origin: originOf(base), token: token}, nil
}

// needToken refuses what GitHub does not do for strangers.
func (c *client) needToken(what string) error {
	if c.token {
		return nil
	}
	return tokenRequired(what)
}

// request is one request to the API.
type request struct {
	method string // GET where empty
	url    string
	accept string
	etag   string
	body   []byte
	// about names for a person what is asked for.
	about  string
	stream bool
}

func (r *request) get() bool { return r.method == "" || r.method == "GET" }

// send makes a request and judges the answer: any other than a success, or a 304
// that was asked for, is an error. A GET that meets a gateway's hiccup is sent
// once more, anything else exactly once. The stream is nil unless it was asked
// for and the answer is a success.
func (c *client) send(r request) (*pdk.HTTPResponse, io.ReadCloser, error) {
	for attempt := 0; ; attempt++ {
		res, stream, err := c.once(r)
		if err != nil {
			return nil, nil, c.failure(r, err)
		}
		wait, again := hiccup(res)
		if r.get() && attempt == 0 && again {
			if err := pause(c.ctx, wait); err != nil {
				return nil, nil, err
			}
			continue
		}
		if err := c.judge(r, res); err != nil {
			if stream != nil {
				_ = stream.Close()
			}
			return nil, nil, err
		}
		return res, stream, nil
	}
}

func (c *client) once(r request) (*pdk.HTTPResponse, io.ReadCloser, error) {
	out := pdk.HTTPRequest{Method: r.method, URL: r.url, Body: r.body, Headers: c.headers(r)}
	if !r.get() {
		// Followed, a 301 would turn into a GET and look like a success.
		out.Redirect = abi.RedirectManual
	}
	if !r.stream {
		res, err := pdk.HTTP(c.ctx, out)
		return res, nil, err
	}
	res, stream, err := pdk.HTTPStream(c.ctx, out)
	if err != nil || res.Status == 200 {
		return res, stream, err
	}
	res.Body, err = io.ReadAll(io.LimitReader(stream, maxErrorBody))
	return res, nil, errors.Join(err, stream.Close())
}

func (c *client) headers(r request) map[string]string {
	h := map[string]string{
		"accept": r.accept, "user-agent": "blade-tool-github/" + version, "x-github-api-version": apiVersion,
	}
	if r.accept == "" {
		h["accept"] = mediaJSON
	}
	if c.token {
		h["authorization"] = "Bearer " + pdk.Secret(tokenName)
	}
	if r.etag != "" {
		h["if-none-match"] = r.etag
	}
	if r.body != nil {
		h["content-type"] = "application/json"
	}
	return h
}

// hiccup reports whether a request may well succeed a moment later.
func hiccup(res *pdk.HTTPResponse) (wait time.Duration, ok bool) {
	if res.Status < 502 || res.Status > 504 {
		return 0, false
	}
	wait = firstWait
	if after, said := retryAfter(res, time.Now()); said {
		wait = after
	}
	return wait, wait <= maxWait
}

// pause waits, or ends with the reason to stop.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

func (c *client) judge(r request, res *pdk.HTTPResponse) error {
	if originOf(res.URL) != c.origin {
		return pdk.Errorf("moved", "the request for %s was redirected away from %s; what answered is not trusted", r.about, c.origin).WithType(abi.TypeNetwork)
	}
	if res.Status >= 200 && res.Status < 300 || res.Status == 304 && r.etag != "" {
		return nil
	}
	return c.statusError(r, res)
}

// header is the first value of a field of an answer.
func header(res *pdk.HTTPResponse, name string) string {
	if v := res.Headers[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// retryAfter reads the field Retry-After: seconds, or a date.
func retryAfter(res *pdk.HTTPResponse, now time.Time) (time.Duration, bool) {
	v := strings.TrimSpace(header(res, "retry-after"))
	if n, err := strconv.ParseInt(v, 10, 64); err == nil && n >= 0 && n <= maxRetryAfter {
		return time.Duration(n) * time.Second, true
	}
	if at, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", v); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter*time.Second), true
	}
	return 0, false
}

// maxRetryAfter bounds what a server may say, in seconds: a day.
const maxRetryAfter = 24 * 60 * 60
