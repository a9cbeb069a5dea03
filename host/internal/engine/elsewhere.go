package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// CompileElsewhere is for modules that another engine runs on the same runtime: it
// calls use with a folder for the runtime's cache, which holds the machine code of the
// module already, or with an empty name where there is neither a cache nor a child
// that compiles. The machine code is kept, checked and made in a child process under
// the same rules as a plugin's own. ListenAt are the names of the exports that the
// other engine listens at. Use may be called again after it failed. Hit says that the
// code was in the cache.
func (e *Engine) CompileElsewhere(ctx context.Context, module []byte, listenAt []string, use func(dir string) error) (hit bool, err error) {
	if e.dir == nil {
		return false, e.compileForUse(ctx, module, listenAt, use)
	}
	sum := sha256.Sum256(module)
	what := hex.EncodeToString(sum[:]) + " " + strings.Join(listenAt, ",")
	key, source := e.name("elsewhere", what), e.name("elsewhere file", what)
	if e.useKept(key, use) {
		return true, nil
	}
	unlock, err := e.dir.lock(ctx, key)
	switch {
	case ctx.Err() != nil:
		return false, err
	case err != nil:
		e.log.Warn("the cache of compiled modules cannot be used", "why", err)
		return false, e.compileForUse(ctx, module, listenAt, use)
	}
	defer unlock()
	if e.useKept(key, use) {
		return true, nil
	}
	var failed error
	used := false
	err = e.dir.make(key, source, func(dir string) ([]byte, error) {
		failed = e.fillForUse(ctx, module, listenAt, dir, use)
		used = failed == nil
		return nil, failed
	})
	switch {
	case used:
		if err != nil {
			e.log.Warn("a compiled module cannot be kept", "why", err)
		}
		return false, nil
	case failed != nil:
		return false, failed
	}
	e.log.Warn("a compiled module cannot be kept", "why", err)
	return false, e.compileForUse(ctx, module, listenAt, use)
}

// useKept reports whether the machine code is there and was used.
func (e *Engine) useKept(key string, use func(string) error) bool {
	_, dir, rest, err := e.dir.open(key, nil)
	return err == nil && rest() == nil && use(dir) == nil
}

// compileForUse compiles without the cache.
func (e *Engine) compileForUse(ctx context.Context, module []byte, listenAt []string, use func(string) error) error {
	if len(e.opt.CompileChild) == 0 {
		return use("")
	}
	tmp, err := os.MkdirTemp("", "bladehost-compile-")
	if err != nil {
		return abi.NewError(abi.CodeCompile, "make a folder for the compiler: %v", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	return e.fillForUse(ctx, module, listenAt, tmp, use)
}

func (e *Engine) fillForUse(ctx context.Context, module []byte, listenAt []string, dir string, use func(string) error) error {
	if len(e.opt.CompileChild) > 0 {
		if err := e.compileInChild(ctx, &wasm.Module{Bytes: module}, dir, listenAt...); err != nil {
			return err
		}
	}
	return use(dir)
}

// listeners stands for the listeners of another engine: the runtime makes other code
// for a function that somebody listens at, whoever it is.
type listeners []string

// NewFunctionListener listens at exports of these names, and does nothing.
func (l listeners) NewFunctionListener(def api.FunctionDefinition) experimental.FunctionListener {
	if !slices.ContainsFunc(def.ExportNames(), func(n string) bool { return slices.Contains(l, n) }) {
		return nil
	}
	return experimental.FunctionListenerFunc(func(context.Context, api.Module, api.FunctionDefinition, []uint64, experimental.StackIterator) {})
}
