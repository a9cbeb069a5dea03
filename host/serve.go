package host

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/tool"
)

// serve answers a service call of a running tool. The name says whether it is
// the host's own service or a method of one that the tool declared.
func (r *run) serve(ctx context.Context, name string, req tool.Request) (tool.Answer, error) {
	if ctx.Err() != nil {
		return tool.Answer{}, context.Cause(ctx)
	}
	if r.ended() {
		return tool.Answer{}, &tool.CancelError{Reason: abi.CancelRequest, Detail: "the call is over"}
	}
	switch name {
	case abi.CallContext:
		return headOf(r.callInfo(ctx))
	case abi.ArtifactPut:
		return r.artifactPut(req)
	case abi.ArtifactOpen:
		return r.artifactOpen(req)
	case abi.StreamRead:
		return r.streams.read(req)
	case abi.StreamClose:
		return r.streams.close(req)
	case abi.RuntimeFence, abi.RuntimeAssert:
		return r.serveRuntime(ctx, name)
	case abi.ConfigGet:
		return r.config()
	case abi.HTTPCall:
		return r.serveHTTP(ctx, req)
	case abi.SecretPresence:
		return r.serveSecret(ctx, req)
	case abi.KVGet, abi.KVSet, abi.KVDelete, abi.KVList:
		return r.notLent(name)
	}
	return r.serveDeclared(ctx, name, req)
}

func headOf(v any) (tool.Answer, error) {
	head, err := strictjson.Encode(v)
	if err != nil {
		return tool.Answer{}, abi.NewError(abi.CodeServiceFailed, "the answer has no JSON form: %v", err)
	}
	return tool.Answer{Head: head}, nil
}

func (r *run) callInfo(ctx context.Context) abi.CallInfo {
	info := abi.CallInfo{
		SessionID: r.s.opt.ID, MessageID: r.call.MessageID, CallID: r.call.ID, Tool: r.canonical(), Mode: string(r.mode),
		Cwd: r.snap.Cwd, Roots: r.snap.Roots, Step: r.call.Step, Metadata: r.snap.Context.Metadata,
	}
	if c := r.snap.Context.Capabilities; c != nil && c.Network != nil {
		info.AllowDomains = c.Network.AllowDomains
	}
	if t, ok := ctx.Deadline(); ok {
		info.DeadlineUnixMs = t.UnixMilli()
	}
	if g := r.entry.guest; g != nil {
		info.Roots = g.grants.roots()
		info.Environment = g.env
		info.Cwd = g.grants.cwd(info.Cwd)
	}
	return info
}

func (r *run) serveRuntime(ctx context.Context, name string) (tool.Answer, error) {
	if !r.entry.spec.RequiresRuntime {
		return tool.Answer{}, abi.NewError(abi.CodeNotDeclared, "%s needs requiresRuntime in the definition of %s", name, r.canonical())
	}
	if name == abi.RuntimeAssert {
		if err := r.s.opt.Runtime.AssertLease(ctx); err != nil {
			return tool.Answer{}, err
		}
		return headOf(struct{}{})
	}
	f, ok := r.s.opt.Runtime.Fence()
	if !ok {
		return headOf(struct{}{})
	}
	return headOf(f)
}

func (r *run) config() (tool.Answer, error) {
	g := r.entry.guest
	if g == nil || g.manifest.Config == nil {
		return tool.Answer{}, abi.NewError(abi.CodeNotDeclared, "%s needs a config schema in the manifest", abi.ConfigGet)
	}
	if g.of.config == nil {
		return tool.Answer{}, abi.NewError(abi.CodeNotGranted, "%s needs settings; see what is missing with: bladehost config get %s", r.canonical(), g.manifest.Name)
	}
	return tool.Answer{Head: g.of.config}, nil
}

// notLent says why one of the host's services cannot be used: the manifest does
// not ask for it, or nobody granted it.
func (r *run) notLent(name string) (tool.Answer, error) {
	if g := r.entry.guest; g != nil {
		c := g.manifest.Requested()
		asked := map[string]bool{"http": c.HTTP != nil, "kv": c.KV != nil, "secret": len(c.Secrets) > 0}
		what, _, _ := strings.Cut(name, ".")
		if asked[what] {
			r.audit(name, "", "denied: "+string(abi.CodeNotGranted))
			return tool.Answer{}, abi.NewError(abi.CodeNotGranted, "%s was not granted to %s", name, r.canonical())
		}
	}
	return tool.Answer{}, abi.NewError(abi.CodeNotDeclared, "%s is not in the manifest of %s", name, r.canonical())
}

