package engine

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// compileHit loads and compiles a module in a new engine and runs it once.
func compileHit(t *testing.T, opt Options, module []byte) bool {
	t.Helper()
	p := load(t, newEngine(t, opt), module)
	hit, err := p.Compile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := try(t, pick(t, p, emptyWorld(), "Wat"), long, tool.Config{})
	judge(t, ok(), r, err)
	return hit
}

// entryFiles are the files of the one entry of a cache; those that only lead to it
// are not among them.
func entryFiles(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(p, ".lock") && !strings.HasPrefix(d.Name(), sourcePrefix) {
			list = append(list, p)
		}
		return err
	})
	if err != nil || len(list) < 3 {
		t.Fatal(list, err)
	}
	return list
}

// An entry that is not exactly as it was written is made anew and never run.
func TestCacheDamage(t *testing.T) {
	module := watGuest(t, head+isNull+`)`)
	opt := Options{CacheDir: filepath.Join(t.TempDir(), "cache")}
	if compileHit(t, opt, module) || !compileHit(t, opt, module) {
		t.Fatal("the first is a miss, the second a hit")
	}
	change := func(f func([]byte) []byte) func(string) error {
		return func(p string) error {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return os.WriteFile(p, f(b), 0o600)
		}
	}
	damages := map[string]func(string) error{
		"flipped first byte":  change(func(b []byte) []byte { b[0] ^= 1; return b }),
		"flipped middle byte": change(func(b []byte) []byte { b[len(b)/2] ^= 0x10; return b }),
		"flipped last byte":   change(func(b []byte) []byte { b[len(b)-1] ^= 0x80; return b }),
		"truncated":           change(func(b []byte) []byte { return b[:len(b)/2] }),
		"emptied":             change(func([]byte) []byte { return nil }),
		"longer":              change(func(b []byte) []byte { return append(b, 'x') }),
		"removed":             os.Remove,
		"a folder":            func(p string) error { return os.Remove(p) },
		"a link": func(p string) error {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			other := filepath.Join(t.TempDir(), "other")
			if err := os.WriteFile(other, b, 0o600); err != nil {
				return err
			}
			if err := os.Remove(p); err != nil {
				return err
			}
			return os.Symlink(other, p)
		},
	}
	for name, damage := range damages {
		for _, file := range entryFiles(t, opt.CacheDir) {
			index := filepath.Base(file) == indexName
			if name == "a link" && index {
				continue // the digests are the same
			}
			if err := damage(file); err != nil {
				t.Fatal(err)
			}
			if name == "a folder" {
				if err := os.Mkdir(file, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if compileHit(t, opt, module) {
				t.Errorf("%s, %s: it was used", filepath.Base(file), name)
			}
			if !compileHit(t, opt, module) {
				t.Errorf("%s, %s: it was not made anew", filepath.Base(file), name)
			}
		}
	}
	extra := filepath.Join(filepath.Dir(entryFiles(t, opt.CacheDir)[0]), "extra")
	if err := os.WriteFile(extra, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if compileHit(t, opt, module) {
		t.Error("an entry with a file too many was used")
	}
}

// twoCached are two modules in a cache.
func twoCached(t *testing.T) (opt Options, good, other []byte) {
	t.Helper()
	opt = Options{CacheDir: filepath.Join(t.TempDir(), "cache")}
	good, other = watGuest(t, head+isNull+`)`), watGuest(t, head+`unreachable)`)
	compileHit(t, opt, good)
	if _, err := load(t, newEngine(t, opt), other).Compile(t.Context()); err != nil {
		t.Fatal(err)
	}
	return opt, good, other
}

// A module that was seen before is not scanned again, and never taken for another.
func TestCacheRecall(t *testing.T) {
	opt, good, other := twoCached(t)
	e := newEngine(t, opt)
	g, o := load(t, e, good), load(t, e, other)
	if g.stored == nil || o.stored == nil || g.key == o.key {
		t.Fatal("the modules were not recalled")
	}
	for name, content := range map[string]string{"another module's": o.key, "nothing": "", "too long": g.key + "0", "no key": strings.Repeat("z", len(g.key)), "a way out": strings.Repeat("../", len(g.key)/3) + "x"} {
		if err := os.WriteFile(e.dir.sourceFile(g.source), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		p := load(t, newEngine(t, opt), good)
		if p.stored != nil || p.key != g.key {
			t.Errorf("%s: it was recalled", name)
		}
		if !compileHit(t, opt, good) {
			t.Errorf("%s: the entry was not found", name)
		}
		if load(t, newEngine(t, opt), good).stored == nil {
			t.Errorf("%s: it was not remembered", name)
		}
	}
	// With another manifest it is another file with the same code.
	manifest := bytes.Replace(good, []byte("A hand-written module."), []byte("Another description..."), 1)
	if !compileHit(t, opt, manifest) {
		t.Error("another manifest needs no other machine code")
	}
	p := load(t, newEngine(t, opt), manifest)
	if p.stored == nil || p.key != g.key || p.Manifest().Description != "Another description..." {
		t.Errorf("%+v", p.Manifest())
	}
}

// A module with and without its manifest is compiled once, another never for it.
func TestCacheKeys(t *testing.T) {
	opt := Options{CacheDir: filepath.Join(t.TempDir(), "cache")}
	a := watGuest(t, head+isNull+`)`)
	if compileHit(t, opt, a) {
		t.Error("hit")
	}
	plain, err := newEngine(t, opt).LoadUnsigned(assemble(t, `(module (memory (export "memory") 1) (func (export "blade_describe")) (func (export "blade_execute") (param i32 i32)))`))
	if err != nil {
		t.Fatal(err)
	}
	if hit, err := plain.Compile(t.Context()); hit || err != nil {
		t.Error(hit, err)
	}
	again, err := newEngine(t, opt).Load(withManifest(t, plain.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if hit, err := again.Compile(t.Context()); !hit || err != nil {
		t.Error(hit, err)
	}
	opt.Interpreter = true
	if compileHit(t, opt, a) || !compileHit(t, opt, a) {
		t.Error("the interpreter's entry")
	}
	opt.MemoryLimit = 2 << 20
	if !compileHit(t, opt, a) {
		t.Error("another memory limit needs other machine code")
	}
}

// The folder is bounded; what was used last stays.
func TestCacheEviction(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	opt := Options{CacheDir: dir, CacheSize: 1}
	for _, body := range []string{isNull, isNull + `(drop (call $deadline))`, isNull + `(drop (call $cancelled))`} {
		module := watGuest(t, head+body+`)`)
		if compileHit(t, opt, module) || !compileHit(t, opt, module) {
			t.Fatal("the newest entry is kept, whatever its size")
		}
		c, err := openCache(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(c.entries()); n != 1 {
			t.Errorf("%d entries", n)
		}
		if sources, _ := filepath.Glob(c.sourceFile("*")); len(sources) != 1 {
			t.Errorf("%d files lead to one entry", len(sources))
		}
	}
	// What a process left that died while it compiled.
	stale, young := filepath.Join(dir, "new-stale"), filepath.Join(dir, "new-young")
	for _, d := range []string{stale, young} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * staleAfter)
	if err := os.Chtimes(stale, old, old); err != nil {
		t.Fatal(err)
	}
	compileHit(t, opt, watGuest(t, head+isNull+`)`))
	if _, err := os.Stat(stale); err == nil {
		t.Error("a stale folder was kept")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("another process's folder was removed")
	}
}

// A cache that others may write to holds code that is run: it is refused.
func TestCachePrivate(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{CacheDir: dir}); err == nil {
		t.Error("a folder that the group may write to was taken")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{CacheDir: file}); err == nil {
		t.Error("a file was taken")
	}
}

// A cache that cannot be written to costs time and nothing else.
func TestCacheNotWritable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("nothing is forbidden to root")
	}
	dir := filepath.Join(t.TempDir(), "cache")
	e := newEngine(t, Options{CacheDir: dir})
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	r, err := try(t, pick(t, load(t, e, watGuest(t, head+isNull+`)`)), emptyWorld(), "Wat"), long, tool.Config{})
	judge(t, ok(), r, err)
}

// So does one that is gone.
func TestCacheGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	e := newEngine(t, Options{CacheDir: dir})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // nor can it be made
		t.Fatal(err)
	}
	r, err := try(t, pick(t, load(t, e, watGuest(t, head+isNull+`)`)), emptyWorld(), "Wat"), long, tool.Config{})
	judge(t, ok(), r, err)
}

// child is a process of this binary.
func child(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	return cmd
}

// A process that is killed in the middle of a write leaves a cache that works.
func TestKilledWhileWriting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	module := watGuest(t, head+isNull+`)`)
	key := load(t, newEngine(t, Options{CacheDir: dir}), module).key
	cmd := child(t, "die", dir, key)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "half\n" {
		t.Fatal(line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	opt := Options{CacheDir: dir}
	if compileHit(t, opt, module) || !compileHit(t, opt, module) {
		t.Error("the first is a miss, the second a hit")
	}
}

// A hundred processes on an empty cache compile a module once.
func TestOneMiss(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	module := watGuest(t, head+isNull+`)`)
	n := 100
	if testing.Short() || raceEnabled {
		n = 10
	}
	outs := make([]bytes.Buffer, n)
	var wg sync.WaitGroup
	for k := range n {
		cmd := child(t, "load", dir)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(module), &outs[k], &outs[k]
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("%v: %s", err, outs[k].String())
			}
		})
	}
	wg.Wait()
	misses := 0
	for k := range outs {
		switch outs[k].String() {
		case "false":
			misses++
		case "true":
		default:
			t.Errorf("a process said %q", outs[k].String())
		}
	}
	if misses != 1 {
		t.Errorf("%d of %d processes compiled the module", misses, n)
	}
}

