// Package pdkhttp lets net/http go through the host. It is a package of its own
// because net/http adds some 4 MB to a module; [pdk.HTTP] does without.
package pdkhttp

import (
	"io"
	"net/http"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

// Client is an http.Client whose requests go through the host. Use requests
// made with http.NewRequestWithContext and the call's context.
func Client() *http.Client { return &http.Client{Transport: Transport{}} }

// Transport is an http.RoundTripper over the service http.request. The context
// of a request must be that of a call. Redirects are the client's business, so
// that each hop is a request of its own; the host judges each.
type Transport struct{}

var _ http.RoundTripper = Transport{}

// RoundTrip sends one request.
func (Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		defer req.Body.Close()
		b, err := io.ReadAll(io.LimitReader(req.Body, abi.MaxFrameBody+1))
		if err != nil {
			return nil, err
		}
		if len(b) > abi.MaxFrameBody {
			return nil, pdk.Invalid("request_too_large", "the request has more than %d bytes", abi.MaxFrameBody)
		}
		body = b
	}
	out := pdk.HTTPRequest{Method: req.Method, URL: req.URL.String(), Body: body, Redirect: abi.RedirectManual, Headers: map[string]string{}}
	for name, values := range req.Header {
		out.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	res, stream, err := pdk.HTTPStream(req.Context(), out)
	if err != nil {
		return nil, err
	}
	header := make(http.Header, len(res.Headers))
	for name, values := range res.Headers {
		for _, v := range values {
			header.Add(name, v)
		}
	}
	return &http.Response{
		Status: http.StatusText(res.Status), StatusCode: res.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: stream, ContentLength: -1, Request: req,
	}, nil
}
