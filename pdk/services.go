package pdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// HTTPRequest is a request through the host. A header value may hold
// {{secret:NAME}}: the host fills it in for the hosts the secret is granted for,
// and the tool never sees it.
type HTTPRequest struct {
	Method  string // GET
	URL     string
	Headers map[string]string
	Body    []byte
	// Timeout bounds this request; 0 leaves it to the call's deadline.
	Timeout time.Duration
	// Redirect is abi.RedirectFollow (the default), RedirectManual or RedirectError.
	Redirect string
}

// HTTPResponse is the answer, with its whole body.
type HTTPResponse struct {
	Status  int
	Headers abi.HTTPHeaders
	// URL is where the answer came from after redirects.
	URL  string
	Body []byte
}

// HTTP sends a request through the host and waits for the whole answer, of at
// most abi.MaxFrameBody bytes; HTTPStream is for larger ones. The plugin must
// ask for capabilities.http. An answer with a status such as 404 is no error.
// Package pdkhttp is a transport for net/http on top of it.
func HTTP(ctx context.Context, req HTTPRequest) (*HTTPResponse, error) {
	res, _, err := sendHTTP(ctx, req.head(), req.Body)
	return res, err
}

// HTTPStream is HTTP with the answer's body as a stream, which the caller closes.
func HTTPStream(ctx context.Context, req HTTPRequest) (*HTTPResponse, io.ReadCloser, error) {
	in := req.head()
	in.Stream = true
	res, id, err := sendHTTP(ctx, in, req.Body)
	if err != nil {
		return nil, nil, err
	}
	first := res.Body
	res.Body = nil
	return res, newStream(ctx, id, first), nil
}

// httpHead is abi.HTTPResponseHead with headers that the quick reader can read, as
// the host writes them.
type httpHead struct {
	Status  int                 `json:"status"`
	Headers map[string][]string `json:"headers"`
	URL     string              `json:"url"`
	Stream  int64               `json:"stream"`
}

func sendHTTP(ctx context.Context, in abi.HTTPRequestHead, body []byte) (res *HTTPResponse, stream int64, err error) {
	head, body, err := CallService(ctx, abi.HTTPCall, in, body)
	if err != nil {
		return nil, 0, err
	}
	var quick httpHead
	if unmarshal(head, &quick) == nil {
		return &HTTPResponse{Status: quick.Status, Headers: quick.Headers, URL: quick.URL, Body: body}, quick.Stream, nil
	}
	var h abi.HTTPResponseHead
	if err := decodeHead(abi.HTTPCall, head, &h); err != nil {
		return nil, 0, err
	}
	return &HTTPResponse{Status: h.Status, Headers: h.Headers, URL: h.URL, Body: body}, h.Stream, nil
}

func (r *HTTPRequest) head() abi.HTTPRequestHead {
	h := abi.HTTPRequestHead{Method: r.Method, URL: r.URL, TimeoutMs: r.Timeout.Milliseconds(), Redirect: r.Redirect}
	if len(r.Headers) > 0 {
		h.Headers = make(abi.HTTPHeaders, len(r.Headers))
		for k, v := range r.Headers {
			h.Headers[k] = []string{v}
		}
	}
	return h
}

// stream reads what artifact.open or http.request opened.
type stream struct {
	ctx  context.Context
	id   int64
	rest []byte
	err  error
}

// streamChunk is how much one stream.read asks for.
const streamChunk = 256 << 10

func newStream(ctx context.Context, id int64, first []byte) io.ReadCloser {
	s := &stream{ctx: ctx, id: id, rest: first}
	if id == 0 {
		s.err = io.EOF
	}
	return s
}

func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.fetch()
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stream) fetch() {
	head, body, err := CallService(s.ctx, abi.StreamRead, abi.StreamReadHead{Stream: s.id, Max: streamChunk}, nil)
	var a abi.StreamReadAnswer
	if err == nil {
		err = decodeHead(abi.StreamRead, head, &a)
	}
	if err == nil && a.EOF {
		err = io.EOF
	}
	s.rest, s.err = body, err
}

func (s *stream) Close() error {
	if s.id == 0 {
		return nil
	}
	id := s.id
	s.id, s.rest, s.err = 0, nil, errors.New("the stream is closed")
	return callOnly(s.ctx, abi.StreamClose, abi.StreamCloseHead{Stream: id})
}

