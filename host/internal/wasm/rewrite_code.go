package wasm

import "slices"

// rewriter holds the state of one Rewrite.
type rewriter struct {
	*module
	opt      Options
	out      *Module
	keepData bool

	// types are the encoded function types, of the input and added ones.
	types [][]byte
	// refill is the index of the added import and the first index that moves;
	// fuel and depth are the added globals.
	refill, fuel, depth uint32
	// counted says which functions keep the call depth, sites that indirect calls
	// do, and cyclic which functions are on a circle of calls.
	counted, cyclic []bool
	sites           bool

	// State of the function at hand.
	walk   walker
	points []point
	edits  []edit
	text   []byte // what edits insert
	loops  []int  // points of the open loops
	opened []byte // opcodes of the open blocks
	cur    int    // the point that pays for the next instruction
	blocks bool   // charge each basic block for itself
	bulk   bool   // a local for lengths is needed
}

// point is a place that charges fuel.
type point struct {
	cost int64
	kind pointKind
}

type pointKind byte

const (
	pointNone   pointKind = iota // nothing to do: someone else pays
	pointCharge                  // charge, the next check is near
	pointCheck                   // charge and check
	pointOuter                   // check only: the outer of two loops
	pointInner                   // leave for the outer loop when the fuel is used up, else charge
)

// edit replaces a range of the body, or inserts when it is empty.
type edit struct {
	at    span
	text  span // in rewriter.text
	point int  // index of the point that is placed here, or -1
}

const (
	// checkCost is what a check itself costs, so that empty loops have a price.
	checkCost = 3
	// freeEntry is the most that may be paid at the next loop header instead of
	// at the entry.
	freeEntry = 8
	// frameFuel is the least that one unit of depth costs: a call has a weight of
	// five, and somewhere on each circle of calls is a check.
	frameFuel = 8
	// maxStretch is the most that one point may pay for. Beyond it each basic
	// block pays for itself, so that no more than this runs between two checks.
	maxStretch = 1 << 16
)

// code rewrites all bodies and returns the content of the code section.
func (w *rewriter) code() []byte {
	o := make([]byte, 0, len(w.b)+len(w.b)/8)
	o = appendU32(o, uint32(len(w.bodies)))
	var body []byte
	for i := range w.bodies {
		w.plan(i, false)
		for k := range w.points {
			if w.points[k].cost > maxStretch {
				w.plan(i, true)
				break
			}
		}
		body = w.function(i, body[:0])
		o = append(appendU32(o, uint32(len(body))), body...)
	}
	return o
}

// plan walks one body and decides where it pays, and what else changes in it.
func (w *rewriter) plan(i int, blocks bool) {
	r := newReader(w.b, w.bodies[i].start, w.bodies[i].end, "code")
	r.fn = w.importedFuncs + i
	w.walk.start(w.module, r)
	w.points = append(w.points[:0], point{kind: pointCheck})
	w.edits, w.text = w.edits[:0], w.text[:0]
	w.loops, w.opened = append(w.loops[:0], 0), append(w.opened[:0], opBlock)
	w.cur, w.blocks, w.bulk = 0, blocks, false
	straight := true // nothing but straight code since the entry
	doubled := false // the last loop was the outer one of two
	for w.walk.step() {
		in := &w.walk.in
		w.pay(in)
		w.change(i, in)
		switch in.op {
		case opLoop:
			if straight {
				w.points[0].kind = pointNone
			}
			straight = false
			kind := pointCheck
			if w.doubled[in.pos] {
				kind = pointOuter
			} else if doubled {
				kind = pointInner
			}
			doubled = w.doubled[in.pos]
			w.loops = append(w.loops, w.place(in.end, kind))
		case opIf, opBr, opBrIf, opBrTable, opReturn, opUnreachable, opCall, opCallIndirect:
			straight = false
		}
		w.structure(in)
	}
	w.entry(i)
}

