package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/caps/http"
)

// request is one request with its redirects.
type request struct {
	method string
	url    string
	header map[string][]string
	body   []byte
	follow bool
	// hops bounds the redirects.
	hops int
	// only, if not nil, are the hosts that the call may reach beside the policy.
	only []string
}

// response is the last answer of a request.
type response struct {
	status int
	header map[string][]string
	url    string
	chain  []string
	body   []byte
	// cut says that the body went on.
	cut bool
}

// errDeadline is the cause of a context whose call's own time is up.
var errDeadline = errors.New("the time of the request is up")

// do sends a request and follows its redirects, within the deadline of ctx. Every
// hop goes through all gates anew.
func (s *shared) do(ctx context.Context, req request) (*response, error) {
	out := &response{chain: []string{}}
	for hop := 0; ; hop++ {
		if err := s.judge(req, hop); err != nil {
			return nil, err
		}
		res, err := s.client.Do(ctx, http.Request{Method: req.method, URL: req.url, Header: req.header, Body: req.body, Redirect: http.Manual})
		if err != nil {
			return nil, s.explain(err, req.url, hop)
		}
		if !req.follow || res.Status < 300 || res.Status > 399 || res.Status == 304 {
			return out, s.take(out, res, hop)
		}
		_ = res.Body.Close() // nobody reads it
		location := res.Header.Get("Location")
		if location == "" {
			return nil, failure(abi.TypeExecution, codeNoLocation, "%s answered with status %d and no Location, so there is nothing to follow; set follow_redirects to false to see that answer", hostOf(req.url), res.Status)
		}
		if hop >= req.hops {
			return nil, failure(abi.TypeExecution, codeTooMany, "there were more than %d redirects, the last one from %s; raise max_redirects (at most %d), or ask for where it leads", req.hops, hostOf(req.url), maxRedirects).
				With(map[string]any{"redirect_chain": out.chain})
		}
		next, err := follow(req, res.Status, location)
		if err != nil {
			return nil, err
		}
		out.chain = append(out.chain, fmt.Sprintf("%d → %s", res.Status, next.url))
		req = next
	}
}

// judge says what of the policy forbids a hop, before anything is sent.
func (s *shared) judge(req request, hop int) error {
	u, err := url.Parse(req.url)
	if err == nil && u.Scheme != "" && !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https") {
		return failure(abi.TypePermission, codeScheme, "the scheme %q cannot be fetched, only http and https", clip(u.Scheme)).With(map[string]any{"host": u.Hostname(), "hop": hop})
	}
	if err := s.client.Check(req.method, req.url); err != nil {
		return s.explain(err, req.url, hop)
	}
	if !s.opt.AllowPrivateNetwork { // a list of hosts does not open a private network
		t, err := http.ParseTarget(req.url)
		public := http.Policy{}
		if err == nil {
			err = public.Allows(t, req.method)
		}
		if err != nil {
			return s.explain(err, req.url, hop)
		}
	}
	if req.only != nil && !http.Covers(u.Hostname(), patterns(req.only)) {
		return failure(abi.TypePermission, codeHost, "%s is not among the domains of this turn: %s", u.Hostname(), strings.Join(req.only, ", ")).With(map[string]any{"host": u.Hostname(), "hop": hop})
	}
	return nil
}

// plainHeaders may go along to another origin: they say nothing about anybody.
var plainHeaders = [...]string{"User-Agent", "Accept", "Accept-Language"}

