package wasmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
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

// The specification's test suite, as wazero ships it in its module: scripts in
// JSON beside the modules they use. Every script runs twice, with the modules as
// they are and rewritten, and each step must come out the same.

// command is one step of a script.
type command struct {
	Type     string
	Line     int
	Name     string
	Filename string
	As       string
	Action   struct {
		Type, Module, Field string
		Args                []value
	}
	ModuleType string `json:"module_type"`
}

// value is an argument. Value is a string, or strings for a vector.
type value struct {
	Type     string
	LaneType string `json:"lane_type"`
	Value    any
}

func (v value) words() []uint64 {
	if v.Type != "v128" {
		s, _ := v.Value.(string)
		n := number(s)
		if v.Type == "externref" && s != "null" {
			n++ // wazero takes 0 for null
		}
		return []uint64{n}
	}
	lanes, _ := v.Value.([]any)
	width := 128 / len(lanes)
	var words [2]uint64
	for i, lane := range lanes {
		s, _ := lane.(string)
		bit := i * width
		words[bit/64] |= number(s) << (bit % 64)
	}
	return words[:]
}

func number(s string) uint64 {
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return n
	}
	n, _ := strconv.ParseInt(s, 10, 64)
	return uint64(n)
}

// side is one of the two runs of a script.
type side struct {
	rt    wazero.Runtime
	opt   *wasm.Options // nil runs modules as they are
	named map[string]api.Module
	last  api.Module
	all   []api.Module
}

