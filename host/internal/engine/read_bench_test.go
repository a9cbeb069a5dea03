package engine

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/tool"
)

// readWAT reads the file "big" of its first folder, a MiB at a time.
const readWAT = `(module
 (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
 (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
 (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
 (import "blade_v1" "ret" (func $ret (param i32 i32 i32)))
 (memory (export "memory") 20)
 (data (i32.const 16) "bignull")
 (func (export "blade_describe"))
 (func (export "blade_execute") (param i32 i32)
  (if (call $open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 3) (i32.const 0) (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 32)) (then unreachable))
  (i32.store (i32.const 40) (i32.const 65536))
  (i32.store (i32.const 44) (i32.const 1048576))
  (loop $more
   (if (call $read (i32.load (i32.const 32)) (i32.const 40) (i32.const 1) (i32.const 48)) (then unreachable))
   (br_if $more (i32.load (i32.const 48))))
  (drop (call $close (i32.load (i32.const 32))))
  (call $ret (i32.const 0) (i32.const 19) (i32.const 4))))`

// BenchmarkRead100MiB compares the files of the capability with the runtime's own
// mount of the same folder.
func BenchmarkRead100MiB(b *testing.B) {
	const size = 100 << 20
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, size), 0o600); err != nil {
		b.Fatal(err)
	}
	module := watModule(b, readWAT)
	b.Run("mount", func(b *testing.B) {
		ctx := context.Background()
		rt := wazero.NewRuntime(ctx)
		defer func() { _ = rt.Close(ctx) }()
		wasi_snapshot_preview1.MustInstantiate(ctx, rt)
		if _, err := rt.NewHostModuleBuilder(abi.ImportModule).NewFunctionBuilder().
			WithGoModuleFunction(api.GoModuleFunc(func(context.Context, api.Module, []uint64) {}), []api.ValueType{api.ValueTypeI32, api.ValueTypeI32, api.ValueTypeI32}, nil).
			Export(abi.FuncRet).Instantiate(ctx); err != nil {
			b.Fatal(err)
		}
		m, err := rt.InstantiateWithConfig(ctx, module, wazero.NewModuleConfig().WithStartFunctions().WithFSConfig(wazero.NewFSConfig().WithReadOnlyDirMount(dir, "/")))
		if err != nil {
			b.Fatal(err)
		}
		f := m.ExportedFunction(abi.ExportExecute)
		b.SetBytes(size)
		for b.Loop() {
			if _, err := f.Call(ctx, 0, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("capability", func(b *testing.B) {
		grant, err := fs.Open(dir, fs.Options{ReadOnly: true})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = grant.Close() }()
		g := pick(b, load(b, newEngine(b, Options{}), module), NewWorld(World{Mounts: []*fs.Grant{grant}}), "Wat")
		b.SetBytes(size)
		for b.Loop() {
			adm, err := g.Admit(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			r, err := g.Execute(b.Context(), tool.NewCall(tool.Config{Input: json.RawMessage(`{}`), Admission: adm}))
			adm.Release()
			if err != nil || r.IsError() {
				b.Fatal(r, err)
			}
		}
	})
}
