package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// Limits bounds one request. A zero field has the default beside it.
type Limits struct {
	// Timeout bounds everything until the last byte was read.
	Timeout time.Duration // 30 s
	// Dial, TLS and Header bound the steps of getting an answer.
	Dial, TLS, Header time.Duration // 10 s each
	// MaxBody bounds the decoded body, in bytes.
	MaxBody int64 // 16 MiB
	// MaxHeader bounds the answer's header, and the request's.
	MaxHeader int64 // 64 KiB
	// MaxRatio bounds decoded to received bytes, once the first MiB is over.
	MaxRatio int64 // 100
	// MinRate is how many bytes a second a body must bring, judged every ten
	// seconds.
	MinRate int64 // 100
	// MaxRedirects bounds the hops.
	MaxRedirects int // 5
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&l.Timeout, 30 * time.Second}, {&l.Dial, 10 * time.Second}, {&l.TLS, 10 * time.Second}, {&l.Header, 10 * time.Second}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	for _, d := range []struct {
		v   *int64
		def int64
	}{{&l.MaxBody, 16 << 20}, {&l.MaxHeader, 64 << 10}, {&l.MaxRatio, 100}, {&l.MinRate, 100}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if l.MaxRedirects == 0 {
		l.MaxRedirects = 5
	}
	return l
}

// Options configures a Client.
type Options struct {
	Policy Policy
	Limits Limits
	// Resolver resolves names; nil is the system's.
	Resolver *net.Resolver
	// Proxy is an explicit HTTP proxy, or nil. Names are then resolved and judged
	// here, and the proxy is asked for the address. The proxy itself may be
	// private: whoever set it chose it.
	Proxy *url.URL
	// Fill replaces the secrets in the header values of a request to a host:port. It is
	// called for each hop. Nil leaves values as they are.
	Fill func(ctx context.Context, host, value string) (string, error)
	// Note is told of each hop that was sent, and of each that was refused, with
	// the reason. Nil tells nobody.
	Note func(method, url string, status int, refused error)
}

// Client sends requests under one policy. It is safe for concurrent use; Close
// frees its connections.
type Client struct {
	opt Options
	lim Limits
	// public and private have the connections. They are apart, so that a client never
	// comes to one that only its sibling's policy would have opened.
	public, private *http.Transport

	policy atomic.Pointer[Policy]
	mu     sync.Mutex
	active map[*exchange]struct{}
}

// exchange is a request on its way, or an answer that is being read.
type exchange struct {
	cancel context.CancelCauseFunc
	target Target
	method string
	// private says that it may have gone to a private address.
	private bool
}

// New makes a Client. Every outgoing HTTP client of this project is made here.
func New(opt Options) *Client {
	c := &Client{opt: opt, lim: opt.Limits.withDefaults(), active: map[*exchange]struct{}{}}
	c.policy.Store(&opt.Policy)
	c.public, c.private = c.transport(), c.transport()
	return c
}

func (c *Client) transport() *http.Transport {
	return &http.Transport{
		Proxy: nil, DialContext: c.dial, TLSHandshakeTimeout: c.lim.TLS, ResponseHeaderTimeout: c.lim.Header,
		MaxResponseHeaderBytes: c.lim.MaxHeader, DisableCompression: true, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second,
	}
}

// Sibling is a client with a policy and secrets of its own that shares the
// connections, and everything else, with c.
func (c *Client) Sibling(p Policy, fill func(ctx context.Context, host, value string) (string, error)) *Client {
	opt := c.opt
	opt.Policy, opt.Fill = p, fill
	out := &Client{opt: opt, lim: c.lim, public: c.public, private: c.private, active: map[*exchange]struct{}{}}
	out.policy.Store(&opt.Policy)
	return out
}

// SetPolicy puts another policy in force, for requests on their way too: those
// that it does not allow end at once.
func (c *Client) SetPolicy(p Policy) {
	c.policy.Store(&p)
	c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.active {
		if refused := x.judge(&p); refused != nil {
			x.cancel(refused)
		}
	}
}

// judge is why a policy does not allow the exchange, or nil.
func (x *exchange) judge(p *Policy) error {
	private, refused := p.judge(x.target, x.method)
	switch {
	case refused != nil:
		return refused
	case x.private && !private:
		return abi.NewError(abi.CodeNetBlocked, "%s may not lead to private addresses any more", x.target.HostPort())
	}
	return nil
}

// Policy is the policy in force.
func (c *Client) Policy() Policy { return *c.policy.Load() }

// Active counts the requests on their way and the answers that are being read.
func (c *Client) Active() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.active)
}

func (c *Client) enter(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active[x] = struct{}{}
}

func (c *Client) leave(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.active, x)
}

// at notes where an exchange is now, and ends it if the policy has changed since
// the hop was judged.
func (c *Client) at(x *exchange, t Target, method string, private bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.target, x.method, x.private = t, method, private
	return x.judge(c.policy.Load())
}

