package wasi_test

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi/wasitest"
)

func TestSignatures(t *testing.T) {
	sigs := wasi.Signatures()
	if len(sigs) != 46 {
		t.Errorf("%d functions", len(sigs))
	}
	p := newPuppet(t, wasi.Config{}) // instantiation checks each against the module
	for name, s := range sigs {
		def := p.mod.ExportedFunction("call_" + name).Definition()
		if string(def.ParamTypes()) != string(s.Params) || string(def.ResultTypes()) != string(s.Results) {
			t.Errorf("%s: %v", name, s)
		}
	}
}

// TestBadPointers gives every function every kind of wrong pointer in every place. The
// answer is always an errno, and the instance lives.
func TestBadPointers(t *testing.T) {
	p := newPuppet(t, wasi.Config{Args: []string{"a", "b"}, Env: []string{"c=d"}, Stdin: strings.NewReader("x")})
	p.open(".", 2)
	values := []uint64{0, 1, 3, 4, 16, page - 1, page, page + 1, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff}
	n := 0
	for _, name := range p.names() {
		sig := p.sigs[name]
		args := make([]uint64, len(sig.Params))
		for i := range sig.Params {
			for _, v := range values {
				for _, others := range []uint64{0, 3, 8, page - 2, 0xffffffff} {
					for j := range args {
						args[j] = others
					}
					args[i] = v
					if sig.Params[i] == api.ValueTypeI64 {
						args[i] = v<<32 | v
					}
					if name == "poll_oneoff" && args[2] < 4096 {
						args[2] += 4096 // not to sleep by accident
					}
					p.call(name, args...)
					n++
				}
			}
		}
	}
	if n < 8000 {
		t.Errorf("only %d calls", n)
	}
}

// TestFault checks the rows where nothing but a bad pointer is wrong.
func TestFault(t *testing.T) {
	p := newPuppet(t, wasi.Config{Args: []string{"aa"}, Env: []string{"b=c"}})
	fd := p.open("f", 1)
	p.want(0, "fd_close", fd)
	ptr, n := p.str(512, "f")
	// two buffers, the second outside
	p.mod.Memory().WriteUint32Le(32, 0)
	p.mod.Memory().WriteUint32Le(36, 4)
	p.mod.Memory().WriteUint32Le(40, page-2)
	p.mod.Memory().WriteUint32Le(44, 4)
	const bad = page - 3
	for _, c := range []struct {
		name string
		args []uint64
	}{
		{"args_get", []uint64{bad, 0}}, {"args_get", []uint64{0, page - 2}},
		{"args_sizes_get", []uint64{bad, 0}}, {"args_sizes_get", []uint64{0, bad}},
		{"environ_get", []uint64{bad, 0}}, {"environ_sizes_get", []uint64{0, bad}},
		{"clock_res_get", []uint64{0, bad}}, {"clock_time_get", []uint64{1, 0, bad}},
		{"fd_fdstat_get", []uint64{3, bad}}, {"fd_filestat_get", []uint64{3, bad}},
		{"fd_prestat_get", []uint64{3, bad}}, {"fd_prestat_dir_name", []uint64{3, page - 1, 2}},
		{"fd_write", []uint64{1, bad, 1, 0}}, {"fd_write", []uint64{1, 32, 1, bad}}, {"fd_write", []uint64{1, 32, 2, 0}},
		{"fd_read", []uint64{0, 32, 2, 0}}, {"fd_write", []uint64{1, 0xfffffff8, 2, 0}},
		{"fd_readdir", []uint64{3, page - 10, 20, 0, 0}}, {"fd_readdir", []uint64{3, 0, 20, 0, bad}},
		{"path_open", []uint64{3, 0, bad, 8, 0, 0, 0, 0, 0}}, {"path_open", []uint64{3, 0, ptr, n, 1, 0, 0, 0, bad}},
		{"path_filestat_get", []uint64{3, 0, ptr, n, bad}}, {"path_create_directory", []uint64{3, bad, 8}},
		{"path_readlink", []uint64{3, ptr, n, page - 1, 2, 0}}, {"path_readlink", []uint64{3, ptr, n, 0, 2, bad}},
		{"path_rename", []uint64{3, ptr, n, 3, bad, 8}}, {"path_symlink", []uint64{bad, 8, 3, ptr, n}},
		{"poll_oneoff", []uint64{page - 47, 0, 1, 0}}, {"poll_oneoff", []uint64{0, page - 31, 1, 0}},
		{"poll_oneoff", []uint64{0, 0, 1, bad}}, {"random_get", []uint64{page - 1, 2}},
	} {
		p.want(wasi.ErrnoFault, c.name, c.args...)
	}
	for _, name := range []string{"f2", "x"} { // nothing was made by a call that failed
		ptr, n := p.str(512, name)
		p.want(wasi.ErrnoNoent, "path_filestat_get", 3, 0, ptr, n, 0)
	}
}