func newSide(t *testing.T, dir string, opt *wasm.Options) *side {
	t.Helper()
	s := &side{rt: newRuntime(t, &meter{slice: 50, budget: -1}), opt: opt, named: map[string]api.Module{}}
	host, err := os.ReadFile(filepath.Join(dir, "testdata", "spectest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.rt.InstantiateWithConfig(context.Background(), host, wazero.NewModuleConfig().WithName("spectest")); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *side) load(b []byte, name string) (api.Module, error) {
	ctx := context.Background()
	if s.opt == nil {
		return s.rt.InstantiateWithConfig(ctx, b, wazero.NewModuleConfig().WithName(name).WithStartFunctions())
	}
	m, err := rewrite(b, *s.opt)
	if err != nil {
		return nil, err
	}
	return instantiate(ctx, s.rt, m, name)
}

// outcome is what a step showed.
type outcome struct {
	err   error
	words []uint64
	types []api.ValueType
}

func (s *side) step(dir string, c *command, registerAs string) outcome {
	switch c.Type {
	case "module", "assert_uninstantiable", "assert_unlinkable", "assert_invalid", "assert_malformed":
		b, err := os.ReadFile(filepath.Join(dir, c.Filename))
		if err != nil {
			return outcome{err: err}
		}
		m, err := s.load(b, registerAs)
		if c.Type == "module" {
			s.last = m
			s.all = append(s.all, m)
			s.named[c.Name] = m
		}
		return outcome{err: err}
	case "assert_return", "action", "assert_trap", "assert_exhaustion":
		return s.act(c)
	}
	return outcome{err: fmt.Errorf("unknown command %q", c.Type)}
}

func (s *side) act(c *command) outcome {
	m := s.last
	if c.Action.Module != "" {
		m = s.named[c.Action.Module]
	}
	if m == nil {
		return outcome{err: fmt.Errorf("no module")}
	}
	if c.Action.Type == "get" {
		g := m.ExportedGlobal(c.Action.Field)
		return outcome{words: []uint64{g.Get()}, types: []api.ValueType{g.Type()}}
	}
	var args []uint64
	for _, a := range c.Action.Args {
		args = append(args, a.words()...)
	}
	f := m.ExportedFunction(c.Action.Field)
	words, err := f.Call(context.Background(), args...)
	if err != nil && s.opt != nil {
		// A trap leaves the depth where it was. A host drops the instance; the
		// script goes on, so put it back.
		for _, m := range s.all {
			if g, ok := m.ExportedGlobal(wasm.DepthExport).(api.MutableGlobal); ok {
				g.Set(uint64(s.opt.Depth))
			}
		}
	}
	return outcome{err: err, words: words, types: f.Definition().ResultTypes()}
}

const vector api.ValueType = 0x7b

// same compares two outcomes. Not-a-number has many forms, and a reference to a
// function is an address.
func same(a, b outcome) bool {
	if (a.err == nil) != (b.err == nil) || len(a.words) != len(b.words) || len(a.types) != len(b.types) {
		return false
	}
	k := 0
	for _, t := range a.types {
		if k >= len(a.words) {
			return a.err != nil
		}
		x, y := a.words[k], b.words[k]
		k++
		ok := x == y
		switch t {
		case api.ValueTypeF32:
			ok = ok || isNaN32(uint32(x)) && isNaN32(uint32(y))
		case api.ValueTypeF64:
			ok = ok || math.IsNaN(math.Float64frombits(x)) && math.IsNaN(math.Float64frombits(y))
		case vector:
			ok = sameHalf(x, y) && sameHalf(a.words[k], b.words[k])
			k++
		case api.ValueTypeI32, api.ValueTypeI64, api.ValueTypeExternref:
		default:
			ok = (x == 0) == (y == 0)
		}
		if !ok {
			return false
		}
	}
	return true
}

func isNaN32(x uint32) bool { return x&0x7f800000 == 0x7f800000 && x&0x7fffff != 0 }

// sameHalf compares half a vector, of lanes of unknown type.
func sameHalf(x, y uint64) bool {
	if x == y || math.IsNaN(math.Float64frombits(x)) && math.IsNaN(math.Float64frombits(y)) {
		return true
	}
	lane := func(a, b uint32) bool { return a == b || isNaN32(a) && isNaN32(b) }
	return lane(uint32(x), uint32(y)) && lane(uint32(x>>32), uint32(y>>32))
}

// wazeroDir is wazero's folder in the module cache, or a skip.
func wazeroDir(tb testing.TB) string {
	tb.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		tb.Skip("no source of wazero here:", err)
	}
	return dir
}

func TestSpecificationSuite(t *testing.T) {
	suite := filepath.Join(wazeroDir(t), "internal", "integration_test", "spectest")
	opt := &wasm.Options{MemoryPages: 65_536, TableEntries: 1 << 27, Depth: 20_000, Limits: wasm.Limits{MemoryPages: 65_536}}
	total := 0
	for _, version := range []string{"v1", "v2"} {
		dir := filepath.Join(suite, version, "testdata")
		scripts, _ := filepath.Glob(filepath.Join(dir, "*.json"))
		if len(scripts) == 0 {
			t.Skip("the suite is not in the module cache")
		}
		for i, script := range scripts {
			if raceEnabled && i%10 != 0 {
				continue // nothing here runs at once; a tenth is enough
			}
			name := version + "/" + strings.TrimSuffix(filepath.Base(script), ".json")
			t.Run(name, func(t *testing.T) { total += runScript(t, suite, script, opt) })
		}
	}
	t.Logf("%d steps", total)
}

func runScript(t *testing.T, suite, script string, opt *wasm.Options) (steps int) {
	raw, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Commands []command }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	plain, changed := newSide(t, suite, nil), newSide(t, suite, opt)
	dir := filepath.Dir(script)
	for i := range file.Commands {
		c := &file.Commands[i]
		if c.ModuleType == "text" || c.Type == "register" {
			continue
		}
		as := ""
		if i+1 < len(file.Commands) && file.Commands[i+1].Type == "register" {
			as = file.Commands[i+1].As
		}
		steps++
		a, b := plain.step(dir, c, as), changed.step(dir, c, as)
		if !same(a, b) {
			t.Errorf("line %d %s %s: as it is %v %v, rewritten %v %v", c.Line, c.Type, c.Action.Field, a.words, firstLine(a.err), b.words, firstLine(b.err))
		}
		if c.Type == "assert_trap" && firstLine(a.err) != firstLine(b.err) {
			t.Errorf("line %d: traps with %q and %q", c.Line, firstLine(a.err), firstLine(b.err))
		}
	}
	compareMemories(t, plain, changed)
	return steps
}

// compareMemories: what the modules left behind is the same.
func compareMemories(t *testing.T, plain, changed *side) {
	t.Helper()
	for i, m := range plain.all {
		if m == nil || changed.all[i] == nil {
			continue
		}
		for name := range m.ExportedMemoryDefinitions() {
			x, y := m.ExportedMemory(name), changed.all[i].ExportedMemory(name)
			a, _ := x.Read(0, x.Size())
			b, _ := y.Read(0, y.Size())
			if string(a) != string(b) {
				t.Errorf("module %d leaves another memory", i)
			}
		}
	}
}
