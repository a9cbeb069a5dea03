package wasm

func (m *module) readElements(r *reader) {
	n := r.count(r.what, 2, m.lim.Elements)
	m.elements = make([]element, 0, n)
	total := 0
	for i := 0; i < n && r.err == nil; i++ {
		e := m.readElement(r)
		m.elements = append(m.elements, e)
		if total += e.count; total > m.lim.ElementItems {
			r.over("entries", int64(total), int64(m.lim.ElementItems))
		}
	}
}

// Bits of the flags of an element segment.
const (
	elemNotActive = 1 // passive, or declarative with elemExplicit
	elemExplicit  = 2 // table index given, or declarative
	elemExprs     = 4 // entries are constants, not function indices
)

func (m *module) readElement(r *reader) element {
	e := element{flags: r.u32(), elem: FuncRef}
	if r.err == nil && e.flags > elemNotActive|elemExplicit|elemExprs {
		r.fail(Malformed, "has unknown flags %d", e.flags)
	}
	if e.flags&elemNotActive == 0 {
		if e.flags&elemExplicit != 0 {
			e.table = r.u32()
		}
		if r.err == nil && int64(e.table) >= int64(len(m.info.Tables)) {
			r.fail(Malformed, "names table %d, there are %d", e.table, len(m.info.Tables))
		}
		e.offset = m.constExpr(r, I32)
	}
	if e.flags&(elemNotActive|elemExplicit) != 0 {
		if e.flags&elemExprs != 0 {
			e.elem = r.refType()
		} else if kind := r.byte(); r.err == nil && kind != 0 {
			r.fail(Malformed, "has an unknown kind 0x%02x", kind)
		}
	}
	size := 1
	if e.flags&elemExprs != 0 {
		size = 3
	}
	e.count = r.count("entries", size, m.lim.ElementItems)
	e.items.start = r.pos
	for i := 0; i < e.count && r.err == nil; i++ {
		if e.flags&elemExprs != 0 {
			m.constExpr(r, e.elem)
		} else if index := r.index("function", len(m.funcs)); r.err == nil {
			m.declare(index)
		}
	}
	e.items.end = r.pos
	return e
}

func (m *module) readData(r *reader) {
	n := r.count(r.what, 2, m.lim.Data)
	m.data = make([]datum, 0, n)
	for i := 0; i < n && r.err == nil; i++ {
		m.data = append(m.data, m.readDatum(r))
	}
}

func (m *module) readDatum(r *reader) datum {
	var d datum
	flags := r.u32()
	switch {
	case r.err != nil:
		return d
	case flags == 1:
		d.passive = true
		m.info.PassiveData = true
	case flags == 2:
		if r.u32() != 0 {
			r.missing("more than one memory is not supported")
		}
	case flags != 0:
		r.fail(Malformed, "has unknown flags %d", flags)
	}
	if !d.passive {
		if r.err == nil && m.info.Memory == nil {
			r.fail(Malformed, "has data for a memory, but there is none")
		}
		d.offset = m.constExpr(r, I32)
	}
	n := r.count("bytes", 1, m.lim.Size)
	d.bytes.start = r.pos
	r.skip(n)
	d.bytes.end = r.pos
	return d
}

func (m *module) readCode(r *reader) {
	n := r.count(r.what, 3, m.lim.Functions)
	if r.err == nil && n != len(m.funcs)-m.importedFuncs {
		r.fail(Malformed, "has %d bodies for %d functions", n, len(m.funcs)-m.importedFuncs)
		return
	}
	m.bodies = make([]span, 0, n)
	var w walker
	for i := 0; i < n && r.err == nil; i++ {
		r.fn = m.importedFuncs + i
		size := r.u32()
		if r.err == nil && int64(size) > int64(r.left()) {
			r.fail(Malformed, "claims a body of %d bytes in %d bytes", size, r.left())
		}
		if r.err == nil && int64(size) > int64(m.lim.Body) {
			r.over("bytes of its body", int64(size), int64(m.lim.Body))
		}
		if r.err != nil {
			return
		}
		body := newReader(m.b, r.pos, r.pos+int(size), r.what)
		body.fn = r.fn
		m.bodies = append(m.bodies, span{r.pos, r.pos + int(size)})
		r.pos += int(size)
		w.start(m, body)
		m.graph.begin(w.locals, int(size))
		for w.step() {
			m.note(&w.in)
			m.graph.add(&w.in, m.importedFuncs)
		}
		r.err = body.err
	}
	r.fn = -1
}

// note keeps what the code makes use of.
func (m *module) note(in *instr) {
	f := &m.info.Features
	switch in.op {
	case opTableSet:
		f.TableMutation = true
	case opMemoryGrow:
		f.MemoryGrow = true
	case opVec:
		f.SIMD = true
	case opMisc:
		switch in.sub {
		case miscTableInit, miscTableCopy, miscTableGrow, miscTableFill:
			f.TableMutation = true
		case miscDataDrop, miscElemDrop:
			f.SegmentDrop = true
		case miscMemoryInit:
			f.MemoryInit = true
		}
	}
}

