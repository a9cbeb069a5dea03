package engine

import (
	"context"
	"os"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// recipe is how the machine code of a module is had: from the cache, from a child
// process that compiles, or from the runtime in this one.
type recipe struct {
	// key names the entry of the cache, source what leads to it.
	key, source string
	// module is what is compiled, stored what the cache keeps beside the code.
	module func() (*wasm.Module, error)
	stored func(*wasm.Module) ([]byte, error)
	// listenAt are the exports that somebody listens at.
	listenAt []string
	// load uses the entry that is there, if it is as it was written.
	load func() error
	// use takes a folder with the code, or with an empty name none: then, and where
	// the folder is empty, the runtime compiles. It may be called again after it failed.
	use func(m *wasm.Module, dir string) error
}

// prepare uses the code in the cache or puts it there. One process at a time makes an
// entry; the others wait for it and then find it. A cache that cannot be written to,
// because the disk is full for example, costs time later and nothing else.
func (e *Engine) prepare(ctx context.Context, r recipe) (hit bool, err error) {
	if e.dir == nil {
		return false, e.prepareApart(ctx, r)
	}
	if err := r.load(); err == nil || ctx.Err() != nil {
		return err == nil, err
	}
	unlock, err := e.dir.lock(ctx, r.key)
	switch {
	case ctx.Err() != nil:
		return false, err
	case err != nil:
		e.log.Warn("the cache of compiled modules cannot be used", "why", err)
		return false, e.prepareApart(ctx, r)
	}
	defer unlock()
	if err := r.load(); err == nil || ctx.Err() != nil {
		return err == nil, err
	}
	var failed error
	used := false
	err = e.dir.make(r.key, r.source, func(dir string) (stored []byte, err error) {
		stored, failed = e.fillNew(ctx, r, dir)
		used = failed == nil
		return stored, failed
	})
	if failed != nil {
		return false, failed
	}
	if err != nil {
		e.log.Warn("a compiled module cannot be kept", "why", err)
	}
	if used {
		return false, nil
	}
	return false, e.prepareApart(ctx, r)
}

// fillNew compiles for the cache.
func (e *Engine) fillNew(ctx context.Context, r recipe, dir string) (stored []byte, err error) {
	m, err := r.module()
	if err != nil {
		return nil, err
	}
	if stored, err = r.stored(m); err != nil {
		return nil, err
	}
	return stored, e.fill(ctx, r, m, dir)
}

// prepareApart does without the cache.
func (e *Engine) prepareApart(ctx context.Context, r recipe) error {
	m, err := r.module()
	if err != nil {
		return err
	}
	if len(e.opt.CompileChild) == 0 {
		return r.use(m, "")
	}
	tmp, err := os.MkdirTemp("", "bladehost-compile-")
	if err != nil {
		return abi.NewError(abi.CodeCompile, "make a folder for the compiler: %v", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	return e.fill(ctx, r, m, tmp)
}

// fill compiles into an empty folder and uses that.
func (e *Engine) fill(ctx context.Context, r recipe, m *wasm.Module, dir string) error {
	if len(e.opt.CompileChild) > 0 {
		if err := e.compileInChild(ctx, m, dir, r.listenAt...); err != nil {
			return err
		}
	}
	return r.use(m, dir)
}
