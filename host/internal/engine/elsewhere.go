package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

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
	r := recipe{
		listenAt: listenAt,
		module:   func() (*wasm.Module, error) { return &wasm.Module{Bytes: module}, nil },
		stored:   func(*wasm.Module) ([]byte, error) { return nil, nil },
		use:      func(_ *wasm.Module, dir string) error { return use(dir) },
	}
	if e.dir != nil {
		sum := sha256.Sum256(module)
		what := hex.EncodeToString(sum[:]) + " " + strings.Join(listenAt, ",")
		r.key, r.source = e.name("elsewhere", what), e.name("elsewhere file", what)
	}
	r.load = func() error {
		_, dir, rest, err := e.dir.open(r.key, nil)
		if err == nil {
			err = rest() // use may run it
		}
		if err != nil {
			return err
		}
		return use(dir)
	}
	return e.prepare(ctx, r)
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
