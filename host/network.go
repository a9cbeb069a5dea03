package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bladehost/bladehost/abi"
	caphttp "github.com/bladehost/bladehost/host/caps/http"
	"github.com/bladehost/bladehost/host/caps/secrets"
	"github.com/bladehost/bladehost/host/internal/schema"
	"github.com/bladehost/bladehost/host/tool"
)

// network is what one tool of a plugin, or one call, is lent beside files. The client is
// nil where the manifest asks for no requests.
type network struct {
	client *caphttp.Client
	// granted are the secrets that it may use, of all in the plugin's vault.
	granted atomic.Pointer[[]secrets.Grant]
}

// network makes what a guest is lent beside files; settle puts its grants in force.
func (l *lending) network(g *guestInfo) *network {
	n := &network{}
	n.granted.Store(&[]secrets.Grant{})
	if l.base == nil {
		return n
	}
	fill := g.fill
	if l.vault == nil {
		fill = nil
	}
	n.client = l.base.Sibling(caphttp.Policy{Hosts: []string{}}, fill)
	return n
}

// policy is what the manifest asks for, as far as the user granted it.
func (l *lending) policy(g *guestInfo, now Grants) caphttp.Policy {
	return caphttp.Policy{
		Hosts: append([]string{}, now.Net...), Declared: append([]string{}, l.http.Hosts...), Blocked: now.DenyNet, Private: now.NetPrivate, Methods: l.methods,
		Grant: func(hostPort string) string {
			name := strings.TrimSuffix(strings.TrimSuffix(hostPort, ":443"), ":80")
			return g.hint("net", name, name)
		},
	}
}

// settings checks the user's settings against the manifest's schema.
func (l *lending) settings(m *abi.Manifest, g Grants) error {
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
	l.config = out
	return nil
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
	if g == nil || len(g.of.required) == 0 {
		return
	}
	for _, name := range g.of.required {
		if g.may(name, "") != nil {
			r.fail(abi.NewError(abi.CodeSecretMissing, "the plugin needs the secret %s; %s", name, g.hint("secret", name, name)))
			return
		}
	}
	if err := g.of.vault.Require(r.ctx, g.of.required...); err != nil {
		r.failWith(err, abi.CodeSecretMissing, "a secret")
	}
}

// scrub takes secrets that were used out of everything the call hands on.
func (r *run) scrub() {
	if r.entry == nil || r.entry.guest == nil {
		return
	}
	s := r.entry.guest.of.vault.Scrubber()
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
	if g == nil || g.of.vault == nil {
		return r.notLent(abi.SecretPresence)
	}
	var in struct {
		Name string `json:"name"`
	}
	if err := decodeHead(req, &in); err != nil {
		return tool.Answer{}, err
	}
	exists := g.may(in.Name, "") == nil && g.of.vault.Exists(ctx, in.Name)
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
	s := g.of.vault.Scrubber()
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
	return r.httpAnswer(in, res, g.of.vault)
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

// httpAnswer is what the guest gets of an answer. What was used by then is taken out of
// it, also where that was by another call while the body came.
func (r *run) httpAnswer(in abi.HTTPRequestHead, res *caphttp.Response, v *secrets.Vault) (tool.Answer, error) {
	if in.Stream {
		body := struct {
			io.Reader
			io.Closer
		}{v.Reader(res.Body), res.Body}
		id, err := r.streams.add(body)
		if err != nil {
			_ = body.Close()
			return tool.Answer{}, err
		}
		head := httpHead(res, v.Scrubber())
		head.Stream = int64(id)
		return headOf(head)
	}
	defer func() { _ = res.Body.Close() }()
	body, release, err := readBody(res.Body, res.Length)
	s := v.Scrubber()
	if err != nil {
		return tool.Answer{}, scrubbed(err, s)
	}
	body = s.Bytes(body)
	head := httpHead(res, s)
	head.Length = int64(len(body))
	ans, err := headOf(head)
	if err != nil {
		release()
		return tool.Answer{}, err
	}
	ans.Body, ans.Release = body, release
	return ans, nil
}

func httpHead(res *caphttp.Response, s *secrets.Scrubber) abi.HTTPResponseHead {
	head := abi.HTTPResponseHead{Status: res.Status, URL: s.Text(res.URL), Length: res.Length, Headers: abi.HTTPHeaders{}}
	for name, values := range res.Header {
		for _, v := range values {
			key := s.Text(strings.ToLower(name))
			head.Headers[key] = append(head.Headers[key], strings.ToValidUTF8(s.Text(v), "\ufffd"))
		}
	}
	return head
}

// CheckSettings is nil if settings fit the schema in a plugin's manifest, else an
// error that names every one that does not.
func CheckSettings(m *abi.Manifest, settings json.RawMessage) error {
	return (&lending{}).settings(m, Grants{Config: settings})
}