// serveDeclared calls a method of a service that the tool declared.
func (r *run) serveDeclared(ctx context.Context, name string, req tool.Request) (tool.Answer, error) {
	service, method, ok := strings.Cut(name, ".")
	if !ok || !abi.KnownService(service) {
		return tool.Answer{}, abi.NewError(abi.CodeUnknownService, "there is no service %q", clip(name))
	}
	if !contains(r.entry.spec.Services, service) {
		return tool.Answer{}, abi.NewError(abi.CodeNotDeclared, "%s does not declare the service %s", r.canonical(), service)
	}
	s := r.s.opt.Services[service]
	if s == nil {
		return tool.Answer{}, abi.NewError(abi.CodeNotGranted, "the session has no service %s", service)
	}
	req.Method = method
	ans, err := await(ctx, &r.s.pending, func() (tool.Answer, error) { return s.Invoke(ctx, req) })
	if err != nil {
		return tool.Answer{}, serviceError(name, err)
	}
	if ans.Head == nil {
		ans.Head = json.RawMessage("{}")
	}
	if err := strictjson.Check(ans.Head); err != nil {
		return tool.Answer{}, abi.NewError(abi.CodeServiceFailed, "the answer of %s is %v", name, err)
	}
	return ans, nil
}

func serviceError(name string, err error) error {
	if abi.CodeOf(err) == abi.CodeToolPanic || abi.CodeOf(err) == "" {
		if _, ok := err.(*tool.CancelError); ok {
			return err
		}
		return abi.NewError(abi.CodeServiceFailed, "%s failed: %v", name, err).Because(err)
	}
	return err
}

// artifactPut keeps bytes as an artifact and answers its handle.
func (r *run) artifactPut(req tool.Request) (tool.Answer, error) {
	var in struct {
		Name string `json:"name"`
	}
	if err := decodeHead(req, &in); err != nil {
		return tool.Answer{}, err
	}
	a, err := r.s.h.artifacts.put(req.Body, ".bin", r.s.opt.ID, r.canonical(), in.Name)
	if err != nil {
		return tool.Answer{}, abi.NewError(abi.CodeServiceFailed, "the artifact could not be kept: %v", err).Because(err)
	}
	return headOf(map[string]any{"handle": a.Handle, "sha256": a.SHA256, "bytes": a.Bytes})
}

// artifactOpen opens an artifact for stream.read.
func (r *run) artifactOpen(req tool.Request) (tool.Answer, error) {
	var in struct {
		Handle string `json:"handle"`
	}
	if err := decodeHead(req, &in); err != nil {
		return tool.Answer{}, err
	}
	f, err := r.s.h.artifacts.open(in.Handle)
	if err != nil {
		return tool.Answer{}, err
	}
	fi, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return tool.Answer{}, abi.NewError(abi.CodeServiceFailed, "the artifact cannot be read: %v", err)
	}
	id, err := r.streams.add(f)
	if err != nil {
		_ = f.Close()
		return tool.Answer{}, err
	}
	return headOf(map[string]any{"stream": id, "bytes": fi.Size()})
}

func decodeHead(req tool.Request, v any) error {
	head := req.Head
	if len(head) == 0 {
		head = json.RawMessage("{}")
	}
	if err := strictjson.Decode(head, v); err != nil {
		return abi.NewError(abi.CodeRequest, "the request: %v", err)
	}
	return nil
}

// streams are the open streams of one call.
type streams struct {
	mu   sync.Mutex
	open map[int]io.ReadCloser
	last int
	// over says that the call is: nothing is opened any more.
	over bool
}

// maxStreams bounds the open streams of one call.
const maxStreams = 16

// maxChunk bounds one stream.read.
const maxChunk = 1 << 20

func (s *streams) add(f io.ReadCloser) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return 0, abi.NewError(abi.CodeServiceFailed, "the call is over")
	}
	if len(s.open) >= maxStreams {
		return 0, abi.NewError(abi.CodeServiceLimit, "a call may have %d open streams", maxStreams)
	}
	if s.open == nil {
		s.open = map[int]io.ReadCloser{}
	}
	s.last++
	s.open[s.last] = f
	return s.last, nil
}

type streamHead struct {
	Stream int `json:"stream"`
	Max    int `json:"max"`
}

func (s *streams) read(req tool.Request) (tool.Answer, error) {
	var in streamHead
	if err := decodeHead(req, &in); err != nil {
		return tool.Answer{}, err
	}
	s.mu.Lock()
	f := s.open[in.Stream]
	s.mu.Unlock()
	if f == nil {
		return tool.Answer{}, abi.NewError(abi.CodeRequest, "there is no open stream %d", in.Stream)
	}
	if in.Max <= 0 || in.Max > maxChunk {
		in.Max = maxChunk
	}
	buf := make([]byte, in.Max)
	n, err := io.ReadFull(f, buf)
	end := err == io.EOF || err == io.ErrUnexpectedEOF
	if err != nil && !end {
		if abi.CodeOf(err) != "" {
			return tool.Answer{}, err
		}
		return tool.Answer{}, abi.NewError(abi.CodeServiceFailed, "the stream cannot be read: %v", err)
	}
	ans, err := headOf(map[string]any{"eof": end})
	ans.Body = buf[:n]
	return ans, err
}

func (s *streams) close(req tool.Request) (tool.Answer, error) {
	var in streamHead
	if err := decodeHead(req, &in); err != nil {
		return tool.Answer{}, err
	}
	s.mu.Lock()
	f := s.open[in.Stream]
	delete(s.open, in.Stream)
	s.mu.Unlock()
	if f != nil {
		_ = f.Close() // read only
	}
	return headOf(struct{}{})
}

func (s *streams) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.open {
		_ = f.Close() // read only
	}
	s.open, s.over = nil, true
}
