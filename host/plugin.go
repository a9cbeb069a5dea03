package host

import (
	"context"
	"encoding/json"
	"net"
	"slices"

	"github.com/bladehost/bladehost/abi"
	capfs "github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/caps/secrets"
	"github.com/bladehost/bladehost/host/tool"
)

// PluginOptions says how a plugin is treated.
type PluginOptions struct {
	// Trust is workspace for what the user installed and pinned, remote (also
	// the zero value) for anything else. A plugin is never trusted.
	Trust tool.Trust
	// Origin says where it came from, for messages: a file, or its own name if it is
	// installed, so that what a user grants with bladehost grant counts for it.
	Origin string
}

// Plugin is a loaded plugin. It is safe for concurrent use; the host's Close
// frees it.
type Plugin struct {
	host *Host
	p    runner
	opt  PluginOptions
}

// Manifest is the plugin's manifest. It must not be changed.
func (p *Plugin) Manifest() *abi.Manifest { return p.p.Manifest() }

// Digest is the SHA-256 of the module, in hex.
func (p *Plugin) Digest() string { return p.p.Module().Digest }

// Compile prepares the plugin and reports whether its machine code was in the
// cache.
func (p *Plugin) Compile(ctx context.Context) (hit bool, err error) { return p.p.Compile(ctx) }

// Close frees the plugin before the host is closed.
func (p *Plugin) Close(ctx context.Context) error { return p.p.Close(ctx) }

// Attachment is a plugin with what one session lends it.
type Attachment struct {
	Plugin *Plugin
	Grants Grants
}

// Grants is what a user granted a plugin. The zero value grants nothing.
type Grants struct {
	// Folders are the granted folders. The session does not close them.
	Folders []*capfs.Grant
	// Env are the granted environment variables with their values.
	Env map[string]string
	// Limits bounds what one call may do to the folders; the zero value has defaults.
	Limits capfs.Limits
	// Config are the user's settings; nil means none. They must fit the schema in
	// the manifest.
	Config json.RawMessage
	// Net are the granted hosts, as patterns of package caps/http; NetPrivate are
	// names with a port that may lead to private addresses; DenyNet wins over both.
	Net, NetPrivate, DenyNet []string
	// Secrets are the granted secrets. One without hosts may be sent to the hosts
	// that the manifest names for it.
	Secrets []secrets.Grant
	// SecretSources have their values, in order.
	SecretSources []secrets.Source
	// Resolver resolves names; nil is the system's.
	Resolver *net.Resolver
	// Tools are what single tools are lent beside all that, by their names.
	Tools map[string]ToolGrants
}

// roots are the granted folders' paths as the user wrote them.
func (g Grants) roots() []string {
	out := make([]string, len(g.Folders))
	for i, f := range g.Folders {
		out[i] = f.GuestPath()
	}
	return out
}

// denies reports whether every folder that has a path keeps it from the plugin.
func (g Grants) denies(path string) bool {
	denied := false
	for _, f := range g.Folders {
		switch inside, no := f.Denies(path); {
		case inside && !no:
			return false
		case inside:
			denied = true
		}
	}
	return denied
}

// workingDir is the variable by which libc-like runtimes learn where relative
// paths start; WASI itself has no such notion.
const workingDir = "PWD"

// cwd is where relative paths start for the plugin, in a session that works in
// session: the path checks, call.context and the guest's own runtime must mean
// the same file. It is empty without folders, which is all that cwd is good for.
func (g Grants) cwd(session string) string {
	switch {
	case len(g.Folders) == 0:
		return ""
	case session == "":
		return g.Folders[0].GuestPath()
	}
	return session
}

// lentWrites reports whether a service the tool declares can change something
// outside. What an embedder's own service does is not known, so it counts. Requests
// do not: a call that is read-only sends only those that read.
func lentWrites(s *abi.ToolSpec) bool {
	for _, name := range s.Services {
		if abi.EmbedderService(name) {
			return true
		}
		if slices.ContainsFunc(abi.ServiceMethods(), func(m abi.ServiceMethod) bool { return m.Service == name && m.Writes }) {
			return true
		}
	}
	return false
}

// Describe runs a module's own description in a world with nothing in it. It is
// for building and checking plugins: nothing else runs a module to learn what it
// is. The module needs no manifest section yet.
func (h *Host) Describe(ctx context.Context, module []byte) (json.RawMessage, error) {
	p, err := h.engine.LoadUnsigned(module)
	if err != nil {
		if isExtism(module, err) {
			return h.DescribeExtism(ctx, module, "", "")
		}
		return nil, err
	}
	raw, err := p.Describe(ctx)
	if e := p.Close(ctx); err == nil && e != nil {
		err = e
	}
	return raw, err
}
