package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
	caphttp "github.com/bladehost/bladehost/host/caps/http"
	"github.com/bladehost/bladehost/host/caps/secrets"
	"github.com/bladehost/bladehost/host/internal/schema"
	"github.com/bladehost/bladehost/host/tool"
)

// network is what one session lends a plugin beside files: requests, secrets and
// settings. Each part is nil or empty where the manifest does not ask for it.
type network struct {
	client   *caphttp.Client
	methods  []string
	hosts    []string
	vault    *secrets.Vault
	required []string
	config   json.RawMessage
}

// network makes the client of a plugin: what the manifest asks for, as far as the
// user granted it.
func (a Attachment) network() (*network, error) {
	m, g := a.Plugin.Manifest(), a.Grants
	n := &network{}
	for _, p := range slices.Concat(g.Net, g.NetPrivate, g.DenyNet) {
		if err := caphttp.CheckPattern(p); err != nil {
			return nil, abi.NewError(abi.CodeOptions, "the granted host %v", err)
		}
	}
	if err := n.settings(m, g); err != nil {
		return nil, err
	}
	n.secrets(m, g)
	want := m.Requested().HTTP
	if want == nil {
		return n, nil
	}
	n.methods, n.hosts = want.Methods, g.Net
	if n.methods == nil {
		n.methods = []string{http.MethodGet, http.MethodHead}
	}
	opt := caphttp.Options{Resolver: g.Resolver, Policy: n.policy(want, g)}
	if n.vault != nil {
		opt.Fill = n.vault.Fill
	}
	n.client = caphttp.New(opt)
	return n, nil
}

func (n *network) policy(want *abi.HTTPRequest, g Grants) caphttp.Policy {
	return caphttp.Policy{
		Hosts: append([]string{}, g.Net...), Declared: append([]string{}, want.Hosts...), Blocked: g.DenyNet, Private: g.NetPrivate, Methods: n.methods,
		Grant: func(hostPort string) string {
			return fmt.Sprintf("grant it with --allow-net %s", strings.TrimSuffix(strings.TrimSuffix(hostPort, ":443"), ":80"))
		},
	}
}

// UpdateGrants puts other grants in force for a plugin of the session: hosts and
// secrets at once, for running calls too. Folders are the caller's own to revoke;
// settings and variables stay as they were when the session began.
func (s *Session) UpdateGrants(plugin string, g Grants) error {
	found := false
	for _, e := range s.reg.Load().sorted {
		if e.guest == nil || e.guest.manifest.Name != plugin {
			continue
		}
		found = true
		n := e.guest.network
		n.vault.SetGrants(secretGrants(e.guest.manifest, g))
		if n.client != nil {
			n.client.SetPolicy(n.policy(e.guest.manifest.Requested().HTTP, g))
		}
	}
	if !found {
		return abi.NewError(abi.CodeNotInstalled, "the session has no plugin %q", clip(plugin))
	}
	return nil
}

// settings checks the user's settings against the manifest's schema.
func (n *network) settings(m *abi.Manifest, g Grants) error {
	if m.Config == nil {
		if g.Config != nil {
			return abi.NewError(abi.CodeOptions, "%s has no settings", m.Name)
		}
		return nil
	}
	v, err := schema.CompileObject(m.Config)
	if err != nil {
		return named(err, m.Name, "config")
	}
	given := g.Config
	if given == nil {
		given = json.RawMessage("{}")
	}
	out, issues, err := v.Prepare(given)
	if err != nil {
		return abi.NewError(abi.CodeOptions, "the settings of %s: %v", m.Name, err)
	}
	if len(issues) > 0 {
		if g.Config == nil {
			return nil // nothing was set yet: config.get says what is missing
		}
		return tool.InvalidIssues(abi.CodeOptions, fmt.Sprintf("the settings of %s do not fit:", m.Name), issues)
	}
	n.config = out
	return nil
}

func (n *network) secrets(m *abi.Manifest, g Grants) {
	for _, want := range m.Requested().Secrets {
		if want.Required {
			n.required = append(n.required, want.Name)
		}
	}
	if len(m.Requested().Secrets) > 0 {
		n.vault = secrets.NewVault(g.SecretSources, secretGrants(m, g), caphttp.Covers)
	}
}

