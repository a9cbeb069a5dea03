package wasm

import (
	"bytes"
	"math"
	"slices"
)

// Verify checks that out looks like a module made by [Rewrite] with opt: it
// shares the reader with Rewrite, and nothing else. It checks that
//
//   - every loop begins with a charge and check of the fuel counter, every
//     function does too unless it ends soon or falls straight into such a loop,
//     and every operation of unbounded length comes after one;
//   - the guest's own code names neither counter;
//   - functions that do not keep the depth cannot call each other in a circle, and
//     those that do put it back on every way out;
//   - nothing runs and nothing is written at instantiation, the maxima are at
//     most those of opt, and the reserved names are all there.
//
// An error is a defect of the rewriter, not of a guest.
func Verify(out []byte, opt Options) error {
	opt = opt.withDefaults()
	m := newModule(out, unlimited(len(out)))
	if err := m.parse(); err != nil {
		return err
	}
	v := &verifier{module: m, opt: opt}
	if err := v.outside(); err != nil {
		return err
	}
	for i := range m.bodies {
		v.body(i)
		if v.err != nil {
			return v.err
		}
	}
	if err := v.lightEnough(); err != nil {
		return err
	}
	return v.noCircle()
}

// unlimited are limits that a rewritten module, which has grown, can meet.
func unlimited(size int) Limits {
	const n = math.MaxInt32
	return Limits{
		Size: size, Types: n, Functions: n, Imports: n, Exports: n, Globals: n, Tables: n, TableSize: n,
		MemoryPages: n, Elements: n, ElementItems: n, Data: n, Params: n, Results: n, Locals: n, TotalLocals: math.MaxInt,
		Body: n, Nesting: n, BranchTargets: n, Customs: n, NameBytes: n,
	}
}

type verifier struct {
	*module
	opt                 Options
	fuel, depth, refill uint32
	err                 error
	// getFuel, setFuel and testFuel are the encoded parts of checks.
	getFuel, setFuel, testFuel []byte
	// calls are all direct calls, as caller and callee; indirect are the
	// functions that call through a table; taken those named by ref.func.
	calls    [][2]int
	indirect []int
	taken    []uint32
	// counted says which functions keep the depth; light is the cost of those that
	// have no check of their own, and -1 for the others.
	counted []bool
	light   []int64
}

func (v *verifier) fail(at int, format string, args ...any) {
	if v.err == nil {
		v.err = refuse(Malformed, at, "verify: "+format, args...)
	}
}

// outside checks everything but the code.
func (v *verifier) outside() error {
	fuel, okF := v.info.Export(FuelExport)
	depth, okD := v.info.Export(DepthExport)
	v.fuel, v.depth = fuel.Index, depth.Index
	v.refill = uint32(v.importedFuncs - 1)
	v.getFuel = appendU32([]byte{opGlobalGet}, v.fuel)
	v.setFuel = appendU32([]byte{0x7d, opGlobalSet}, v.fuel)
	v.testFuel = append(slices.Clone(v.getFuel), opI64Const, 0, 0x53, opIf, typeVoid, opCall)
	v.testFuel = append(appendU32(v.testFuel, v.refill), opEnd)
	counter := GlobalType{Type: I64, Mutable: true}
	imports := v.info.Imports
	switch n := len(v.info.Globals); {
	case !okF || !okD || int(v.fuel) != n-2 || int(v.depth) != n-1 || v.info.Globals[v.fuel] != counter || v.info.Globals[v.depth] != counter:
		v.fail(0, "the counters are not exported")
	case len(imports) == 0 || imports[len(imports)-1].Module != MeterModule || imports[len(imports)-1].Name != RefillName:
		v.fail(0, "refill is not the last import")
	case len(imports[len(imports)-1].Type.Params)+len(imports[len(imports)-1].Type.Results) > 0:
		v.fail(0, "refill has a wrong type")
	case v.info.HasStart:
		v.fail(0, "there is a start function")
	}
	if t := v.info.Memory; t != nil && !v.info.ImportedMemory && (!t.HasMax || int(t.Max) > v.opt.MemoryPages) {
		v.fail(0, "the memory may grow to %d pages", t.Max)
	}
	for _, t := range v.info.Tables[v.importedTables:] {
		if !t.HasMax || int(t.Max) > max(v.opt.TableEntries, int(t.Min)) {
			v.fail(0, "a table may grow to %d entries", t.Max)
		}
	}
	placedByHost := v.info.ImportedMemory || slices.ContainsFunc(v.data, func(d datum) bool {
		return d.offset.op == opGlobalGet
	})
	for _, d := range v.data {
		if !d.passive && !placedByHost && d.bytes.start != d.bytes.end {
			v.fail(d.bytes.start, "there is active data")
		}
	}
	for i := v.importedGlobals; i < len(v.info.Globals); i++ {
		if g := v.info.Globals[i]; g.Mutable && g.Type.numeric() && !v.exportsReserved(uint32(i)) {
			v.fail(0, "mutable global %d is not exported", i)
		}
	}
	return v.err
}