// pay charges the current point for one instruction.
func (w *rewriter) pay(in *instr) {
	cost := weight(in)
	if in.op == opCall && int(in.x) >= w.importedFuncs {
		cost += max(0, w.graph.facts[int(in.x)-w.importedFuncs].light)
	}
	if w.blocks && w.points[w.cur].cost+cost > maxStretch {
		w.place(in.pos, pointCheck)
	}
	w.points[w.cur].cost += cost
}

// place puts a new point at pos and makes it the current one.
func (w *rewriter) place(pos int, kind pointKind) int {
	w.cur = len(w.points)
	w.points = append(w.points, point{kind: kind})
	w.edits = append(w.edits, edit{at: span{pos, pos}, point: w.cur})
	return w.cur
}

// structure follows blocks. Without blocks the innermost loop, or the entry,
// pays for everything in it; with blocks each basic block has its own point.
func (w *rewriter) structure(in *instr) {
	switch in.op {
	case opBlock, opLoop, opIf:
		w.opened = append(w.opened, in.op)
	case opEnd:
		op := w.opened[len(w.opened)-1]
		w.opened = w.opened[:len(w.opened)-1]
		if op == opLoop {
			w.loops = w.loops[:len(w.loops)-1]
			w.cur = w.loops[len(w.loops)-1]
		}
	}
	if !w.blocks || len(w.opened) == 0 {
		return
	}
	switch in.op {
	case opIf, opElse, opEnd, opBr, opBrIf, opBrTable, opReturn, opUnreachable:
		w.place(in.end, pointCheck)
	}
}

// entry decides what the first point, at the function's entry, has to do. Large
// frames pay fuel too, so that a slice of it bounds how much deeper a guest
// gets before refill looks at the depth.
func (w *rewriter) entry(i int) {
	first, frame := &w.points[0], int64(0)
	if w.cyclic[i] {
		frame = frameFuel * (w.graph.facts[i].frame - 1)
	}
	switch {
	case w.graph.facts[i].light >= 0:
		first.kind, first.cost = pointNone, 0
	case first.kind == pointCheck:
		first.cost += frame
	case first.cost <= freeEntry:
		w.points[1].cost += first.cost + frame
		first.cost = 0
	default:
		first.kind = pointCharge
		first.cost += frame
	}
}

// change notes what becomes of one instruction besides the charge.
func (w *rewriter) change(i int, in *instr) {
	from := len(w.text)
	replaces := true
	switch {
	case in.op == opCall || in.op == opRefFunc:
		if in.x < w.refill && !in.loose {
			return
		}
		w.text = appendU32(append(w.text, in.op), w.moved(in.x))
	case in.op == opReturn && w.counted[i]:
		w.text = appendU32(append(w.text, opBr), uint32(len(w.opened)-1))
	case in.op == opCallIndirect && w.sites:
		w.text = w.site(w.text, in)
	case bulky(in):
		w.bulk = true
		w.text = w.bulkCharge(w.text, in, uint32(w.walk.locals))
		replaces = in.loose
		if in.loose {
			w.text = w.canonical(w.text, in)
		}
	case in.loose:
		w.text = w.canonical(w.text, in)
	default:
		return
	}
	at := span{in.pos, in.pos}
	if replaces {
		at.end = in.end
	}
	w.edits = append(w.edits, edit{at: at, text: span{from, len(w.text)}, point: -1})
}

// bulky says whether the operation takes time in proportion to the i32 on top
// of the stack.
func bulky(in *instr) bool {
	if in.op != opMisc {
		return false
	}
	switch in.sub {
	case miscMemoryInit, miscMemoryCopy, miscMemoryFill, miscTableInit, miscTableCopy, miscTableGrow, miscTableFill:
		return true
	}
	return false
}

// moved is the new index of a function.
func (w *rewriter) moved(index uint32) uint32 {
	if index >= w.refill {
		return index + 1
	}
	return index
}

