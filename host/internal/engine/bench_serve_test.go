package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/wasm"
	"github.com/bladehost/bladehost/host/tool"
)

// benchAsk is one line that testdata/bench writes to this binary when it serves
// measurements (child "bench"), benchTold the line it gets back.
type benchAsk struct {
	// Row is what to measure, such as "ours"; Module a file with a module, Tool the
	// tool of it, Input what to call it with, N how often.
	Row, Module, Tool string
	Input             json.RawMessage
	N                 int
}

type benchTold struct {
	// Ns is how long all calls took together, or what else the row counts.
	Ns    float64
	Error string
}

// benchServer keeps what is made once for all measurements of a row.
type benchServer struct {
	e     *Engine
	made  map[string]func(input json.RawMessage, n int) error
	files map[string][]byte
}

func benchChild() int {
	e, err := New(Options{Idle: 4096})
	if err != nil {
		panic(err)
	}
	s := &benchServer{e: e, made: map[string]func(json.RawMessage, int) error{}, files: map[string][]byte{}}
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var ask benchAsk
		var told benchTold
		if err = json.Unmarshal(line, &ask); err == nil {
			told.Ns, err = s.measure(ask)
		}
		if err != nil {
			told.Error = err.Error()
		}
		b, _ := json.Marshal(told) // numbers and words
		fmt.Printf("%s\n", b)
	}
}

func (s *benchServer) measure(a benchAsk) (float64, error) {
	switch a.Row {
	case "memory":
		return s.memory(a)
	case "overrun":
		return s.overrun(a)
	}
	f, err := s.row(a)
	if err != nil {
		return 0, err
	}
	from := time.Now()
	err = f(a.Input, a.N)
	return float64(time.Since(from)), err
}

func (s *benchServer) row(a benchAsk) (func(json.RawMessage, int) error, error) {
	key := a.Row + " " + a.Module + " " + a.Tool
	if f := s.made[key]; f != nil {
		return f, nil
	}
	makers := map[string]func(benchAsk) (func(json.RawMessage, int) error, error){
		"ours": s.ours, "metered": s.metered, "raw": s.raw,
		"fresh": func(a benchAsk) (func(json.RawMessage, int) error, error) { return s.fresh(a, false) },
		"book":  func(a benchAsk) (func(json.RawMessage, int) error, error) { return s.fresh(a, true) },
	}
	maker := makers[a.Row]
	if maker == nil {
		return nil, fmt.Errorf("there is no row %q", a.Row)
	}
	f, err := maker(a)
	if err == nil {
		err = f(a.Input, 3)
	}
	if err != nil {
		return nil, err
	}
	s.made[key] = f
	return f, nil
}

// module is a file with its manifest section, and the tool's index.
func (s *benchServer) module(a benchAsk) ([]byte, int, error) {
	b := s.files[a.Module]
	if b == nil {
		raw, err := os.ReadFile(a.Module)
		if err != nil {
			return nil, 0, err
		}
		p, err := s.e.LoadUnsigned(raw)
		if err != nil {
			return nil, 0, err
		}
		said, err := p.Describe(context.Background())
		if err != nil {
			return nil, 0, err
		}
		if b, err = wasm.SetCustom(raw, abi.ManifestSection, said); err != nil {
			return nil, 0, err
		}
		s.files[a.Module] = b
	}
	m, err := Read(b)
	if err != nil {
		return nil, 0, err
	}
	k := slices.IndexFunc(m.Manifest.Tools, func(t abi.ToolSpec) bool { return t.Name == a.Tool })
	if k < 0 {
		return nil, 0, fmt.Errorf("no tool %q", a.Tool)
	}
	return b, k, nil
}

func (s *benchServer) guest(a benchAsk) (*Guest, error) {
	b, k, err := s.module(a)
	if err != nil {
		return nil, err
	}
	p, err := s.e.Load(b)
	if err != nil {
		return nil, err
	}
	return p.Tools(emptyWorld(), Lent{})[k], nil
}