func TestNoMemory(t *testing.T) {
	p := newPuppetFrom(t, "nomemory", wasi.Config{})
	for _, f := range []string{"random", "write"} {
		res, err := p.mod.ExportedFunction(f).Call(p.ctx)
		if err != nil || wasi.Errno(res[0]) != wasi.ErrnoFault {
			t.Errorf("%s: %v, %v", f, res, err)
		}
	}
}

// TestCounts: the rows of the abuse list about counts that wrap or are huge.
func TestCounts(t *testing.T) {
	var out countWriter
	p := newPuppet(t, wasi.Config{Stdout: &out})
	for _, n := range []uint64{0, 4097, 0x10000000, 0x55555556, 0x80000000, 0xffffffff} {
		p.want(wasi.ErrnoInval, "poll_oneoff", 0, 0, n, 0)
	}
	for _, n := range []uint64{1025, 1 << 20, 0x20000000, 0xffffffff} { // 1 M vectors
		p.want(wasi.ErrnoInval, "fd_write", 1, 0, n, 0)
		p.want(wasi.ErrnoInval, "fd_read", 0, 0, n, 0)
	}
	for i := range uint32(1024) { // each as large as the memory allows
		p.mod.Memory().WriteUint32Le(i*8, 0)
		p.mod.Memory().WriteUint32Le(i*8+4, page)
	}
	p.want(0, "fd_write", 1, 0, 1024, 16384)
	if got := p.u32(16384); got != 1024*page || int64(out) != 1024*page {
		t.Errorf("wrote %d, said %d", out, got)
	}
	p.want(wasi.ErrnoOverflow, "fd_filestat_set_times", 3, math.MaxUint64, 0, 1)
}

type countWriter int64

func (w *countWriter) Write(b []byte) (int, error) { *w += countWriter(len(b)); return len(b), nil }

// TestInit: the world can be seen before the first call, but not used.
func TestInit(t *testing.T) {
	p := newPuppet(t, wasi.Config{Args: []string{"a"}})
	f := p.open("f", 1)
	p.s.SetPhase(wasi.Init)
	p.want(0, "args_sizes_get", 0, 4)
	p.want(0, "environ_sizes_get", 0, 4)
	p.want(0, "fd_prestat_get", 3, 0)
	p.want(0, "fd_prestat_dir_name", 3, 0, 8)
	p.want(0, "fd_fdstat_get", 3, 0)
	p.want(0, "random_get", 0, 8)
	p.want(0, "clock_time_get", 1, 0, 0)
	p.want(0, "fd_write", 1, 64, 0, 0)
	ptr, n := p.str(512, "f")
	for _, c := range []struct {
		name string
		args []uint64
	}{
		{"path_open", []uint64{3, 0, ptr, n, 0, 0, 0, 0, 0}}, {"path_create_directory", []uint64{3, ptr, n}},
		{"path_filestat_get", []uint64{3, 0, ptr, n, 0}}, {"path_filestat_set_times", []uint64{3, 0, ptr, n, 0, 0, 8}},
		{"path_link", []uint64{3, 0, ptr, n, 3, ptr, n}}, {"path_readlink", []uint64{3, ptr, n, 0, 8, 16}},
		{"path_remove_directory", []uint64{3, ptr, n}}, {"path_rename", []uint64{3, ptr, n, 3, ptr, n}},
		{"path_symlink", []uint64{ptr, n, 3, ptr, n}}, {"path_unlink_file", []uint64{3, ptr, n}},
		{"fd_readdir", []uint64{3, 0, 100, 0, 200}}, {"fd_filestat_get", []uint64{3, 0}}, {"fd_sync", []uint64{3}},
		{"fd_filestat_set_times", []uint64{3, 0, 0, 8}}, {"fd_read", []uint64{f, 0, 0, 0}}, {"fd_filestat_set_size", []uint64{f, 0}},
		{"fd_seek", []uint64{f, 0, 0, 0}}, {"fd_tell", []uint64{f, 0}}, {"fd_pread", []uint64{f, 0, 0, 0, 0}}, {"fd_datasync", []uint64{f}},
	} {
		e := p.call(c.name, c.args...)
		if e != wasi.ErrnoNotcapable && e != wasi.ErrnoBadf {
			t.Errorf("%s: errno %d", c.name, e)
		}
	}
	p.s.SetPhase(wasi.AfterRet)
	p.want(0, "path_unlink_file", 3, ptr, n)
}

