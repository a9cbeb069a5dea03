package wasmtest

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/host/internal/wasm"
)

// compile compiles a module and turns a panic of the compiler into an error. An
// engine can do as much; what it cannot survive is the end of the process.
func compile(b []byte) (err error) {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		_ = rt.Close(ctx)
	}()
	_, err = rt.CompileModule(ctx, b)
	return err
}

// FuzzCompile: what Scan accepts does not end the process in wazero's compiler,
// and a rewrite makes no invalid module valid and no valid one invalid.
func FuzzCompile(f *testing.F) {
	for _, b := range seeds(f) {
		if len(b) < 4096 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkCompile(t, b) })
}

// small limits keep a mutant from compiling for long.
var small = wasm.Limits{Size: 1 << 16, Functions: 1000, Locals: 5000, TotalLocals: 20_000, Nesting: 500, Params: 200, Results: 200}

func checkCompile(t *testing.T, b []byte) {
	t.Helper()
	if _, err := wasm.Scan(b, small); err != nil {
		return
	}
	plain := compile(b)
	if plain != nil && strings.HasPrefix(plain.Error(), "panic") {
		t.Errorf("the compiler panics on a scanned module: %v\n%x", plain, b)
	}
	opt := wasm.Options{Limits: small}
	m, err := wasm.Rewrite(b, opt)
	if err != nil {
		return
	}
	if err := wasm.Verify(m.Bytes, opt); err != nil {
		t.Errorf("%v\n%x", err, b)
	}
	if changed := compile(m.Bytes); (plain == nil) != (changed == nil) {
		t.Errorf("as it is: %v, rewritten: %v\n%x", plain, changed, b)
	}
}

// seeds are valid modules of many kinds: the specification's and our own.
func seeds(tb testing.TB) [][]byte {
	tb.Helper()
	var out [][]byte
	dirs := []string{"testdata"}
	suite, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err == nil {
		dirs = append(dirs, filepath.Join(strings.TrimSpace(string(suite)), "internal", "integration_test", "spectest", "v2", "testdata"))
	}
	for _, dir := range dirs {
		names, _ := filepath.Glob(filepath.Join(dir, "*.wasm"))
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err == nil && len(b) < 20_000 {
				out = append(out, b)
			}
		}
	}
	return out
}

// mutate changes a few bytes, most of them in ways that move boundaries.
func mutate(rng *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < 9 {
		return b
	}
	for n := 1 + rng.Intn(4); n > 0; n-- {
		at := 8 + rng.Intn(len(b)-8)
		switch rng.Intn(5) {
		case 0:
			b[at] = byte(rng.Intn(256))
		case 1:
			b[at] ^= 1 << rng.Intn(8)
		case 2:
			copy(b[at:], []byte{0xff, 0xff, 0xff, 0xff, 0x0f}[:1+rng.Intn(5)])
		case 3:
			from := 8 + rng.Intn(len(b)-8)
			copy(b[at:], b[from:min(from+1+rng.Intn(8), len(b))])
		case 4:
			b[at] = []byte{0x00, 0x01, 0x0b, 0x10, 0x11, 0x40, 0x7f, 0x80, 0xfc, 0xfd}[rng.Intn(10)]
		}
	}
	return b
}

// mutantsEnv tells the child how many mutants to try.
const mutantsEnv = "BLADEHOST_TEST_MUTANTS"

// TestNoMutantEndsTheProcess lets a child process, with a limit on its memory,
// scan and compile mutants of valid modules. The child writes down what it is
// about to compile, so that its end would name the module.
func TestNoMutantEndsTheProcess(t *testing.T) {
	if n, err := strconv.Atoi(os.Getenv(mutantsEnv)); err == nil {
		tryMutants(t, n)
		return
	}
	if testing.Short() {
		t.Skip("long")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(t.TempDir(), "note")
	cmd := exec.Command(self, "-test.run=^TestNoMutantEndsTheProcess$", "-test.timeout=300s")
	if sh, err := exec.LookPath("sh"); err == nil && !raceEnabled {
		cmd = exec.Command(sh, append([]string{"-c", `ulimit -v 8000000; exec "$0" "$@"`}, cmd.Args...)...)
	}
	mutants := "20000"
	if raceEnabled {
		mutants = "1000"
	}
	cmd.Env = append(os.Environ(), mutantsEnv+"="+mutants, "BLADEHOST_TEST_NOTE="+note)
	if out, err := cmd.CombinedOutput(); err != nil {
		last, _ := os.ReadFile(note)
		t.Fatalf("%v at %s\n%s", err, last, out[:min(len(out), 4000)])
	}
}

func tryMutants(t *testing.T, n int) {
	note, err := os.Create(os.Getenv("BLADEHOST_TEST_NOTE"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = note.Close() }()
	rng := rand.New(rand.NewSource(int64(n)))
	all := seeds(t)
	tried := 0
	for range n {
		b := mutate(rng, all[rng.Intn(len(all))])
		if _, err := wasm.Scan(b, small); err != nil {
			continue
		}
		tried++
		_, _ = note.WriteAt([]byte(hex.EncodeToString(b)+"\n"), 0)
		checkCompile(t, b)
	}
	t.Logf("%d of %d mutants were scanned and compiled", tried, n)
	if tried < n/20 {
		t.Errorf("only %d of %d mutants were scanned", tried, n)
	}
}