// walker goes through one body and checks structure and indices.
type walker struct {
	m  *module
	r  *reader
	in instr
	// frames are the opcodes of the open blocks; the first is the function.
	frames []byte
	// locals counts parameters and locals; code is where the code begins.
	locals, code int
}

// start reads the declarations of locals.
func (w *walker) start(m *module, r *reader) {
	w.m, w.r = m, r
	w.frames = append(w.frames[:0], opBlock)
	total := int64(len(m.info.Types[m.funcs[r.fn]].Params))
	groups := r.count("groups of locals", 2, m.lim.Locals)
	for i := 0; i < groups && r.err == nil; i++ {
		total += int64(r.u32())
		r.valType()
		if r.err == nil && total > int64(m.lim.Locals) {
			r.over("locals", total, int64(m.lim.Locals))
		}
	}
	w.locals, w.code = int(total), r.pos
	if m.totalLocals += int(total); r.err == nil && m.totalLocals > m.lim.TotalLocals {
		r.over("locals of all functions so far", int64(m.totalLocals), int64(m.lim.TotalLocals))
	}
}

// step decodes and checks the next instruction into w.in. It returns false at
// the end of the body and on the first fault, which is then in w.r.err.
func (w *walker) step() bool {
	r := w.r
	if r.err != nil {
		return false
	}
	if len(w.frames) == 0 {
		if r.left() > 0 {
			r.fail(Malformed, "has %d bytes after its end", r.left())
		}
		return false
	}
	if r.left() == 0 {
		r.fail(Malformed, "ends without closing %d blocks", len(w.frames))
		return false
	}
	r.next(&w.in, &w.m.lim)
	if r.err != nil {
		return false
	}
	w.check()
	return r.err == nil
}

// bound refuses an index that is not below n. An index past the end must never
// come to mean something that a rewrite appends.
func (w *walker) bound(what string, i uint32, n int) {
	if int64(i) >= int64(n) {
		w.r.fail(Malformed, "names %s %d, there are %d", what, i, n)
	}
}

func (w *walker) check() {
	in, m := &w.in, w.m
	switch in.op {
	case opBlock, opLoop, opIf:
		w.open()
	case opElse:
		if top := len(w.frames) - 1; w.frames[top] == opIf {
			w.frames[top] = opElse
			return
		}
		w.r.fail(Malformed, "has an else without an if")
	case opEnd:
		w.frames = w.frames[:len(w.frames)-1]
	case opBr, opBrIf:
		w.bound("label", in.x, len(w.frames))
	case opBrTable:
		for _, t := range in.targets {
			w.bound("label", t, len(w.frames))
		}
	case opCall:
		w.bound("function", in.x, len(m.funcs))
	case opRefFunc:
		w.bound("function", in.x, len(m.funcs))
		if w.r.err == nil && (m.declared == nil || !m.declared[in.x]) {
			w.r.fail(Malformed, "takes a reference to function %d, which is named nowhere but in code", in.x)
		}
	case opCallIndirect:
		w.bound("type", in.x, len(m.info.Types))
		w.bound("table", in.y, len(m.info.Tables))
	case opLocalGet, opLocalSet, opLocalTee:
		w.bound("local", in.x, w.locals)
	case opGlobalGet, opGlobalSet:
		w.bound("global", in.x, len(m.info.Globals))
	case opTableGet, opTableSet:
		w.bound("table", in.x, len(m.info.Tables))
	case opMisc:
		w.checkMisc()
	}
}

func (w *walker) open() {
	in, m := &w.in, w.m
	if in.block == 0 {
		w.bound("type", in.x, len(m.info.Types))
	}
	w.frames = append(w.frames, in.op)
	if n := len(w.frames) - 1; n > m.lim.Nesting {
		w.r.over("nested blocks", int64(n), int64(m.lim.Nesting))
	}
}

func (w *walker) checkMisc() {
	in, m := &w.in, w.m
	switch in.sub {
	case miscMemoryInit, miscDataDrop:
		w.bound("data segment", in.x, max(m.dataCount, 0))
	case miscElemDrop:
		w.bound("element segment", in.x, len(m.elements))
	case miscTableInit:
		w.bound("element segment", in.x, len(m.elements))
		w.bound("table", in.y, len(m.info.Tables))
	case miscTableCopy:
		w.bound("table", in.x, len(m.info.Tables))
		w.bound("table", in.y, len(m.info.Tables))
	case miscTableGrow, miscTableSize, miscTableFill:
		w.bound("table", in.x, len(m.info.Tables))
	}
}