// TestReset: nothing a guest did to its table is there for the next call.
func TestReset(t *testing.T) {
	var first, second strings.Builder
	p := newPuppet(t, wasi.Config{Stdin: strings.NewReader("abc"), Stdout: &first})
	a, b := p.open("a", 1), p.open(".", 2)
	p.want(0, "fd_readdir", 3, 0, 500, 0, 600)
	if got := p.s.OpenFiles(); got != 3 {
		t.Errorf("%d open", got)
	}
	before := p.s.Monotonic()
	p.want(0, "fd_fdstat_set_rights", 3, 0, 0)
	p.want(0, "fd_fdstat_set_flags", 1, 4)
	p.want(0, "fd_renumber", a, 0)
	p.want(0, "fd_close", 2)
	p.want(0, "fd_renumber", b, 3)
	p.s.Reset()
	p.s.SetStdio(strings.NewReader("next"), &second, nil)
	if p.view.Usage().Open != 0 || p.s.OpenFiles() != 0 {
		t.Errorf("still open: %+v", p.view.Usage())
	}
	for _, fd := range []uint64{4, 5, 6, 7} {
		p.want(wasi.ErrnoBadf, "fd_fdstat_get", fd, 0)
	}
	p.want(0, "fd_prestat_get", 3, 0)
	for fd, rights := range map[uint64]uint32{0: 1 << 1, 1: 1 << 6, 2: 1 << 6, 3: 1 << 13} {
		p.want(0, "fd_fdstat_get", fd, 0)
		if p.u32(8)&rights == 0 || p.u32(0)>>16 != 0 {
			t.Errorf("descriptor %d: rights %x flags %x", fd, p.u32(8), p.u32(0)>>16)
		}
	}
	ptr, n := p.str(64, "hi")
	p.mod.Memory().WriteUint32Le(0, uint32(ptr))
	p.mod.Memory().WriteUint32Le(4, uint32(n))
	p.want(0, "fd_write", 1, 0, 1, 8)
	if first.String() != "" || second.String() != "hi" {
		t.Errorf("%q %q", first.String(), second.String())
	}
	p.open("a", 0)
	if p.s.Monotonic() < before {
		t.Error("the clock went back")
	}
}

// TestMark: a table changed during Init is what Reset restores.
func TestMark(t *testing.T) {
	g := grant(t, t.TempDir(), fs.Options{})
	v := g.View(fs.Limits{})
	p := newPuppet(t, wasi.Config{Mounts: []wasi.Mount{{Guest: "/a", View: v}, {Guest: "/b", View: v}}})
	p.s.SetPhase(wasi.Init)
	p.want(0, "fd_renumber", 4, 3)
	p.s.Mark()
	p.s.SetPhase(wasi.Run)
	f := p.open("x", 1)
	if f != 4 {
		t.Errorf("got %d", f)
	}
	p.want(0, "fd_close", 3)
	p.s.Reset()
	p.want(wasi.ErrnoBadf, "fd_fdstat_get", 4, 0)
	p.open("x", 0)
}

func TestClock(t *testing.T) {
	now := int64(5_000_000_999)
	p := newPuppet(t, wasi.Config{Walltime: func() int64 { return 1_700_000_000_123_456_789 }, Monotonic: func() int64 { return now }})
	read := func(id uint64) uint64 {
		p.want(0, "clock_time_get", id, 0, 0)
		v, _ := p.mod.Memory().ReadUint64Le(0)
		return v
	}
	if got := read(0); got != 1_700_000_000_123_000_000 {
		t.Errorf("wall %d", got)
	}
	if got := read(1); got != 5_000_000_000 {
		t.Errorf("monotonic %d", got)
	}
	p.s.SetMonotonicFloor(9_000_000_000)
	p.s.SetMonotonicFloor(1)
	now += 1_000_000
	if got := read(1); got != 9_001_000_000 {
		t.Errorf("after the floor %d", got)
	}
	fine := newPuppet(t, wasi.Config{FineClock: true, Monotonic: func() int64 { return 123 }})
	fine.want(0, "clock_time_get", 1, 0, 0)
	if v, _ := fine.mod.Memory().ReadUint64Le(0); v != 123 {
		t.Errorf("fine %d", v)
	}
	fine.want(0, "clock_res_get", 1, 0)
	if v, _ := fine.mod.Memory().ReadUint64Le(0); v != 1 {
		t.Errorf("fine resolution %d", v)
	}
}

