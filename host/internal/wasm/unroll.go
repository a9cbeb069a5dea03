package wasm

const (
	// maxCopies is how often the body of a small loop is repeated at most, and
	// stretch the cost, in fuel units, that the copies together should not exceed: a
	// check costs about four.
	maxCopies = 8
	stretch   = 400
	// A module may grow by unrollLeast bytes and a part of its size, so that one
	// made of tiny loops does not take many times as long to compile.
	unrollLeast, unrollPart = 32 << 10, 8
)

// smallLoop is a loop without loops in it.
type smallLoop struct {
	// pos is where it begins, code where its body begins, end where its end stands.
	pos, code, end int
	// kind is its block type: of a result, or void.
	kind   byte
	copies int
}

// unroll changes innermost loops that call nothing, so that a check costs them
// little. It comes before everything else, and what it makes is an ordinary module.
//
// Each gets a second loop around it, where the rewriter puts the call of refill: in
// the inner loop a call would cost more than the counter, because what lives in
// registers has to be saved for it. The bodies of small ones are repeated, so that
// one check is paid for several turns:
//
//	loop B end   becomes   block loop loop block B br 3 end B end end end
//
// In the first copy a branch to the loop leads to the end of the inner block, where
// the next copy begins; falling off its end leaves the outer block.
func (m *module) unroll() {
	budget := unrollLeast + len(m.b)/unrollPart
	var w walker
	var loops []smallLoop
	for i := range m.bodies {
		if loops = m.smallLoops(i, &w, loops[:0]); len(loops) == 0 {
			continue
		}
		at, from := m.bodies[i], len(m.b)
		for _, l := range loops {
			size := (l.end - l.code + 4) * (l.copies - 1)
			if size > budget {
				l.copies, size = 1, 0
			}
			budget -= size
			m.b = append(m.b, m.b[at.start:l.pos]...)
			m.repeat(&l)
			at.start = l.end + 1
		}
		m.b = append(m.b, m.b[at.start:at.end]...)
		m.bodies[i] = span{from, len(m.b)}
	}
}

// smallLoops lists the loops of a body that are worth it, in their order: none is inside
// of another.
func (m *module) smallLoops(i int, w *walker, list []smallLoop) []smallLoop {
	if !m.graph.facts[i].loops {
		return list
	}
	r := newReader(m.b, m.bodies[i].start, m.bodies[i].end, "code")
	r.fn = m.importedFuncs + i
	w.start(m, r)
	type open struct {
		smallLoop
		frame int
		cost  int64
		turns bool // something leads back to its start
		other bool // it has a loop or a call in it, or parameters
	}
	var loops []open
	for w.step() {
		in := &w.in
		top := len(loops) - 1
		if top >= 0 {
			loops[top].cost += weight(in)
		}
		back := func(label uint32) {
			if top >= 0 && len(w.frames)-1-int(label) == loops[top].frame {
				loops[top].turns = true
			}
		}
		if top >= 0 && (in.op == opLoop || in.op == opCall || in.op == opCallIndirect || in.op == opMemoryGrow || bulky(in)) {
			loops[top].other = true
		}
		switch in.op {
		case opLoop:
			loops = append(loops, open{smallLoop: smallLoop{pos: in.pos, code: in.end, kind: in.block}, frame: len(w.frames) - 1, other: in.block == 0})
		case opBr, opBrIf:
			back(in.x)
		case opBrTable:
			for _, t := range in.targets {
				back(t)
			}
		case opEnd:
			if top < 0 || len(w.frames) != loops[top].frame {
				continue
			}
			l := loops[top]
			loops = loops[:top]
			l.end = in.pos
			l.copies = max(1, min(maxCopies, int(stretch/max(1, l.cost))))
			if l.turns && !l.other {
				list = append(list, l.smallLoop)
			}
		}
	}
	return list
}

// repeat appends the copies of a loop.
func (m *module) repeat(l *smallLoop) {
	if l.copies > 1 {
		m.b = append(m.b, opBlock, l.kind)
	}
	if m.doubled == nil {
		m.doubled = map[int]bool{}
	}
	m.doubled[len(m.b)] = true
	m.b = append(m.b, opLoop, l.kind, opLoop, l.kind)
	for range l.copies - 1 {
		m.b = append(m.b, opBlock, typeVoid)
		m.copyBody(l, 3)
		m.b = append(m.b, opBr, 3, opEnd)
	}
	if l.copies > 1 {
		m.copyBody(l, 2)
		m.b = append(m.b, opEnd, opEnd, opEnd)
		return
	}
	m.copyBody(l, 1)
	m.b = append(m.b, opEnd, opEnd)
}

// copyBody appends the body of a loop with its branches to outer blocks made to
// lead by more blocks further out.
func (m *module) copyBody(l *smallLoop, more uint32) {
	r := newReader(m.b, l.code, l.end, "code")
	var in instr
	depth := uint32(0)
	label := func(x uint32) uint32 {
		if x > depth {
			return x + more
		}
		return x
	}
	for r.pos < l.end && r.err == nil {
		r.next(&in, &m.lim)
		switch in.op {
		case opBlock, opIf:
			depth++
		case opEnd:
			depth--
		case opBr, opBrIf:
			m.b = appendU32(append(m.b, in.op), label(in.x))
			continue
		case opBrTable:
			m.b = appendU32(append(m.b, in.op), uint32(len(in.targets)-1))
			for _, t := range in.targets {
				m.b = appendU32(m.b, label(t))
			}
			continue
		}
		m.b = append(m.b, m.b[in.pos:in.end]...)
	}
}