// Modules are compiled in a child process where the host has one.
func TestCompileChild(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	module := watGuest(t, head+isNull+`)`)
	opt := Options{CompileChild: []string{self}}
	t.Setenv(childEnv, "compile")
	for _, cached := range []bool{true, false} {
		opt.CacheDir = ""
		if cached {
			opt.CacheDir = filepath.Join(t.TempDir(), "cache")
		}
		for _, interpreter := range []bool{false, true} {
			opt.Interpreter = interpreter
			if compileHit(t, opt, module) {
				t.Error("hit")
			}
			if compileHit(t, opt, module) != cached {
				t.Error("the second time")
			}
		}
	}
	opt.Interpreter = false
	t.Setenv(childEnv, "nothing")
	if compileHit(t, Options{CompileChild: opt.CompileChild, CacheDir: filepath.Join(t.TempDir(), "cache")}, module) {
		t.Error("hit")
	}
	for name, text := range map[string]string{"hang": "longer than 300ms", "hungry": "more memory than 256 MiB", "gorged": "more memory than 256 MiB", "crash": "failed on the module", "words": "could not be compiled: no"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(childEnv, name)
			if (name == "hungry" || name == "gorged") && raceEnabled {
				t.Skip("the race detector ends the process first")
			}
			o := opt
			o.CacheDir = filepath.Join(t.TempDir(), "cache")
			switch name {
			case "hang":
				o.CompileTime = 300 * time.Millisecond
			case "hungry", "gorged":
				o.CompileMemory = 256 << 20
			}
			p := load(t, newEngine(t, o), module)
			_, err := p.Compile(t.Context())
			if abi.CodeOf(err) != abi.CodeCompile || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "goroutine") {
				t.Errorf("%v, want %q", err, text)
			}
			list, err := os.ReadDir(o.CacheDir)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range list {
				if d.IsDir() {
					t.Errorf("%s is left", d.Name())
				}
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		p := load(t, newEngine(t, Options{CompileChild: []string{filepath.Join(t.TempDir(), "missing")}}), module)
		if _, err := p.Compile(t.Context()); abi.CodeOf(err) != abi.CodeCompile {
			t.Error(err)
		}
	})
}

