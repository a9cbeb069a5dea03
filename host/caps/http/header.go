package http

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/bladehost/bladehost/abi"
)

// ownHeaders are the transport's business, or would let a caller speak for
// another host or open a tunnel.
var ownHeaders = map[string]bool{
	"Host": true, "Connection": true, "Proxy-Authorization": true, "Proxy-Authenticate": true, "Proxy-Connection": true, "Keep-Alive": true,
	"Transfer-Encoding": true, "Content-Length": true, "Upgrade": true, "Te": true, "Trailer": true, "Expect": true, "Cookie": true, "Cookie2": true,
	FencingHeader: true,
}

// FencingHeader carries the token of a session's lease to the outside; see
// [Request.Fence].
const FencingHeader = "X-Blade-Fencing-Token"

// maxHeaders bounds the header fields of a request.
const maxHeaders = 100

// secretMark is how a secret stands in a header value.
var secretMark = regexp.MustCompile(`\{\{secret:[A-Za-z_][A-Za-z0-9_]*\}\}`)

func hasSecret(values []string) bool {
	for _, v := range values {
		if secretMark.MatchString(v) {
			return true
		}
	}
	return false
}

// travels are the headers that go along to another origin: what says how the answer
// should be, and what the body is. Any other may be a credential, whatever its name.
var travels = map[string]bool{
	"Accept": true, "Accept-Charset": true, "Accept-Encoding": true, "Accept-Language": true, "User-Agent": true,
	"Content-Type": true, "Content-Language": true, "Content-Encoding": true, "Cache-Control": true, "Pragma": true, "Range": true,
}

// unreadable reports whether a header would get an answer that cannot be looked
// through for secrets: in pieces, or in an encoding that is not undone here.
func unreadable(key string, values []string) bool {
	switch key {
	case "Range", "If-Range":
		return true
	case "Accept-Encoding":
		return slices.ContainsFunc(values, func(v string) bool { return !readableEncoding(v) })
	}
	return false
}

// readableEncoding reports whether an encoding is undone here; there is none by the
// empty name.
func readableEncoding(name string) bool {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "", "identity", "gzip", "x-gzip":
		return true
	}
	return false
}

// checkRequest refuses what would be no sound request, before anything is sent.
func (c *Client) checkRequest(req *Request) error {
	bad := func(format string, args ...any) error {
		return abi.NewError(abi.CodeRequest, "%s", fmt.Sprintf(format, args...))
	}
	if !httpguts.ValidHeaderFieldName(req.Method) || req.Method != strings.ToUpper(req.Method) || len(req.Method) > 32 {
		return bad("the method %q is not a word in capitals", brief(req.Method))
	}
	switch req.Method {
	case http.MethodConnect, http.MethodTrace:
		return bad("the method %s is not possible", req.Method)
	}
	n, size := 0, int64(0)
	for name, values := range req.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return bad("the header name %q is not valid", brief(name))
		}
		if key := http.CanonicalHeaderKey(name); ownHeaders[key] || strings.HasPrefix(key, "Proxy-") || strings.HasPrefix(key, "Sec-") {
			return bad("the header %s cannot be set", key)
		} else if c.opt.Fill != nil && unreadable(key, values) {
			return bad("the header %s cannot be set to %s by who uses secrets: the answer is looked through for them", key, brief(strings.Join(values, ", ")))
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return bad("the value of the header %s is not valid", name)
			}
			n++
			size += int64(len(name) + len(v))
		}
	}
	if n > maxHeaders || size > c.lim.MaxHeader {
		return bad("the request has %d header fields with %d bytes; at most %d and %d are allowed", n, size, maxHeaders, c.lim.MaxHeader)
	}
	return nil
}

// header is the header of one hop, with the secrets of its host:port in place.
func (c *Client) header(ctx context.Context, h http.Header, host string) (http.Header, error) {
	out := make(http.Header, len(h)+2)
	for name, values := range h {
		for _, v := range values {
			if c.opt.Fill != nil && secretMark.MatchString(v) {
				filled, err := c.opt.Fill(ctx, host, v)
				if err != nil {
					return nil, err
				}
				if !httpguts.ValidHeaderFieldValue(filled) {
					return nil, abi.NewError(abi.CodeRequest, "a secret in the header %s has characters that no header can have", name)
				}
				v = filled
			}
			out.Add(name, v)
		}
	}
	return out, nil
}