// benchConfig answers what the guests of the benchmark ask for.
func benchConfig(input json.RawMessage, adm tool.Admission) tool.Config {
	return tool.Config{
		Input: input, Admission: adm,
		Yield: func(abi.Yield, func() func()) error { return nil },
		Invoke: func(_ context.Context, _ string, r tool.Request) (tool.Answer, error) {
			return tool.Answer{Head: r.Head, Body: r.Body}, nil
		},
	}
}

// ours is a whole call: a place among the running guests, a deadline, an isolated
// instance, the checked result.
func (s *benchServer) ours(a benchAsk) (func(json.RawMessage, int) error, error) {
	g, err := s.guest(a)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	_ = cancel // the process ends before
	return func(input json.RawMessage, n int) error {
		for range n {
			adm, err := g.Admit(ctx)
			if err != nil {
				return err
			}
			r, err := g.Execute(ctx, tool.NewCall(benchConfig(input, adm)))
			adm.Release()
			if err != nil {
				return err
			}
			if r.IsError() {
				return r.Error
			}
		}
		return nil
	}, nil
}

// metered is raw with the rewritten module: what it costs to be stoppable and
// nothing else.
func (s *benchServer) metered(a benchAsk) (func(json.RawMessage, int) error, error) {
	b, err := s.bare(a, false, true)
	if err != nil {
		return nil, err
	}
	return b.reused()
}

// bare is a module on the runtime alone, with host functions that check nothing.
type bare struct {
	rt    wazero.Runtime
	code  wazero.CompiledModule
	index int
	// rewritten is set if the module was.
	rewritten *wasm.Module
}

type bareCall struct{ input, out []byte }

type bareKey struct{}

func (s *benchServer) bare(a benchAsk, closes, rewritten bool) (*bare, error) {
	b, k, err := s.module(a)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(closes))
	wasi_snapshot_preview1.MustInstantiate(ctx, rt)
	build := rt.NewHostModuleBuilder(abi.ImportModule)
	for name, sig := range abi.Imports() {
		build = build.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
			c := ctx.Value(bareKey{}).(*bareCall)
			switch name {
			case abi.FuncTake:
				dst, _ := m.Memory().Read(uint32(stack[1]), uint32(stack[2]))
				n := copy(dst, c.input)
				c.input = c.input[n:]
				stack[0] = uint64(n)
			case abi.FuncRet:
				src, _ := m.Memory().Read(uint32(stack[1]), uint32(stack[2]))
				c.out = bytes.Clone(src)
			default:
				stack[0] = 0
			}
		}), valueTypes(sig.Params), valueTypes(sig.Results)).Export(name)
	}
	if _, err := build.Instantiate(ctx); err != nil {
		return nil, err
	}
	out := &bare{rt: rt, index: k}
	if rewritten {
		if out.rewritten, err = wasm.Rewrite(b, rewriting()); err != nil {
			return nil, err
		}
		b = out.rewritten.Bytes
		if err := bareMeter(ctx, rt); err != nil {
			return nil, err
		}
	}
	out.code, err = rt.CompileModule(ctx, b)
	return out, err
}

// bareMeter gives a rewritten module all the fuel it asks for, after a look at the
// clock.
func bareMeter(ctx context.Context, rt wazero.Runtime) error {
	end := time.Now().Add(time.Hour)
	_, err := rt.NewHostModuleBuilder(wasm.MeterModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, _ []uint64) {
			if time.Now().After(end) {
				panic("too late")
			}
			g := m.ExportedGlobal(wasm.FuelExport).(api.MutableGlobal)
			g.Set(g.Get() + slice)
		}), nil, nil).Export(wasm.RefillName).Instantiate(ctx)
	return err
}