// Config reads the user's settings for the plugin into a value. The plugin must
// have a schema in Plugin.Config; the host has validated the settings by it and
// filled in its defaults.
func Config(ctx context.Context, into any) error {
	head, _, err := CallService(ctx, abi.ConfigGet, nil, nil)
	if err != nil {
		return err
	}
	// Into may hold values already, which stay where the settings have none.
	if err := json.Unmarshal(head, into); err != nil {
		return &ServiceError{abi.ConfigGet, abi.CallFailed, fmt.Errorf("the answer of the host: %w", err)}
	}
	return nil
}

// SecretExists reports whether the user granted the secret and it has a value.
func SecretExists(ctx context.Context, name string) (bool, error) {
	var a abi.SecretExistsAnswer
	err := callJSON(ctx, abi.SecretPresence, abi.SecretExistsHead{Name: name}, &a)
	return a.Exists, err
}

// Secret is the text that stands for a secret in a header value.
func Secret(name string) string { return "{{secret:" + name + "}}" }

// KVGet reads a value of the plugin's own store, which lasts between calls. The
// plugin must ask for capabilities.kv.
func KVGet(ctx context.Context, key string) (value []byte, found bool, err error) {
	head, body, err := CallService(ctx, abi.KVGet, abi.KVKeyHead{Key: key}, nil)
	if err != nil {
		return nil, false, err
	}
	var a abi.KVFound
	if err := decodeHead(abi.KVGet, head, &a); err != nil || !a.Found {
		return nil, false, err
	}
	return body, true, nil
}

// KVSet writes a value; it is dropped after ttl, where that is not 0.
func KVSet(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	_, _, err := CallService(ctx, abi.KVSet, abi.KVSetHead{Key: key, TTLMs: ttl.Milliseconds()}, value)
	return err
}

// KVDelete removes a value and reports whether there was one.
func KVDelete(ctx context.Context, key string) (found bool, err error) {
	var a abi.KVFound
	err = callJSON(ctx, abi.KVDelete, abi.KVKeyHead{Key: key}, &a)
	return a.Found, err
}

// KVList lists at most limit keys with the prefix that come after the key after,
// in byte order, and whether there are more. Limit 0 means 1,000.
func KVList(ctx context.Context, prefix, after string, limit int) (keys []string, more bool, err error) {
	var a abi.KVListAnswer
	err = callJSON(ctx, abi.KVList, abi.KVListHead{Prefix: prefix, After: after, Limit: limit}, &a)
	return a.Keys, a.More, err
}

// PutArtifact stores bytes outside the model's context. The name is for a
// person; the handle in the answer is for another tool.
func PutArtifact(ctx context.Context, name string, content []byte) (*abi.ArtifactInfo, error) {
	head, _, err := CallService(ctx, abi.ArtifactPut, abi.ArtifactPutHead{Name: name}, content)
	if err != nil {
		return nil, err
	}
	var a abi.ArtifactInfo
	if err := decodeHead(abi.ArtifactPut, head, &a); err != nil {
		return nil, err
	}
	return &a, nil
}

// OpenArtifact reads an artifact of size bytes. The caller closes it.
func OpenArtifact(ctx context.Context, handle string) (content io.ReadCloser, size int64, err error) {
	var a abi.ArtifactOpenAnswer
	if err := callJSON(ctx, abi.ArtifactOpen, abi.ArtifactOpenHead{Handle: handle}, &a); err != nil {
		return nil, 0, err
	}
	return newStream(ctx, a.Stream, nil), a.Bytes, nil
}

// Fence is the lease the call runs under; ok is false where there is none. A
// tool that writes shared state sends the token along. The tool must declare
// RequiresRuntime.
func Fence(ctx context.Context) (fence abi.RuntimeFenceAnswer, ok bool, err error) {
	err = callJSON(ctx, abi.RuntimeFence, nil, &fence)
	return fence, err == nil && fence.LeaseID != "", err
}

// AssertLease is nil while the session's lease is owned, and where there is none.
func AssertLease(ctx context.Context) error { return callOnly(ctx, abi.RuntimeAssert, nil) }