// secretGrants are the granted ones of the secrets that the manifest asks for.
func secretGrants(m *abi.Manifest, g Grants) []secrets.Grant {
	var list []secrets.Grant
	for _, want := range m.Requested().Secrets {
		for _, have := range g.Secrets {
			if have.Name == want.Name {
				hosts := want.Hosts
				if have.Hosts != nil {
					hosts = have.Hosts
				}
				list = append(list, secrets.Grant{Name: want.Name, Hosts: hosts})
			}
		}
	}
	return list
}

func (n *network) close() {
	if n != nil && n.client != nil {
		n.client.Close()
	}
}

// needSecrets refuses a call of a plugin that needs a secret which has no value.
func (r *run) needSecrets() {
	g := r.entry.guest
	if g == nil || len(g.network.required) == 0 {
		return
	}
	if err := g.network.vault.Require(r.ctx, g.network.required...); err != nil {
		r.failWith(err, abi.CodeSecretMissing, "a secret")
	}
}

// scrub takes secrets that were used out of everything the call hands on.
func (r *run) scrub() {
	if r.entry == nil || r.entry.guest == nil {
		return
	}
	s := r.entry.guest.network.vault.Scrubber()
	if s.Empty() {
		return
	}
	res := r.result
	res.Model, res.Data = s.Bytes(res.Model), s.Bytes(res.Data)
	if e := res.Error; e != nil {
		c := *e
		c.Message, c.Details = s.Text(e.Message), s.Bytes(e.Details)
		res.Error = &c
	}
	if d := res.Display; d != nil {
		res.Display = &abi.Display{Summary: s.Text(d.Summary), Detail: s.Bytes(d.Detail)}
	}
}

// serveSecret says whether a granted secret has a value.
func (r *run) serveSecret(ctx context.Context, req tool.Request) (tool.Answer, error) {
	g := r.entry.guest
	if g == nil || g.network.vault == nil {
		return r.notLent(abi.SecretPresence)
	}
	var in struct {
		Name string `json:"name"`
	}
	if err := decodeHead(req, &in); err != nil {
		return tool.Answer{}, err
	}
	exists := g.network.vault.Exists(ctx, in.Name)
	r.audit(abi.SecretPresence, clip(in.Name), map[bool]string{true: "exists", false: "missing"}[exists])
	return headOf(map[string]bool{"exists": exists})
}

// serveHTTP sends a request of a plugin.
func (r *run) serveHTTP(ctx context.Context, req tool.Request) (tool.Answer, error) {
	g := r.entry.guest
	if g == nil || g.network.client == nil {
		return r.notLent(abi.HTTPCall)
	}
	var in abi.HTTPRequestHead
	if err := decodeHead(req, &in); err != nil {
		return tool.Answer{}, err
	}
	out, err := httpRequest(in, req.Body)
	if err != nil {
		return tool.Answer{}, err
	}
	if r.behavior.ReadOnly && out.Method != "" && out.Method != http.MethodGet && out.Method != http.MethodHead {
		r.audit("request", withoutQuery(in.URL), "denied: "+string(abi.CodeNotGranted))
		return tool.Answer{}, abi.NewError(abi.CodeNotGranted, "%s is read-only, so it may send GET and HEAD, not %s; a tool that changes something declares kind write or execute", r.canonical(), clip(out.Method))
	}
	if err := r.fence(ctx, &out); err != nil {
		return tool.Answer{}, err
	}
	res, err := g.network.client.Do(ctx, out)
	s := g.network.vault.Scrubber()
	effect := tool.HostEffect{Op: "request", Target: s.Text(orText(in.Method, http.MethodGet) + " " + withoutQuery(in.URL))}
	if err != nil {
		effect.Status = string(abi.CodeOf(err))
		r.note(effect)
		r.auditSecrets(in, effect.Target, effect.Status)
		return tool.Answer{}, scrubbed(err, s)
	}
	effect.Status = strconv.Itoa(res.Status)
	r.note(effect)
	r.auditSecrets(in, effect.Target, "used")
	return r.httpAnswer(in, res, s)
}