// sleepFor writes a relative sleep of d and polls.
func (p *puppet) sleepFor(d time.Duration) wasi.Errno {
	b := make([]byte, 48)
	b[16] = 1
	for i := range 8 {
		b[24+i] = byte(uint64(d) >> (8 * i))
	}
	p.mod.Memory().Write(0, b)
	return p.call("poll_oneoff", 0, 64, 1, 128)
}

// TestSleepObeysContext: the end of the context ends a sleep, and afterwards each sleep
// still takes a millisecond.
func TestSleepObeysContext(t *testing.T) {
	blocked, resumed := 0, 0
	p := newPuppet(t, wasi.Config{Blocking: func() func() { blocked++; return func() { resumed++ } }})
	ctx, cancel := context.WithCancel(p.ctx)
	p.ctx = ctx
	time.AfterFunc(10*time.Millisecond, cancel)
	if e := p.sleepFor(time.Hour); e != 0 || p.u32(128) != 1 {
		t.Errorf("errno %d, %d events", e, p.u32(128))
	}
	start := time.Now()
	for range 20 {
		if e := p.sleepFor(time.Hour); e != 0 {
			t.Errorf("errno %d", e)
		}
	}
	if d := time.Since(start); d < 20*time.Millisecond || d > 10*time.Second {
		t.Errorf("20 sleeps after the end took %v", d)
	}
	if blocked != 21 || resumed != 21 {
		t.Errorf("blocked %d, resumed %d", blocked, resumed)
	}
	p.want(wasi.ErrnoCanceled, "random_get", 0, 100)
}

func TestSleepHook(t *testing.T) {
	var slept time.Duration
	p := newPuppet(t, wasi.Config{Sleep: func(_ context.Context, d time.Duration) { slept += d }})
	if e := p.sleepFor(72 * time.Hour); e != 0 || slept != 72*time.Hour {
		t.Errorf("errno %d, slept %v", e, slept)
	}
	if e := p.sleepFor(0); e != 0 || p.u32(128) != 1 || slept != 72*time.Hour {
		t.Errorf("errno %d, slept %v", e, slept)
	}
}