// Close closes idle connections.
func (c *Client) Close() {
	c.public.CloseIdleConnections()
	c.private.CloseIdleConnections()
}

// Redirect says what to do with a redirect.
type Redirect int

// Ways to treat redirects.
const (
	// Follow goes where it leads, each hop judged anew.
	Follow Redirect = iota
	// Manual makes the redirect itself the answer.
	Manual
	// Refuse makes it an error.
	Refuse
)

// Request is one request.
type Request struct {
	// Method is in capitals; empty means GET.
	Method string
	URL    string
	Header http.Header
	Body   []byte
	// Timeout may lower the limit's.
	Timeout  time.Duration
	Redirect Redirect
	// MaxBody may change the limit's, for streams; 0 means the limit's.
	MaxBody int64
	// Fence is the token of the lease that the caller's session runs under, so that
	// the other end can refuse an old owner; empty means there is none. It goes to the
	// origin of URL only.
	Fence string
}

// Response is the answer to the last hop. Body is decoded and within the limits;
// reading it past them is an error. The caller closes it.
type Response struct {
	Status int
	Header http.Header
	// URL is where the answer came from.
	URL string
	// Length is the length of the body where it is known, else -1.
	Length int64
	Body   io.ReadCloser
}

// Do sends a request. An error is an *abi.Error: NOT_GRANTED and NETWORK_BLOCKED
// for what is not allowed, NETWORK_LIMIT and NETWORK_FAILED for what went wrong,
// INVALID_REQUEST for what makes no sense, or the cause of ctx.
func (c *Client) Do(ctx context.Context, req Request) (*Response, error) {
	if req.Method == "" {
		req.Method = http.MethodGet
	}
	if err := c.checkRequest(&req); err != nil {
		return nil, err
	}
	limit := c.lim.Timeout
	if req.Timeout > 0 {
		limit = min(limit, req.Timeout)
	}
	outer := ctx
	ctx, revoke := context.WithCancelCause(ctx)
	x := &exchange{cancel: revoke}
	c.enter(x)
	ctx, stop := context.WithTimeoutCause(ctx, limit, errTime)
	cancel := func() {
		stop()
		revoke(nil)
		c.leave(x)
	}
	res, err := c.hops(ctx, x, req)
	if err != nil {
		defer cancel()
		return nil, c.failure(outer, ctx, err, limit)
	}
	body := &body{
		r: res.Body, lim: c.lim, most: c.lim.MaxBody, ctx: ctx, cancel: cancel,
		fail: func(err error) error { return c.failure(outer, ctx, err, limit) },
	}
	if req.MaxBody > 0 {
		body.most = req.MaxBody
	}
	if err := body.decode(res.Header, c.opt.Fill != nil); err != nil {
		_ = body.Close()
		return nil, err
	}
	out := &Response{Status: res.StatusCode, Header: res.Header, URL: res.Request.URL.String(), Length: res.ContentLength, Body: body}
	if body.decoded {
		out.Length = -1
	}
	return out, nil
}

var errTime = errors.New("the time is up")

// hops sends the request and follows redirects.
func (c *Client) hops(ctx context.Context, x *exchange, req Request) (*http.Response, error) {
	var from *Target
	for hop := 0; ; hop++ {
		t, private, err := c.admit(req)
		if err == nil {
			err = c.at(x, t, req.Method, private)
		}
		if err != nil {
			c.note(req.Method, req.URL, 0, err)
			return nil, err
		}
		if from != nil && from.URL.Scheme == "https" && t.URL.Scheme == "http" {
			err := abi.NewError(abi.CodeNetBlocked, "%s redirects from https to http", from.HostPort())
			c.note(req.Method, req.URL, 0, err)
			return nil, err
		}
		res, err := c.send(ctx, req, t, private)
		if err != nil {
			return nil, err
		}
		c.note(req.Method, t.URL.String(), res.StatusCode, nil)
		loc := res.Header.Get("Location")
		if !isRedirect(res.StatusCode) || loc == "" || req.Redirect == Manual {
			return res, nil
		}
		_ = res.Body.Close()
		if req.Redirect == Refuse {
			return nil, abi.NewError(abi.CodeNetBlocked, "%s answered with a redirect", t.HostPort())
		}
		if hop >= c.lim.MaxRedirects {
			return nil, abi.NewError(abi.CodeNetLimit, "%s was redirected more than %d times", t.HostPort(), c.lim.MaxRedirects)
		}
		next, err := t.URL.Parse(loc)
		if err != nil || len(loc) > maxURL {
			return nil, abi.NewError(abi.CodeNetFailed, "%s redirects to what is no URL", t.HostPort())
		}
		req = redirected(req, t, next, res.StatusCode)
		from = &t
	}
}

func isRedirect(status int) bool {
	switch status {
	case 301, 302, 303, 307, 308:
		return true
	}
	return false
}