// reused is one instance that all calls use.
func (b *bare) reused() (func(json.RawMessage, int) error, error) {
	c := &bareCall{}
	ctx := context.WithValue(context.Background(), bareKey{}, c)
	m, err := b.rt.InstantiateModule(ctx, b.code, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, err
	}
	names := []string{abi.ExportInitialize}
	if b.rewritten != nil {
		names = []string{wasm.StartExport, abi.ExportInitialize}
		mem, _ := m.Memory().Read(0, m.Memory().Size())
		if err := b.rewritten.WriteImage(mem); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if f := m.ExportedFunction(name); f != nil {
			if _, err := f.Call(ctx); err != nil {
				return nil, err
			}
		}
	}
	f := m.ExportedFunction(abi.ExportExecute)
	return func(input json.RawMessage, n int) error {
		for range n {
			c.input = input
			stack := [2]uint64{uint64(b.index), uint64(len(input))}
			if err := f.CallWithStack(ctx, stack[:]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// raw is one bare instance that all calls use: not isolated, not stoppable.
func (s *benchServer) raw(a benchAsk) (func(json.RawMessage, int) error, error) {
	b, err := s.bare(a, false, false)
	if err != nil {
		return nil, err
	}
	return b.reused()
}

// fresh is a bare instance for each call; closes is how the runtime's documentation
// says to make it stoppable.
func (s *benchServer) fresh(a benchAsk, closes bool) (func(json.RawMessage, int) error, error) {
	b, err := s.bare(a, closes, false)
	if err != nil {
		return nil, err
	}
	mc := wazero.NewModuleConfig().WithName("").WithStartFunctions(abi.ExportInitialize)
	return func(input json.RawMessage, n int) error {
		for range n {
			ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), bareKey{}, &bareCall{input: input}), time.Hour)
			m, err := b.rt.InstantiateModule(ctx, b.code, mc)
			if err == nil {
				_, err = m.ExportedFunction(abi.ExportExecute).Call(ctx, uint64(b.index), uint64(len(input)))
				err = errors.Join(err, m.Close(ctx))
			}
			cancel()
			if err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// memory is the resident memory of n idle instances that each answered a call, in
// bytes.
func (s *benchServer) memory(a benchAsk) (float64, error) {
	g, err := s.guest(a)
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	call := func(n int) error { // all at once, so that each has an instance of its own
		p := g.pool(g.plugin.compiled.Load())
		var held []*instance
		for range n {
			i, err := p.get(ctx, nil)
			if err != nil {
				return err
			}
			i.hold(ctx, nil)
			if !p.is(snapshot) {
				if err := i.initialize(); err != nil {
					return err
				}
			}
			i.begin(tool.NewCall(benchConfig(a.Input, nil)), g.spec)
			i.stack = [2]uint64{uint64(g.index), uint64(len(a.Input))}
			if err := i.execute.CallWithStack(&i.guestContext, i.stack[:]); err != nil {
				return err
			}
			i.end()
			held = append(held, i)
		}
		for _, i := range held {
			p.put(i)
		}
		return nil
	}
	if err := g.Warm(ctx); err != nil {
		return 0, err
	}
	if err := call(1); err != nil {
		return 0, err
	}
	before := settled()
	if err := call(a.N + 1); err != nil {
		return 0, err
	}
	return settled() - before, nil
}

// settled is the process's own resident memory after garbage is returned.
func settled() float64 {
	for range 3 {
		runtime.GC()
	}
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return math.NaN()
	}
	for line := range strings.Lines(string(b)) {
		if rest, found := strings.CutPrefix(line, "RssAnon:"); found {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err == nil {
				return float64(n << 10)
			}
		}
	}
	return math.NaN()
}

// overrun is the 99th percentile of how long guests that never end outlive their
// deadlines of 5 ms, while the collector of the host runs, in nanoseconds.
func (s *benchServer) overrun(a benchAsk) (float64, error) {
	g, err := s.guest(a)
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	if err := g.Warm(ctx); err != nil {
		return 0, err
	}
	stopped := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stopped:
				return
			default:
				runtime.GC()
			}
		}
	})
	defer wg.Wait()
	defer close(stopped)
	const limit = 5 * time.Millisecond
	over := make([]float64, a.N)
	for k := range over {
		adm, err := g.Admit(ctx)
		if err != nil {
			return 0, err
		}
		timed, cancel := context.WithTimeout(ctx, limit)
		from := time.Now()
		_, err = g.Execute(timed, tool.NewCall(benchConfig(a.Input, adm)))
		over[k] = float64(time.Since(from) - limit)
		cancel()
		adm.Release()
		if !errors.Is(err, tool.ErrPreempted) {
			return 0, fmt.Errorf("the guest was not stopped: %w", err)
		}
	}
	slices.Sort(over)
	return over[len(over)*99/100], nil
}