// Rows 12 to 14, 17 of the abuse corpus: small modules that keep a compiler busy
// for minutes.
func TestCompileBombs(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("long")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childEnv, "compile")
	e := newEngine(t, Options{CompileChild: []string{self}, CompileTime: 2 * time.Second, CompileMemory: 1 << 30, CacheDir: filepath.Join(t.TempDir(), "cache")})
	for name, b := range bombs() {
		t.Run(name, func(t *testing.T) {
			from := time.Now()
			p, err := e.Load(withManifest(t, b))
			if err == nil {
				_, err = p.Compile(t.Context())
			}
			if d := time.Since(from); d > 2*enough {
				t.Errorf("it took %v", d)
			}
			if code := abi.CodeOf(err); err != nil && code != abi.CodeCompile && code != abi.CodeModuleLimit {
				t.Error(err)
			}
			t.Logf("%v after %v", err, time.Since(from))
		})
	}
}

// bombs are modules that are quick to read and slow to compile.
func bombs() map[string][]byte {
	uleb := func(n int) (o []byte) {
		for ; n >= 0x80; n >>= 7 {
			o = append(o, byte(n)|0x80)
		}
		return append(o, byte(n))
	}
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	section := func(id byte, body []byte) []byte { return cat([]byte{id}, uleb(len(body)), body) }
	name := func(s string) []byte { return cat(uleb(len(s)), []byte(s)) }
	module := func(locals, code []byte) []byte {
		body := cat(locals, code, []byte{0x0b})
		return cat([]byte("\x00asm\x01\x00\x00\x00"),
			section(1, []byte{2, 0x60, 0, 0, 0x60, 2, 0x7f, 0x7f, 0}),
			section(3, []byte{2, 0, 1}),
			section(5, []byte{1, 0, 1}),
			section(7, cat([]byte{3}, name("memory"), []byte{2, 0}, name("blade_describe"), []byte{0, 0}, name("blade_execute"), []byte{0, 1})),
			section(10, cat([]byte{2, 2, 0, 0x0b}, uleb(len(body)), body)))
	}
	none := []byte{0}
	many := func(n int, code ...byte) []byte { return bytes.Repeat(code, n) }
	sets := func(locals, n int) (o []byte) {
		for k := range n { // each loop changes a local
			o = append(o, 0x03, 0x40, 0x20)
			o = append(append(o, uleb(2+k%locals)...), 0x41, 1, 0x6a, 0x21)
			o = append(append(o, uleb(2+(k*7)%locals)...), 0x20)
			o = append(append(o, uleb(2+k%locals)...), 0x0d, 0, 0x0b)
		}
		return o
	}
	return map[string][]byte{
		"12 nested blocks":      module(none, cat(many(4_900, 0x02, 0x40), many(4_900, 0x0b))),
		"13 locals times loops": module(cat([]byte{1}, uleb(4000), []byte{0x7f}), sets(4000, 9000)),
		"14 a long br_table":    module(none, cat([]byte{0x20, 0, 0x0e}, uleb(65_000), make([]byte, 65_001))),
		"17 calls in one body":  module(none, many(500_000, 0x10, 0)),
	}
}