// follow is the request that a redirect asks for. A 303, and a 301 or 302 of
// anything but GET and HEAD, becomes a GET without a body. Another origin gets none
// of the caller's headers but the plain ones.
func follow(req request, status int, location string) (request, error) {
	from, err := url.Parse(req.url)
	if err != nil {
		return req, failure(abi.TypeNetwork, codeBroken, "the address %s cannot be read", clip(req.url))
	}
	to, err := from.Parse(location)
	if err != nil || len(location) > 8<<10 {
		return req, failure(abi.TypeNetwork, codeBroken, "%s redirects to something that is no address", from.Host)
	}
	if from.Scheme == "https" && to.Scheme == "http" {
		return req, failure(abi.TypePermission, codeScheme, "%s redirects from https to http, which would send the rest in the open", from.Host).With(map[string]any{"host": to.Hostname()})
	}
	next := req
	next.header = map[string][]string{}
	for k, v := range req.header {
		next.header[k] = v
	}
	get := req.method == "GET" || req.method == "HEAD"
	if status == 303 || (status == 301 || status == 302) && !get {
		next.method, next.body = "GET", nil
		dropHeaders(next.header, func(k string) bool { return strings.HasPrefix(k, "content-") })
	}
	if !strings.EqualFold(from.Scheme, to.Scheme) || !strings.EqualFold(from.Host, to.Host) {
		dropHeaders(next.header, func(k string) bool {
			return !strings.HasPrefix(k, "content-") && !slices.ContainsFunc(plainHeaders[:], func(p string) bool { return strings.EqualFold(p, k) })
		})
	}
	to.Fragment = ""
	next.url = to.String()
	return next, nil
}

func dropHeaders(h map[string][]string, drop func(lower string) bool) {
	for k := range h {
		if drop(strings.ToLower(k)) {
			delete(h, k)
		}
	}
}

// take reads the body of an answer, as much as is kept.
func (s *shared) take(out *response, res *http.Response, hop int) error {
	defer func() { _ = res.Body.Close() }() // read as far as we want it
	body, err := io.ReadAll(io.LimitReader(res.Body, s.lim.MaxBody+1))
	if int64(len(body)) > s.lim.MaxBody {
		body, out.cut, err = body[:s.lim.MaxBody], true, nil
	}
	if err != nil {
		return s.explain(err, res.URL, hop)
	}
	out.status, out.header, out.url, out.body = res.Status, res.Header, res.URL, body
	return nil
}

// explain turns an error of caps/http into one of these tools, by its code and the
// types in its chain.
func (s *shared) explain(err error, rawURL string, hop int) error {
	own := abi.AsError(err)
	host := hostOf(rawURL)
	details := map[string]any{"host": host, "hop": hop}
	var at struct {
		Address string `json:"address"`
	}
	if json.Unmarshal(own.Details, &at) == nil && at.Address != "" {
		details["address"] = at.Address
	}
	switch own.Code {
	case abi.CodeNotGranted, abi.CodeNotDeclared:
		return failure(abi.TypePermission, codeHost, "%s", own.Message).With(details)
	case abi.CodeNetBlocked:
		return s.blocked(own, rawURL, details)
	case abi.CodeNetLimit:
		return failure(abi.TypeNetwork, codeLimit, "%s: %s", host, own.Message).With(details)
	case abi.CodeRequest:
		return abi.NewError(abi.CodeValidation, "%s", own.Message)
	case abi.CodeNetFailed:
		return network(err, own, host, details)
	}
	return err // the cause of the context
}

// blocked tells a host that a list blocks from an address that is not public.
func (s *shared) blocked(own *abi.Error, rawURL string, details map[string]any) error {
	code := codeAddress
	if t, err := http.ParseTarget(rawURL); err == nil {
		public := http.Policy{Blocked: patterns(s.opt.BlockedHosts), AllowPrivateNetwork: true}
		if public.Allows(t, "GET") != nil {
			code = codeHost
		}
	}
	hint := ""
	if code == codeAddress && !s.opt.AllowPrivateNetwork {
		hint = "; only the setting allowPrivateNetwork opens private networks"
	}
	return failure(abi.TypePermission, code, "%s%s", own.Message, hint).With(details)
}

// network tells failures of the network apart.
func network(err error, own *abi.Error, host string, details map[string]any) error {
	var dns *net.DNSError
	var op *net.OpError
	var record tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	var alert tls.AlertError
	var unknown x509.UnknownAuthorityError
	code := codeBroken
	switch {
	case errors.As(err, &dns):
		code = codeDNS
	case errors.As(err, &record), errors.As(err, &cert), errors.As(err, &alert), errors.As(err, &unknown):
		code = codeTLS
	case errors.As(err, &op) && op.Op == "dial":
		code = codeConnect
	}
	return failure(abi.TypeNetwork, code, "%s: %s", host, own.Message).With(details)
}

// hostOf is the host of an address for an error, or the address if it has none.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return clip(raw)
	}
	return clip(u.Host)
}

func clip(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// within gives a context that ends with the call or after a time.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errDeadline)
}