// canonical writes an instruction with its numbers as short as can be.
func (w *rewriter) canonical(o []byte, in *instr) []byte {
	o = append(o, in.op)
	switch op := in.op; {
	case op == opI32Const || op == opI64Const:
		return appendS64(o, in.v)
	case op == opBlock || op == opLoop || op == opIf:
		return appendS64(o, int64(in.x))
	case op == opBrTable:
		o = appendU32(o, uint32(len(in.targets)-1))
		for _, t := range in.targets {
			o = appendU32(o, t)
		}
		return o
	case op == opCallIndirect, op >= opFirstMem && op <= opLastMem:
		return appendU32(appendU32(o, in.x), in.y)
	case op == opMisc:
		return canonicalMisc(appendU32(o, in.sub), in)
	case op == opVec: // a load or store, perhaps with a lane
		o = appendU32(appendU32(appendU32(o, in.sub), in.x), in.y)
		if in.sub >= 0x54 && in.sub <= 0x5b {
			o = append(o, w.b[in.end-1])
		}
		return o
	}
	return appendU32(o, in.x)
}

func canonicalMisc(o []byte, in *instr) []byte {
	switch in.sub {
	case miscMemoryInit:
		return append(appendU32(o, in.x), 0)
	case miscMemoryCopy:
		return append(o, 0, 0)
	case miscMemoryFill:
		return append(o, 0)
	case miscTableInit, miscTableCopy:
		return appendU32(appendU32(o, in.x), in.y)
	}
	if in.sub < miscMemoryInit {
		return o
	}
	return appendU32(o, in.x)
}

// function writes one body from its plan.
func (w *rewriter) function(i int, o []byte) []byte {
	at := w.bodies[i]
	o = w.locals(i, o)
	o = w.emitEntry(i, o)
	last := w.walk.code
	for _, e := range w.edits {
		o = append(o, w.b[last:e.at.start]...)
		last = e.at.end
		if e.point >= 0 {
			o = w.emitPoint(o, &w.points[e.point])
			continue
		}
		o = append(o, e.text.of(w.text)...)
	}
	o = append(o, w.b[last:at.end]...)
	if w.counted[i] {
		o = w.emitExit(o)
	}
	return o
}

// locals writes the declarations of locals, and adds one for lengths and one
// for the depth where they are needed.
func (w *rewriter) locals(i int, o []byte) []byte {
	r := newReader(w.b, w.bodies[i].start, w.walk.code, "code")
	groups := r.u32()
	added := uint32(0)
	if w.bulk {
		added++
	}
	if w.counted[i] {
		added++
	}
	o = appendU32(o, groups+added)
	for range groups {
		o = appendU32(o, r.u32())
		o = append(o, r.byte())
	}
	if w.bulk {
		o = append(o, 1, byte(I32))
	}
	if w.counted[i] {
		o = append(o, 1, byte(I64))
	}
	return o
}

// depthLocal is the local that remembers the depth; it is the last.
func (w *rewriter) depthLocal() uint32 {
	if w.bulk {
		return uint32(w.walk.locals) + 1
	}
	return uint32(w.walk.locals)
}

// resultBlock returns the block type with the results of function i.
func (w *rewriter) resultBlock(o []byte, i int) []byte {
	results := w.info.Types[w.funcs[w.importedFuncs+i]].Results
	switch len(results) {
	case 0:
		return append(o, typeVoid)
	case 1:
		return append(o, byte(results[0]))
	}
	return appendS64(o, int64(w.typeOf(FuncType{Results: results})))
}

// typeOf returns the index of a function type, which it adds when it is new.
func (w *rewriter) typeOf(t FuncType) int {
	enc := encodeType(t)
	k := slices.IndexFunc(w.types, func(x []byte) bool { return string(x) == string(enc) })
	if k < 0 {
		k = len(w.types)
		w.types = append(w.types, enc)
	}
	return k
}