// auditSecrets records which secrets a request asked for.
func (r *run) auditSecrets(in abi.HTTPRequestHead, target, outcome string) {
	for _, values := range in.Headers {
		for _, v := range values {
			for _, name := range secrets.Names(v) {
				r.audit("secret "+name, target, outcome)
			}
		}
	}
}

func withoutQuery(u string) string {
	u, _, _ = strings.Cut(u, "?")
	return clip(u)
}

func scrubbed(err error, s *secrets.Scrubber) error {
	e := *abi.AsError(err)
	e.Message = s.Text(e.Message)
	return &e
}

// maxTimeoutHead bounds timeoutMs of a request: a day.
const maxTimeoutHead = int64(24 * time.Hour / time.Millisecond)

func httpRequest(in abi.HTTPRequestHead, body []byte) (caphttp.Request, error) {
	out := caphttp.Request{Method: in.Method, URL: in.URL, Header: http.Header{}, Body: body}
	if in.TimeoutMs < 0 || in.TimeoutMs > maxTimeoutHead {
		return out, abi.NewError(abi.CodeRequest, "timeoutMs is %d; it must be a number of milliseconds", in.TimeoutMs)
	}
	out.Timeout = time.Duration(in.TimeoutMs) * time.Millisecond
	for name, values := range in.Headers {
		for _, v := range values {
			out.Header.Add(name, v)
		}
	}
	switch in.Redirect {
	case "", abi.RedirectFollow:
	case abi.RedirectManual:
		out.Redirect = caphttp.Manual
	case abi.RedirectError:
		out.Redirect = caphttp.Refuse
	default:
		return out, abi.NewError(abi.CodeRequest, "redirect is %q; follow, manual and error are known", clip(in.Redirect))
	}
	if in.Stream {
		out.MaxBody = maxStreamBody
	}
	return out, nil
}

// maxStreamBody bounds an answer that is taken as a stream.
const maxStreamBody = 1 << 30

// fence asserts the lease before a request of a tool that runs under one, and
// sends its token along.
func (r *run) fence(ctx context.Context, req *caphttp.Request) error {
	if !r.entry.spec.RequiresRuntime {
		return nil
	}
	if err := r.s.opt.Runtime.AssertLease(ctx); err != nil {
		return err
	}
	if f, ok := r.s.opt.Runtime.Fence(); ok {
		req.Fence = strconv.FormatInt(f.Token, 10)
	}
	return nil
}

func (r *run) httpAnswer(in abi.HTTPRequestHead, res *caphttp.Response, s *secrets.Scrubber) (tool.Answer, error) {
	head := abi.HTTPResponseHead{Status: res.Status, URL: s.Text(res.URL), Length: res.Length, Headers: abi.HTTPHeaders{}}
	for name, values := range res.Header {
		for _, v := range values {
			key := strings.ToLower(name)
			head.Headers[key] = append(head.Headers[key], strings.ToValidUTF8(s.Text(v), "\ufffd"))
		}
	}
	body := struct {
		io.Reader
		io.Closer
	}{s.Reader(res.Body), res.Body}
	if in.Stream {
		id, err := r.streams.add(body)
		if err != nil {
			_ = body.Close()
			return tool.Answer{}, err
		}
		head.Stream = int64(id)
		return headOf(head)
	}
	defer func() { _ = body.Close() }()
	var b bytes.Buffer
	if 0 < res.Length && res.Length <= abi.MaxFrameBody {
		b.Grow(int(res.Length) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(body); err != nil {
		return tool.Answer{}, scrubbed(err, s)
	}
	head.Length = int64(b.Len())
	ans, err := headOf(head)
	ans.Body = b.Bytes()
	return ans, err
}

// CheckSettings is nil if settings fit the schema in a plugin's manifest, else an
// error that names every one that does not.
func CheckSettings(m *abi.Manifest, settings json.RawMessage) error {
	return (&network{}).settings(m, Grants{Config: settings})
}
