package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// hostFlags are the flags of every command that runs tools.
type hostFlags struct {
	lend        lendFlags
	roots       []string
	timeout     string
	memoryLimit string
	mode        string
	// typed says that a person typed the one call of this process; plugin is whose tool
	// it calls, where that is known.
	typed  bool
	plugin string
}

// newHost makes the host of this process: the one place where the parts are put
// together.
func (a *app) newHost(f hostFlags) (*host.Host, error) {
	p, err := a.places()
	if err != nil {
		return nil, err
	}
	limit, err := parseSize(f.memoryLimit)
	if err != nil {
		return nil, err
	}
	native, err := a.native(p, f)
	if err != nil {
		return nil, err
	}
	opt := host.Options{
		Builtins:    native,
		CacheDir:    p.compiled(),
		ArtifactDir: filepath.Join(p.state, "artifacts"),
		MemoryLimit: limit,
		SingleUse:   f.typed,
		Log:         a.logger(),
	}
	if a.self != "" {
		opt.CompileChild = []string{a.self, compileVerb}
	}
	h, err := host.New(opt)
	if err != nil && abi.CodeOf(err) == "" {
		return nil, abi.NewError(abi.CodeIO, "%v", err).Because(err)
	}
	return h, err
}

// native are the built-in tools of this process. A single call of a plugin's tool does
// without them: to check all their definitions takes longer than the call.
func (a *app) native(p places, f hostFlags) ([]tool.Tool, error) {
	if f.plugin != "" {
		return nil, nil
	}
	own := p.builtins()
	own.Deny = append(own.Deny, f.lend.own...)
	own.Filesystem.AllowUnread = f.typed // the person knows the file
	if a.self != "" {
		own.Filesystem.PDFChild = []string{a.self, pdfVerb}
	}
	var err error
	own.Shell.PassEnv = f.lend.passed()
	if own.Web, err = a.webOptions(p); err != nil {
		return nil, err
	}
	return builtin.Tools(own), nil
}

// logger shows warnings of plugins on a terminal, and everything with --verbose.
func (a *app) logger() *slog.Logger {
	level := slog.LevelError
	if a.verbose {
		level = slog.LevelDebug - 4
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
		if at.Value.Kind() == slog.KindString {
			at.Value = slog.StringValue(printable(at.Value.String()))
		}
		return at
	}}))
}

// closeHost ends the host; what still cleans up gets the clean-up budget again.
func closeHost(h *host.Host) {
	ctx, cancel := context.WithTimeout(context.Background(), abi.CleanupTime)
	defer cancel()
	_ = h.Close(ctx) // the process ends anyway
}

// guests are a host with the plugins of a session, and what those are lent.
type guests struct {
	host     *host.Host
	lender   *lender
	plugins  []*host.Plugin
	attached []host.Attachment
}

// openGuests loads the plugins of a session into a host and lends them what they are
// granted. The caller closes them.
func (a *app) openGuests(ctx context.Context, f hostFlags, refs []string) (_ *guests, err error) {
	g := &guests{}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if g.lender, err = a.newLender(f.lend); err != nil {
		return nil, err
	}
	if g.host, err = a.newHost(f); err != nil {
		return nil, err
	}
	if g.plugins, err = a.sessionPlugins(ctx, g.host, refs); err != nil {
		return nil, err
	}
	g.attached, err = g.lender.attach(g.plugins)
	return g, err
}

// close ends the host, and only then what its plugins were lent.
func (g *guests) close() {
	if g.host != nil {
		closeHost(g.host)
	}
	if g.lender != nil {
		g.lender.close()
	}
}

// sessionOptions are the options that the flags of run and session share.
func (a *app) sessionOptions(f hostFlags) (host.SessionOptions, error) {
	var o host.SessionOptions
	mode, err := policy.ParseMode(f.mode)
	if err != nil {
		return o, err
	}
	o.Mode = mode
	if f.timeout != "" {
		d, err := time.ParseDuration(f.timeout)
		if err != nil || d < time.Millisecond {
			return o, usage("--timeout %s: give a duration such as 30s or 500ms", f.timeout)
		}
		o.ToolTimeout = d.Truncate(time.Millisecond)
	}
	fsFacet := &abi.FilesystemFacet{Roots: []string{}}
	for _, r := range f.roots {
		abs, err := filepath.Abs(r)
		if err != nil {
			return o, abi.NewError(abi.CodeIO, "--root %s: %v", r, err)
		}
		if fi, err := os.Stat(abs); err != nil || !fi.IsDir() {
			return o, usage("--root %s is not a folder", r)
		}
		fsFacet.Roots = append(fsFacet.Roots, abs)
	}
	if cwd, err := os.Getwd(); err == nil {
		fsFacet.Cwd = cwd
	}
	o.Context.Capabilities = &abi.ContextCapabilities{Filesystem: fsFacet}
	return o, nil
}

// builtins are the native tools, for their definitions.
func builtins() []tool.Tool {
	all, err := webSettings{SearchProviders: []string{"brave"}}.options(nil)
	if err != nil {
		panic(err) // it is fixed
	}
	return builtin.Tools(builtin.Options{Web: all})
}

// builtins configures the native tools: they keep their state with ours, and cannot touch
// our own folders even where those are in the workspace.
func (p places) builtins() builtin.Options {
	return builtin.Options{
		StateDir: p.state,
		Deny:     p.own(),
	}
}

// own are our own folders.
func (p places) own() []string { return []string{p.config, p.data, p.state, p.cache} }