func (v *verifier) exportsReserved(index uint32) bool {
	return slices.ContainsFunc(v.info.Exports, func(e Export) bool {
		return e.Kind == Global && e.Index == index && len(e.Name) > len(ReservedPrefix) && e.Name[:len(ReservedPrefix)] == ReservedPrefix
	})
}

// sequence consumes the given instructions at pos and returns where they end,
// or -1. A nil stands for one number.
func (v *verifier) sequence(pos, end int, want ...[]byte) int {
	for _, w := range want {
		if w == nil {
			r := newReader(v.b, pos, end, "code")
			if r.signed(64); r.err != nil {
				return -1
			}
			pos = r.pos
			continue
		}
		if pos+len(w) > end || !bytes.Equal(v.b[pos:pos+len(w)], w) {
			return -1
		}
		pos += len(w)
	}
	return pos
}

// charge is `fuel -= number` at pos; the end, or -1.
func (v *verifier) charge(pos, end int) int {
	p := v.sequence(pos, end, v.getFuel)
	if p < 0 || p >= end || v.b[p] != opI64Const {
		return -1
	}
	return v.sequence(p+1, end, nil, v.setFuel)
}

// test is `if fuel < 0 { refill() }` at pos; the end, or -1.
func (v *verifier) test(pos, end int) int { return v.sequence(pos, end, v.testFuel) }

// paid is a charge and a test at pos; the end, or -1.
func (v *verifier) paid(pos, end int) int {
	if p := v.charge(pos, end); p >= 0 {
		return v.test(p, end)
	}
	return -1
}

// head is what stands before a body.
type head struct {
	end     int // where the guest's code begins
	checked bool
	// counted says that the depth is taken. Then end is at the wrapping block,
	// and local remembers the depth.
	counted bool
	local   uint32
}

// head recognises the entry of a function with that many locals.
func (v *verifier) head(pos, end, locals int) head {
	h := head{end: pos, local: uint32(locals - 1)}
	if p := v.paid(pos, end); p >= 0 {
		h.end, h.checked = p, true
	} else if p := v.charge(pos, end); p >= 0 {
		h.end = p
	}
	get := append(appendU32([]byte{opGlobalGet}, v.depth), opLocalTee)
	get = append(appendU32(get, h.local), opI64Const)
	number := v.sequence(h.end, end, get)
	p := v.sequence(h.end, end, get, nil, appendU32([]byte{0x7d, opGlobalSet}, v.depth))
	if p < 0 {
		return h
	}
	if r := newReader(v.b, number, end, "code"); r.signed(64) < 1 || p >= end || v.b[p] != opBlock {
		v.fail(pos, "the depth is taken in a wrong way")
	}
	h.counted, h.end = true, p
	return h
}
