package wasm

import "slices"

// body checks one function.
func (v *verifier) body(i int) {
	at := v.bodies[i]
	var w walker
	r := newReader(v.b, at.start, at.end, "code")
	r.fn = v.importedFuncs + i
	w.start(v.module, r)
	h := v.head(w.code, at.end, w.locals)
	v.counted = append(v.counted, h.counted)
	r.pos = h.end
	guest := bodyState{v: v, fn: i, straight: true}
	for w.step() {
		in := &w.in
		if h.counted && in.pos != h.end {
			v.wayOut(&w, at.end, h)
		}
		if v.err != nil || len(w.frames) == 1 && h.counted && in.op == opEnd {
			break // what follows was checked by wayOut
		}
		if next := guest.look(in, at.end); next > 0 {
			r.pos = next
		}
	}
	if r.err != nil && v.err == nil {
		v.err = r.err
	}
	v.light = append(v.light, -1)
	if !h.checked && !guest.intoLoop {
		v.light[i] = guest.cost
		if guest.unbounded {
			v.fail(at.start, "function %d has no check at its entry", r.fn)
		}
	}
}

// wayOut checks the ways out of a function that keeps the depth: no return, no
// branch past the wrapping block, and after that block the depth is put back.
func (v *verifier) wayOut(w *walker, end int, h head) {
	in := &w.in
	outer := uint32(len(w.frames) - 1)
	out := false
	switch in.op {
	case opReturn:
		out = true
	case opBr, opBrIf:
		out = in.x >= outer
	case opBrTable:
		out = slices.Max(in.targets) >= outer
	case opLocalGet, opLocalSet, opLocalTee:
		if in.x == h.local {
			v.fail(in.pos, "a function names the local that remembers its depth")
		}
	case opEnd:
		if len(w.frames) > 1 {
			return
		}
		back := append(appendU32([]byte{opLocalGet}, h.local), opGlobalSet)
		if p := v.sequence(in.end, end, append(appendU32(back, v.depth), opEnd)); p != end {
			v.fail(in.pos, "a function does not put its depth back")
		}
	}
	if out {
		v.fail(in.pos, "a function leaves without putting its depth back")
	}
}

// bodyState follows the guest's part of one body.
type bodyState struct {
	v  *verifier
	fn int
	// straight says that nothing but straight code was seen, intoLoop that it
	// ended in a loop.
	straight, intoLoop bool
	unbounded          bool
	cost               int64
	// inner is where a loop must begin that leaves for the one around it, or 0.
	inner int
}

// look checks one instruction and returns where to go on, or 0 for the next.
func (s *bodyState) look(in *instr, end int) int {
	v := s.v
	s.cost += weight(in)
	switch in.op {
	case opLoop:
		s.intoLoop = s.intoLoop || s.straight
		s.straight, s.unbounded = false, true
		p := s.loop(in, end)
		if p < 0 {
			v.fail(in.pos, "a loop in function %d has no check", v.importedFuncs+s.fn)
		}
		return p
	case opGlobalGet, opGlobalSet:
		// Charges inside the body, before long operations and between the
		// blocks of very large functions.
		if p := v.paid(in.pos, end); p > 0 {
			return p
		}
		if p := v.site(in.pos, end); p > 0 {
			s.cost += indirectCost
			s.straight, s.unbounded = false, true
			return p
		}
		if in.x >= v.fuel {
			v.fail(in.pos, "function %d names a counter", v.importedFuncs+s.fn)
		}
	case opLocalTee:
		if p := v.lengthPaid(in.pos, end, in.x); p > 0 {
			s.unbounded = true
			return p
		}
	case opIf, opBr, opBrIf, opBrTable, opReturn, opUnreachable:
		s.straight = false
	case opCall:
		s.straight = false
		s.call(in)
	case opCallIndirect:
		s.straight, s.unbounded = false, true
		v.indirect = append(v.indirect, s.fn)
	case opMemoryGrow:
		s.unbounded = true
	case opRefFunc:
		v.taken = append(v.taken, in.x)
	case opMisc:
		if bulky(in) {
			v.fail(in.pos, "function %d has a long operation that is not paid for", v.importedFuncs+s.fn)
		}
	}
	return 0
}

// loop checks what stands at the head of a loop and returns where to go on, or -1.
// Either it charges and tests; or it only tests and at once begins another loop,
// which leaves for this one when the fuel is used up, and else charges.
func (s *bodyState) loop(in *instr, end int) int {
	v := s.v
	if s.inner == in.pos {
		if p := v.sequence(in.end, end, v.getFuel, []byte{opI64Const, 0, 0x53, opBrIf, 1}); p >= 0 {
			return v.charge(p, end)
		}
		return -1
	}
	if p := v.paid(in.end, end); p >= 0 {
		return p
	}
	p := v.test(in.end, end)
	if p < 0 || p >= end || v.b[p] != opLoop {
		return -1
	}
	s.inner = p
	return p
}