// redirected is the next hop: a 303, or a 301 or 302 of anything but GET and
// HEAD, becomes a GET without a body, and another origin gets no headers that could
// be credentials.
func redirected(req Request, from Target, to *url.URL, status int) Request {
	req.Header = req.Header.Clone()
	if get := req.Method == http.MethodGet || req.Method == http.MethodHead; status == 303 && !get || (status == 301 || status == 302) && !get {
		req.Method, req.Body = http.MethodGet, nil
		for h := range req.Header {
			if strings.HasPrefix(http.CanonicalHeaderKey(h), "Content-") {
				req.Header.Del(h)
			}
		}
	}
	if to.Scheme != from.URL.Scheme || !strings.EqualFold(to.Host, from.URL.Host) {
		for name, values := range req.Header {
			if !travels[http.CanonicalHeaderKey(name)] || hasSecret(values) {
				req.Header.Del(name)
			}
		}
		req.Fence = ""
	}
	req.URL = to.String()
	return req
}

// admit takes a request through the first two gates.
func (c *Client) admit(req Request) (Target, bool, error) {
	t, err := ParseTarget(req.URL)
	if err != nil {
		return t, false, abi.NewError(abi.CodeRequest, "%s cannot be requested: %v", brief(req.URL), err)
	}
	private, refused := c.policy.Load().judge(t, req.Method)
	if refused != nil {
		return t, false, refused
	}
	return t, private, nil
}

// Check takes a URL through the gates that need no connection. The error is the
// one that Do would end with.
func (c *Client) Check(method, rawURL string) error {
	_, _, err := c.admit(Request{Method: method, URL: rawURL})
	return err
}

// leave is what the dialer knows about a request: where it may go.
type leave struct {
	host    string
	private bool
}

type leaveKey struct{}

func (c *Client) send(ctx context.Context, req Request, t Target, private bool) (*http.Response, error) {
	ctx = context.WithValue(ctx, leaveKey{}, leave{t.HostPort(), private})
	u := *t.URL
	u.Host = t.HostPort()
	if defaultPort(u.Scheme, t.Port) {
		u.Host = strings.TrimSuffix(u.Host, fmt.Sprintf(":%d", t.Port))
	}
	hr, err := http.NewRequestWithContext(ctx, req.Method, u.String(), bytes.NewReader(req.Body))
	if err != nil {
		return nil, abi.NewError(abi.CodeRequest, "the request to %s: %v", t.HostPort(), err)
	}
	if len(req.Body) == 0 {
		hr.Body, hr.ContentLength, hr.GetBody = nil, 0, nil
	}
	if hr.Header, err = c.header(ctx, req.Header, t.HostPort()); err != nil {
		return nil, err
	}
	if req.Fence != "" {
		hr.Header.Set(FencingHeader, req.Fence)
	}
	if hr.Header.Get("User-Agent") == "" {
		hr.Header.Set("User-Agent", "bladehost")
	}
	if hr.Header.Get("Accept-Encoding") == "" {
		hr.Header.Set("Accept-Encoding", "gzip")
	}
	if private {
		return c.private.RoundTrip(hr)
	}
	return c.public.RoundTrip(hr)
}

func defaultPort(scheme string, port int) bool {
	return scheme == "http" && port == 80 || scheme == "https" && port == 443
}

// dial connects to a host, or to the proxy. The last gate is here: the address
// that the kernel is about to connect to.
func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l, _ := ctx.Value(leaveKey{}).(leave)
	if c.opt.Proxy != nil {
		return c.throughProxy(ctx, l, addr)
	}
	return c.dialer(l.private).DialContext(ctx, network, addr)
}

func (c *Client) dialer(private bool) *net.Dialer {
	return &net.Dialer{Timeout: c.lim.Dial, Resolver: c.opt.Resolver, ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
		return checkDial(network, address, private)
	}}
}

func checkDial(network, address string, private bool) error {
	if network != "tcp4" && network != "tcp6" {
		return &blockedError{address, "it is no TCP address"}
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &blockedError{address, "it is no address"}
	}
	if private {
		return nil
	}
	if err := CheckAddr(ap.Addr()); err != nil {
		return &blockedError{ap.Addr().String(), err.Error()}
	}
	return nil
}

func (c *Client) note(method, u string, status int, refused error) {
	if c.opt.Note != nil {
		c.opt.Note(method, withoutQuery(u), status, refused)
	}
}

// withoutQuery leaves out what often holds a token.
func withoutQuery(u string) string {
	u, _, _ = strings.Cut(u, "?")
	return brief(u)
}

// body is an answer's body within its limits.
type body struct {
	r       io.ReadCloser
	dec     io.Reader
	lim     Limits
	most    int64
	ctx     context.Context
	cancel  context.CancelFunc
	fail    func(error) error
	decoded bool

	in, out   int64
	since     time.Time
	mark      int64
	closeOnce sync.Once
}
