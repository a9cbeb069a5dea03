package http

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/bladehost/bladehost/abi"
)

// ownHeaders are the transport's business, or would let a caller speak for
// another host or open a tunnel.
var ownHeaders = map[string]bool{
	"Host": true, "Connection": true, "Proxy-Authorization": true, "Proxy-Authenticate": true, "Proxy-Connection": true, "Keep-Alive": true,
	"Transfer-Encoding": true, "Content-Length": true, "Upgrade": true, "Te": true, "Trailer": true, "Expect": true, "Cookie": true, "Cookie2": true,
}

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

// credential reports whether a header is for one origin only.
func credential(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Authorization", "Proxy-Authorization", "Cookie", "Host", "X-Api-Key", "X-Auth-Token":
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
