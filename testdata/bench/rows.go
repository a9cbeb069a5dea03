package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/bladehost/bladehost/testdata/bench/work"
)

// guest is a module of the benchmark.
type guest struct {
	name, file, tool string
	// input makes its input of what the others get.
	input func([]byte) []byte
	// fresher and booked are how many times faster ours must be than a new
	// instance for each call that can be stopped.
	booked float64
}

func (b *bench) guests() []guest {
	wasm := func(name string) string { return filepath.Join("testdata", "wasm", name) }
	same := func(in []byte) []byte { return in }
	value := func(in []byte) []byte { return bytes.Join([][]byte{[]byte(`{"value":`), in, []byte(`}`)}, nil) }
	return []guest{
		{"C (finds and copies)", wasm("tool.wasm"), "Greet", same, 10},
		{"AssemblyScript (echoes)", wasm("echo-as.wasm"), "Echo", same, 0},
		{"Rust (reads and writes JSON)", wasm("json-rust.wasm"), "Rewrite", value, 20},
		{"Go (encoding/json)", b.path("go.wasm"), "Greet", same, 30},
	}
}

var sizes = []struct {
	name string
	n    int
}{{"1 KiB", 1 << 10}, {"64 KiB", 64 << 10}, {"1 MiB", 1 << 20}}

func (g guest) ask(kind string, size int) ask {
	return ask{Row: kind, Module: g.file, Tool: g.tool, Input: json.RawMessage(g.input(work.Input(size)))}
}

// calls compares an isolated call with what it stands on and with the other ways of
// isolating one.
func (b *bench) calls() error {
	for _, g := range b.guests() {
		for _, size := range sizes {
			name := g.name + ", " + size.name
			if !b.wants(name) {
				continue
			}
			in := func(kind string) side { return b.engine.side(g.ask(kind, size.n)) }
			s, err := b.compare(in("ours"), in("raw"), in("fresh"), in("book"))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			ours, raw, fresh, book := s[0], s[1], s[2], s[3]
			isGo := g.booked == 30
			switch {
			case size.n > 1<<10:
				b.add(name+": over raw, reused", ours, raw, goal{1.4, false, ""}, over)
			case isGo:
				b.add(name+": over raw, reused", ours, raw, goal{1.25, false, ""}, over)
			default:
				b.add(name+": more than raw, reused", ours, raw, goal{5000, false, "ns"}, plus)
			}
			b.add(name+": faster than a fresh instance", ours, fresh, goal{0, true, ""}, under)
			want := 0.0
			if size.n == 1<<10 {
				want = g.booked
			}
			b.add(name+": faster than a fresh instance with CloseOnContextDone", ours, book, goal{want, true, ""}, under)
			if isGo && b.extism != nil {
				if err := b.againstExtism(g, size.name, size.n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) againstExtism(g guest, name string, size int) error {
	a := ask{Module: b.path(filepath.Join("extism", "plugin.wasm")), Input: work.Input(size)}
	reused, fresh := a, a
	reused.Row, fresh.Row = "extism", "extism fresh"
	s, err := b.compare(b.engine.side(g.ask("ours", size)), b.extism.side(reused), b.extism.side(fresh))
	if err != nil {
		return fmt.Errorf("extism: %w", err)
	}
	want := map[int]float64{1 << 10: 30, 64 << 10: 5, 1 << 20: 4}[size]
	b.add(g.name+", "+name+": faster than Extism, fresh with timeout", s[0], s[2], goal{want, true, ""}, under)
	b.add(g.name+", "+name+": faster than Extism, reused (neither isolated nor stoppable)", s[0], s[1], goal{1.2, true, ""}, under)
	return nil
}

// stoppable is what the checks in the machine code cost.
func (b *bench) stoppable() error {
	for _, g := range b.guests() {
		name := "stoppable: " + g.name + ", 1 KiB"
		if !b.wants(name) {
			continue
		}
		s, err := b.compare(b.engine.side(g.ask("metered", 1<<10)), b.engine.side(g.ask("raw", 1<<10)))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b.add(name+", what the checks cost", s[0], s[1], goal{1.15, false, ""}, over)
	}
	spin := ask{Module: filepath.Join("testdata", "wasm", "tool.wasm"), Tool: "Spin", Input: json.RawMessage(`{"n":10}`)}
	if name := "stoppable: the tightest loop, 10 million turns"; b.wants(name) {
		metered, raw, book := spin, spin, spin
		metered.Row, raw.Row, book.Row = "metered", "raw", "book"
		s, err := b.compare(b.engine.side(metered), b.engine.side(raw), b.engine.side(book))
		if err != nil {
			return err
		}
		b.add(name, s[0], s[1], goal{2, false, ""}, over)
		b.add("stoppable: the same with CloseOnContextDone", s[2], s[1], goal{}, over)
	}
	return b.overruns()
}

// overruns is how long guests outlive their deadlines while the collector runs.
func (b *bench) overruns() error {
	for _, c := range []struct{ name, tool, input string }{
		{"a loop", "Spin", `{"n":1000000}`}, {"calls without end", "Tree", `{}`},
	} {
		name := "overrun after a deadline, " + c.name + ", 99th percentile, the host's collector running"
		if !b.wants(name) {
			continue
		}
		var all []float64
		for range max(3, b.pairs/3) {
			ns, err := b.engine.ask(ask{Row: "overrun", Module: filepath.Join("testdata", "wasm", "tool.wasm"), Tool: c.tool, Input: json.RawMessage(c.input), N: 100})
			if err != nil {
				return err
			}
			all = append(all, ns)
		}
		b.addOne(name, all, goal{5e6, false, "ns"})
	}
	return nil
}

// hostCalls is what a yield and a service call cost, by the difference between many
// and few of them.
func (b *bench) hostCalls() error {
	for _, c := range []struct {
		name, tool string
		many       int
		goal       goal
	}{
		{"guest to host and back: a log that nobody keeps", "Log", 20_000, goal{150, false, "ns"}},
		{"a progress yield, its JSON read and checked", "Yield", 2_000, goal{0, false, "ns"}},
		{"a service call with its answer", "Call", 2_000, goal{0, false, "ns"}},
	} {
		if !b.wants(c.name) {
			continue
		}
		times := func(n int) side {
			return b.engine.side(ask{Row: "ours", Module: filepath.Join("testdata", "wasm", "tool.wasm"), Tool: c.tool, Input: fmt.Appendf(nil, `{"n":%d}`, n)})
		}
		s, err := b.compare(times(c.many), times(c.many/2))
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		each := make([]float64, len(s[0]))
		for i := range each {
			each[i] = (s[0][i] - s[1][i]) / float64(c.many-c.many/2)
		}
		b.addOne(c.name, each, c.goal)
	}
	return nil
}

// memory is what idle instances take, each after a call of 1 KiB.
func (b *bench) memory() error {
	for _, g := range b.guests() {
		for _, n := range []int{1, 100, 1000} {
			name := fmt.Sprintf("memory: %d idle instances, %s, each", n, g.name)
			if !b.wants(name) {
				continue
			}
			var all []float64
			for range max(1, b.pairs/5) {
				fresh, err := start(b.path("engine.test"), []string{"BLADEHOST_TEST_CHILD=bench"})
				if err != nil {
					return err
				}
				a := g.ask("memory", 1<<10)
				a.N = n
				total, err := fresh.ask(a)
				fresh.close()
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				all = append(all, total/float64(n))
			}
			want := goal{0, false, "bytes"}
			if g.booked == 30 {
				want.value = 400 << 10
			}
			b.addOne(name, all, want)
		}
	}
	return nil
}