func TestEffects(t *testing.T) {
	var log []string
	p := newPuppet(t, wasi.Config{OnEffect: func(op, path string) { log = append(log, op+" "+path) }})
	p.open("a", 1)
	p.open("a", 0)
	a, na := p.str(256, "a")
	b, nb := p.str(300, "b")
	p.want(0, "path_create_directory", 3, b, nb)
	p.want(0, "path_remove_directory", 3, b, nb)
	p.want(0, "path_link", 3, 0, a, na, 3, b, nb)
	p.want(0, "path_rename", 3, b, nb, 3, b, nb)
	p.want(0, "path_filestat_set_times", 3, 0, a, na, 0, 0, 8)
	p.want(0, "path_unlink_file", 3, b, nb)
	p.want(0, "path_symlink", a, na, 3, b, nb)
	d := p.open(".", 2)
	p.want(0, "path_open", d, 0, a, na, 8, write, 0, 0, 0)
	got := strings.Join(log, ", ")
	want := "create /w/a, mkdir /w/b, rmdir /w/b, link /w/b, rename /w/b, rename /w/b, times /w/a, unlink /w/b, symlink /w/b, truncate /w/a"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRevokeInGuest(t *testing.T) {
	p := newPuppet(t, wasi.Config{})
	f := p.open("f", 1)
	p.grant.Revoke()
	ptr, n := p.str(512, "f")
	p.want(wasi.ErrnoNotcapable, "path_open", 3, 0, ptr, n, 0, 0, 0, 0, 0)
	p.want(wasi.ErrnoNotcapable, "fd_filestat_get", f, 0)
	p.want(wasi.ErrnoNotcapable, "fd_readdir", 3, 0, 100, 0, 200)
	p.want(0, "fd_close", f)
}

func TestExit(t *testing.T) {
	for _, code := range []uint32{0, 1, 255, 0xffffffff, 0xefffffff} {
		p := newPuppet(t, wasi.Config{})
		_, err := p.mod.ExportedFunction("call_proc_exit").Call(p.ctx, uint64(code))
		var exit *wasi.ExitError
		if !errors.As(err, &exit) || exit.Code != code {
			t.Errorf("%x: %v", code, err)
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("%x looks like a timeout", code)
		}
	}
}

func TestWriterErrors(t *testing.T) {
	p := newPuppet(t, wasi.Config{Stdout: failWriter{}, Stdin: failReader{}})
	p.mod.Memory().WriteUint32Le(4, 10)
	p.want(wasi.ErrnoIo, "fd_write", 1, 0, 1, 16)
	p.want(wasi.ErrnoIo, "fd_read", 0, 0, 1, 16)
	p.want(0, "fd_write", 2, 0, 1, 16)
}

type failWriter struct{}

func (failWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

type failReader struct{}

func (failReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestNoState(t *testing.T) {
	p := newPuppet(t, wasi.Config{})
	p.ctx = context.Background()
	p.want(wasi.ErrnoNosys, "random_get", 0, 1)
}

func BenchmarkFdWrite(b *testing.B) {
	p := newPuppet(b, wasi.Config{Stdout: io.Discard})
	p.mod.Memory().WriteUint32Le(4, 10)
	f := p.mod.ExportedFunction("call_fd_write")
	stack := make([]uint64, 4)
	b.ReportAllocs()
	for b.Loop() {
		stack[0], stack[1], stack[2], stack[3] = 1, 0, 1, 16
		if err := f.CallWithStack(p.ctx, stack); err != nil || stack[0] != 0 {
			b.Fatal(err, stack[0])
		}
	}
}

func BenchmarkOpenReadClose(b *testing.B) {
	p := newPuppet(b, wasi.Config{})
	p.open("f", 1)
	ptr, n := p.str(512, "f")
	open, closeFd := p.mod.ExportedFunction("call_path_open"), p.mod.ExportedFunction("call_fd_close")
	stack := make([]uint64, 9)
	b.ReportAllocs()
	for b.Loop() {
		copy(stack, []uint64{3, 1, ptr, n, 0, 2, 0, 0, 600})
		if err := open.CallWithStack(p.ctx, stack); err != nil || stack[0] != 0 {
			b.Fatal(err, stack[0])
		}
		stack[0] = uint64(p.u32(600))
		if err := closeFd.CallWithStack(p.ctx, stack); err != nil || stack[0] != 0 {
			b.Fatal(err, stack[0])
		}
	}
}

func BenchmarkReset(b *testing.B) {
	p := newPuppet(b, wasi.Config{})
	b.ReportAllocs()
	for b.Loop() {
		p.s.Reset()
	}
}

// TestTransferObeysContext: a huge write stops after a chunk, a small one is not cut.
func TestTransferObeysContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var out countWriter
	p := newPuppet(t, wasi.Config{Stdout: writerFunc(func(b []byte) (int, error) { cancel(); return out.Write(b) })})
	p.ctx = wasitest.WithState(ctx, p.s)
	for i := range uint32(1024) {
		p.mod.Memory().WriteUint32Le(i*8, 0)
		p.mod.Memory().WriteUint32Le(i*8+4, page)
	}
	p.want(0, "fd_write", 1, 0, 3, 16384)
	if out != 3*page || p.u32(16384) != 3*page {
		t.Errorf("small: %d written, %d said", out, p.u32(16384))
	}
	out = 0
	p.want(0, "fd_write", 1, 0, 1024, 16384)
	if out != 4<<20 || p.u32(16384) != 4<<20 {
		t.Errorf("large: %d written, %d said", out, p.u32(16384))
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// FuzzCalls calls host functions in a random order with random arguments over random
// memory. Whatever comes, the answer is an errno and nothing outside the folder changes.
func FuzzCalls(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Add([]byte("path_open\x03\x00\x00\x00fd_readdir\x03\x00\x00"))
	p := newPuppet(f, wasi.Config{
		Args: []string{"a"}, Env: []string{"b=c"}, Stdin: strings.NewReader("stdin"),
		Sleep: func(context.Context, time.Duration) {},
	})
	names := p.names()
	values := []uint64{0, 1, 2, 3, 4, 5, 8, 16, 48, 512, 600, page - 1, page, 1 << 31, 1<<32 - 1, allRights, 1 << 40, 1<<64 - 1}
	f.Fuzz(func(t *testing.T, in []byte) {
		p.t = t
		p.s.Reset()
		p.view.Renew()
		p.mod.Memory().Write(0, make([]byte, page))
		p.mod.Memory().WriteString(512, "a/../b")
		p.mod.Memory().Write(0, in[:min(len(in), 512)])
		for i := 0; i < len(in); {
			name := names[int(in[i])%len(names)]
			i++
			args := make([]uint64, len(p.sigs[name].Params))
			for j := range args {
				if i < len(in) {
					args[j] = values[int(in[i])%len(values)]
					i++
				}
			}
			p.call(name, args...)
		}
		if n := p.s.OpenFiles(); n > 64 {
			t.Errorf("%d files open", n)
		}
	})
}