// site is an indirect call that takes from the depth before and gives as much back
// after; the end, or -1.
func (v *verifier) site(pos, end int) int {
	getDepth := appendU32([]byte{opGlobalGet}, v.depth)
	setDepth := appendU32([]byte{opGlobalSet}, v.depth)
	number := v.sequence(pos, end, getDepth, []byte{opI64Const})
	if number < 0 {
		return -1
	}
	r := newReader(v.b, number, end, "code")
	n := r.signed(64)
	p := v.sequence(number, end, nil, []byte{0x7d}, setDepth)
	if p < 0 || n < 1 {
		return -1
	}
	var in instr
	r = newReader(v.b, p, end, "code")
	if r.next(&in, &v.lim); r.err != nil || in.op != opCallIndirect {
		return -1
	}
	return v.sequence(r.pos, end, getDepth, appendS64([]byte{opI64Const}, n), []byte{0x7c}, setDepth)
}

// lengthPaid recognises the charge for a length, and the operation after it.
func (v *verifier) lengthPaid(pos, end int, local uint32) int {
	tee := append(appendU32([]byte{opLocalTee}, local), v.getFuel...)
	p := v.sequence(pos, end, append(appendU32(append(tee, opLocalGet), local), 0xad))
	if p < 0 {
		return -1
	}
	inBytes, masked := false, false
	if q := v.sequence(p, end, []byte{opI64Const, 5, 0x88}); q >= 0 {
		p, inBytes = q, true
	} else if q := v.sequence(p, end, []byte{opI64Const, 0xff, 0xff, 0xff, 0x01, 0x83}); q >= 0 {
		p, masked = q, true
	}
	if p = v.sequence(p, end, v.setFuel); p < 0 {
		return -1
	}
	if p = v.test(p, end); p < 0 {
		return -1
	}
	var in instr
	r := newReader(v.b, p, end, "code")
	r.next(&in, &v.lim)
	if r.err != nil || !bulky(&in) || inBytes != (in.sub <= miscMemoryFill) || masked != (in.sub == miscTableGrow) {
		v.fail(p, "a length is paid for without an operation")
		return -1
	}
	return r.pos
}

// call notes the edges of functions without a depth counter.
func (s *bodyState) call(in *instr) {
	v := s.v
	if to := int(in.x) - v.importedFuncs; to >= 0 {
		v.calls = append(v.calls, [2]int{s.fn, to})
	} else if in.x == v.refill {
		v.fail(in.pos, "function %d calls refill itself", v.importedFuncs+s.fn)
	}
}

// lightEnough checks that functions without a check of their own come to one soon:
// they do not call each other in a circle, and cost little with all they call.
func (v *verifier) lightEnough() error {
	next := make([][]int, len(v.bodies))
	for _, c := range v.calls {
		if v.light[c[0]] >= 0 && v.light[c[1]] >= 0 {
			next[c[0]] = append(next[c[0]], c[1])
		}
	}
	const heavy = lightCost + 2 // all totals are one too high: zero means not known
	total := make([]int64, len(v.bodies))
	var sum func(f, depth int) int64
	sum = func(f, depth int) int64 {
		if total[f] != 0 {
			return total[f]
		}
		total[f] = heavy // in a circle
		t := 1 + v.light[f]
		for _, to := range next[f] {
			if t >= heavy || depth > lightCost { // each call costs something
				t = heavy
				break
			}
			t += sum(to, depth+1) - 1
		}
		total[f] = t
		return t
	}
	for f, own := range v.light {
		if own >= 0 && sum(f, 0) >= heavy {
			v.fail(v.bodies[f].start, "function %d has no check at its entry", v.importedFuncs+f)
		}
	}
	return v.err
}

// noCircle takes away functions that nobody left calls, until none are left. A
// node after the last function stands for all tables; counted functions and
// those that no table can hold count as taken away.
func (v *verifier) noCircle() error {
	tables := len(v.bodies)
	next := make([][]int, tables+1)
	callers := make([]int, tables+1)
	edge := func(a, b int) {
		if (a == tables || !v.counted[a]) && (b == tables || !v.counted[b]) {
			next[a] = append(next[a], b)
			callers[b]++
		}
	}
	for _, c := range v.calls {
		edge(c[0], c[1])
	}
	for _, a := range v.indirect {
		edge(a, tables)
	}
	for b := range v.inTables() {
		edge(tables, b)
	}
	var free []int
	for n, c := range callers {
		if c == 0 {
			free = append(free, n)
		}
	}
	for k := 0; k < len(free); k++ {
		for _, b := range next[free[k]] {
			if callers[b]--; callers[b] == 0 {
				free = append(free, b)
			}
		}
	}
	if len(free) != tables+1 {
		v.fail(0, "%d functions can call each other in a circle that no counter sees", tables+1-len(free))
	}
	return v.err
}

// inTables are the functions that a table may hold: all that are named
// anywhere but in a call or, unless a table is imported, an export.
func (v *verifier) inTables() map[int]bool {
	set := map[int]bool{}
	add := func(index uint32) {
		if to := int(index) - v.importedFuncs; to >= 0 {
			set[to] = true
		}
	}
	for _, g := range v.globalInits {
		if g.op == opRefFunc {
			add(g.x)
		}
	}
	for i := range v.elements {
		e := &v.elements[i]
		r := newReader(v.b, e.items.start, e.items.end, "element segments")
		for range e.count {
			if e.flags&elemExprs == 0 {
				add(r.u32())
			} else if c := v.constExpr(r, e.elem); c.op == opRefFunc {
				add(c.x)
			}
		}
	}
	for _, index := range v.taken {
		add(index)
	}
	if v.info.ImportedTables {
		for _, e := range v.info.Exports {
			if e.Kind == Func {
				add(e.Index)
			}
		}
	}
	return set
}
