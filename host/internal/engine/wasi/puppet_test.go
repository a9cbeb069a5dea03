package wasi_test

import (
	"context"
	"sort"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi/wasitest"
)

// puppet is an instance whose host calls the test makes itself.
type puppet struct {
	t     testing.TB
	s     *wasi.State
	mod   api.Module
	ctx   context.Context
	view  *fs.View
	sigs  map[string]wasi.Signature
	grant *fs.Grant
}

func newPuppet(t testing.TB, cfg wasi.Config) *puppet {
	t.Helper()
	return newPuppetFrom(t, "hostile", cfg)
}

func newPuppetFrom(t testing.TB, module string, cfg wasi.Config) *puppet {
	t.Helper()
	p := &puppet{t: t, sigs: wasi.Signatures()}
	if cfg.Mounts == nil {
		p.grant = grant(t, t.TempDir(), fs.Options{AllowSymlinkCreation: true})
		p.view = p.grant.View(fs.Limits{})
		cfg.Mounts = []wasi.Mount{{Guest: "/w", View: p.view}}
	}
	p.s = wasi.NewState(cfg)
	p.ctx = wasitest.WithState(context.Background(), p.s)
	r := wazero.NewRuntime(p.ctx)
	t.Cleanup(func() {
		p.s.Close()
		_ = r.Close(context.Background())
	})
	if err := wasi.Instantiate(p.ctx, r, wasitest.StateOf); err != nil {
		t.Fatal(err)
	}
	var err error
	if p.mod, err = r.InstantiateWithConfig(p.ctx, guest(t, module), wazero.NewModuleConfig().WithName("")); err != nil {
		t.Fatal(err)
	}
	return p
}

// call calls a host function from inside the guest.
func (p *puppet) call(name string, args ...uint64) wasi.Errno {
	p.t.Helper()
	res, err := p.mod.ExportedFunction("call_"+name).Call(p.ctx, args...)
	if err != nil {
		p.t.Fatalf("%s(%x): %v", name, args, err)
	}
	return wasi.Errno(res[0])
}

func (p *puppet) want(e wasi.Errno, name string, args ...uint64) {
	p.t.Helper()
	if got := p.call(name, args...); got != e {
		p.t.Errorf("%s%v: errno %d, want %d", name, args, got, e)
	}
}

// names are the functions that return, sorted.
func (p *puppet) names() []string {
	var names []string
	for name := range p.sigs {
		if name != "proc_exit" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// str puts a string into memory and returns pointer and length.
func (p *puppet) str(at uint32, s string) (ptr, n uint64) {
	if !p.mod.Memory().WriteString(at, s) {
		p.t.Fatal("memory")
	}
	return uint64(at), uint64(len(s))
}

func (p *puppet) u32(at uint32) uint32 {
	v, _ := p.mod.Memory().ReadUint32Le(at)
	return v
}

// open opens a path for reading and writing and returns the descriptor.
func (p *puppet) open(path string, oflags uint64) uint64 {
	p.t.Helper()
	ptr, n := p.str(512, path)
	p.want(0, "path_open", 3, 0, ptr, n, oflags, allRights&^write, allRights, 0, 600)
	return uint64(p.u32(600))
}

const (
	allRights = 1<<30 - 1
	write     = 1 << 6
	page      = 65536
)
