package wasm

import (
	"fmt"
	"slices"
)

// prepare fixes the new indices and the functions that keep the depth.
func (w *rewriter) prepare() {
	w.refill = uint32(w.importedFuncs)
	w.fuel = uint32(len(w.info.Globals))
	w.depth = w.fuel + 1
	for _, t := range w.info.Types {
		w.types = append(w.types, encodeType(t))
	}
	w.takeFunctions()
	w.graph.findLight()
	cyclic := w.graph.recursive()
	w.cyclic = cyclic[:len(cyclic)-1]
	w.counted, w.sites = w.graph.counters(cyclic)
}

// takeFunctions tells the call graph which functions may stand in tables.
func (w *rewriter) takeFunctions() {
	take := func(index uint32) { w.graph.take(index, w.importedFuncs) }
	for _, g := range w.globalInits {
		if g.op == opRefFunc {
			take(g.x)
		}
	}
	for i := range w.elements {
		w.items(&w.elements[i], func(index uint32, isFunc bool, _ span) {
			if isFunc {
				take(index)
			}
		})
	}
	if !w.info.ImportedTables {
		return
	}
	// Whoever owns the table may have put exported functions there.
	for _, e := range w.info.Exports {
		if e.Kind == Func {
			take(e.Index)
		}
	}
}

// items goes through the entries of an element segment. A constant that is no
// function has its encoding in at.
func (w *rewriter) items(e *element, f func(index uint32, isFunc bool, at span)) {
	r := newReader(w.b, e.items.start, e.items.end, "element segments")
	for range e.count {
		if e.flags&elemExprs == 0 {
			f(r.u32(), true, span{})
			continue
		}
		c := w.constExpr(r, e.elem)
		f(c.x, c.op == opRefFunc, c.at)
	}
}

func encodeType(t FuncType) []byte {
	o := []byte{0x60}
	for _, list := range [][]ValType{t.Params, t.Results} {
		o = appendU32(o, uint32(len(list)))
		for _, v := range list {
			o = append(o, byte(v))
		}
	}
	return o
}

// assemble writes the new module. The order of sections is the format's; kept
// custom sections follow at the end.
func (w *rewriter) assemble(code []byte) error {
	o := make([]byte, 0, len(code)+len(w.b)/4+4096)
	o = append(o, magic+version...)
	add := func(id byte, body []byte, err error) error {
		if err != nil || body == nil {
			return err
		}
		o = appendSection(o, id, body)
		return nil
	}
	imports := w.imports() // may add a type
	for _, err := range []error{
		add(secType, w.typeSection(), nil),
		add(secImport, imports, nil),
		add(secFunction, w.functionSection(), nil),
		add(secTable, w.tableSection(), nil),
		w.addMemorySection(add),
		add(secGlobal, w.globalSection(), nil),
		add(secExport, w.exportSection(), nil),
		add(secElement, w.elementSection(), nil),
		add(secDataCount, w.dataCountSection(), nil),
		add(secCode, w.codeSection(code), nil),
		add(secData, w.dataSection(), nil),
	} {
		if err != nil {
			return err
		}
	}
	for i := range w.sections {
		if s := &w.sections[i]; s.id == secCustom && slices.Contains(w.opt.Keep, s.name) {
			o = w.keepCustom(o, s)
		}
	}
	w.out.Bytes = o
	return nil
}

func (w *rewriter) typeSection() []byte {
	o := appendU32(nil, uint32(len(w.types)))
	for _, t := range w.types {
		o = append(o, t...)
	}
	return o
}

// imports copies the imports and puts refill behind them: imported functions
// keep their indices, others move by one.
func (w *rewriter) imports() []byte {
	t := uint32(w.typeOf(FuncType{}))
	o := appendU32(nil, uint32(len(w.info.Imports)+1))
	funcs, tables, globals := 0, 0, 0
	for _, im := range w.info.Imports {
		o = append(appendName(appendName(o, im.Module), im.Name), byte(im.Kind))
		switch im.Kind {
		case Func:
			o = appendU32(o, w.funcs[funcs])
			funcs++
		case Table:
			o = appendTable(o, w.info.Tables[tables])
			tables++
		case Memory:
			o = appendSize(o, w.info.Memory.Min, w.info.Memory.Max, w.info.Memory.HasMax)
		case Global:
			o = appendGlobalType(o, w.info.Globals[globals])
			globals++
		}
	}
	o = append(appendName(appendName(o, MeterModule), RefillName), byte(Func))
	return appendU32(o, t)
}

func appendSize(o []byte, lo, hi uint32, hasMax bool) []byte {
	if !hasMax {
		return appendU32(append(o, 0), lo)
	}
	return appendU32(appendU32(append(o, 1), lo), hi)
}

func appendTable(o []byte, t TableType) []byte {
	return appendSize(append(o, byte(t.Elem)), t.Min, t.Max, t.HasMax)
}

func appendGlobalType(o []byte, g GlobalType) []byte {
	mutable := byte(0)
	if g.Mutable {
		mutable = 1
	}
	return append(o, byte(g.Type), mutable)
}

func (w *rewriter) functionSection() []byte {
	o := appendU32(nil, uint32(len(w.bodies)))
	for _, t := range w.funcs[w.importedFuncs:] {
		o = appendU32(o, t)
	}
	return o
}

// tableSection lowers the maximum of each table.
func (w *rewriter) tableSection() []byte {
	tables := w.info.Tables[w.importedTables:]
	if len(tables) == 0 {
		return nil
	}
	o := appendU32(nil, uint32(len(tables)))
	for _, t := range tables {
		most := max(uint32(w.opt.TableEntries), t.Min)
		if !t.HasMax || t.Max > most {
			t.Max, t.HasMax = most, true
		}
		o = appendTable(o, t)
	}
	return o
}

// addMemorySection lowers the maximum of the memory.
func (w *rewriter) addMemorySection(add func(byte, []byte, error) error) error {
	t := w.info.Memory
	if t == nil || w.info.ImportedMemory {
		return nil
	}
	most := uint32(min(w.opt.MemoryPages, maxPages))
	if t.Min > most {
		return refuse(OverLimit, 0, "memories: %d pages to begin with are over the limit of %d (%d MiB over %d MiB)",
			t.Min, most, t.Min/16, most/16)
	}
	hi := most
	if t.HasMax {
		hi = min(hi, t.Max)
	}
	return add(secMemory, appendSize([]byte{1}, t.Min, hi, true), nil)
}

// globalSection copies the globals and adds the two counters.
func (w *rewriter) globalSection() []byte {
	own := w.info.Globals[w.importedGlobals:]
	o := appendU32(nil, uint32(len(own)+2))
	for i, g := range own {
		o = w.constant(appendGlobalType(o, g), &w.globalInits[i])
	}
	for _, start := range []int64{0, w.out.DepthLimit} {
		o = appendGlobalType(o, GlobalType{Type: I64, Mutable: true})
		o = append(appendS64(append(o, opI64Const), start), opEnd)
	}
	return o
}

// constant copies an initial value and moves the function in it.
func (w *rewriter) constant(o []byte, c *constant) []byte {
	switch c.op {
	case opRefFunc:
		return append(appendU32(append(o, opRefFunc), w.moved(c.x)), opEnd)
	case opGlobalGet:
		return append(appendU32(append(o, opGlobalGet), c.x), opEnd)
	case opI32Const, opI64Const:
		return append(appendS64(append(o, c.op), c.v), opEnd)
	}
	return append(o, c.at.of(w.b)...)
}

func (w *rewriter) exportSection() []byte {
	var o []byte
	n := uint32(0)
	add := func(name string, kind Kind, index uint32) {
		n++
		o = appendU32(append(appendName(o, name), byte(kind)), index)
	}
	for _, e := range w.info.Exports {
		if e.Kind == Func {
			e.Index = w.moved(e.Index)
		}
		add(e.Name, e.Kind, e.Index)
	}
	for i := w.importedGlobals; i < len(w.info.Globals); i++ {
		g := w.info.Globals[i]
		if !g.Mutable || !g.Type.numeric() {
			continue
		}
		name := fmt.Sprintf("%sg%d", ReservedPrefix, i)
		add(name, Global, uint32(i))
		w.out.Globals = append(w.out.Globals, GlobalExport{Name: name, Type: g.Type})
	}
	add(FuelExport, Global, w.fuel)
	add(DepthExport, Global, w.depth)
	if w.info.HasStart {
		add(StartExport, Func, w.moved(w.info.Start))
	}
	return append(appendU32(nil, n), o...)
}

func (w *rewriter) elementSection() []byte {
	if len(w.elements) == 0 {
		return nil
	}
	o := appendU32(nil, uint32(len(w.elements)))
	for i := range w.elements {
		e := &w.elements[i]
		o = appendU32(o, e.flags)
		if e.flags&elemNotActive == 0 {
			if e.flags&elemExplicit != 0 {
				o = appendU32(o, e.table)
			}
			o = w.constant(o, &e.offset)
		}
		if e.flags&(elemNotActive|elemExplicit) != 0 {
			if e.flags&elemExprs != 0 {
				o = append(o, byte(e.elem))
			} else {
				o = append(o, 0)
			}
		}
		o = appendU32(o, uint32(e.count))
		w.items(e, func(index uint32, isFunc bool, at span) {
			switch {
			case e.flags&elemExprs == 0:
				o = appendU32(o, w.moved(index))
			case isFunc:
				o = append(appendU32(append(o, opRefFunc), w.moved(index)), opEnd)
			default:
				o = append(o, at.of(w.b)...)
			}
		})
	}
	return o
}

// namesData says whether code names data segments, so that their number and
// order must stay.
func (w *rewriter) namesData() bool {
	return w.dataCount >= 0 && (w.info.MemoryInit || w.info.SegmentDrop)
}

func (w *rewriter) dataCountSection() []byte {
	if !w.namesData() {
		return nil
	}
	return appendU32(nil, uint32(w.dataCount))
}

func (w *rewriter) codeSection(code []byte) []byte {
	if len(w.bodies) == 0 {
		return nil
	}
	return code
}

// dataSection leaves passive segments, and an empty one for each active one
// that went into the image: to code both look dropped.
func (w *rewriter) dataSection() []byte {
	if len(w.data) == 0 || !w.namesData() && !w.keepData {
		return nil
	}
	o := appendU32(nil, uint32(len(w.data)))
	for i := range w.data {
		d := &w.data[i]
		bytes := d.bytes.of(w.b)
		switch {
		case d.passive:
			o = append(o, 1)
		case w.keepData:
			o = w.constant(append(o, 0), &d.offset)
		default:
			o = append(o, 0, opI32Const, 0, opEnd)
			bytes = nil
		}
		o = append(appendU32(o, uint32(len(bytes))), bytes...)
	}
	return o
}

// keepCustom copies a custom section. Names follow the functions that moved.
func (w *rewriter) keepCustom(o []byte, s *section) []byte {
	payload := s.body.of(w.b)
	if s.name == "name" {
		payload = w.moveNames(s.body)
	}
	return appendSection(o, secCustom, append(appendName(nil, s.name), payload...))
}

// moveNames renumbers the functions in the parts 1 (functions), 2 (locals) and
// 3 (labels) of the name section, and drops parts it does not know.
func (w *rewriter) moveNames(at span) []byte {
	var o []byte
	r := newReader(w.b, at.start, at.end, "names")
	for r.left() > 0 && r.err == nil {
		id := r.byte()
		n := r.u32()
		if r.err != nil || int64(n) > int64(r.left()) {
			break
		}
		sub := newReader(w.b, r.pos, r.pos+int(n), "names")
		r.pos += int(n)
		var part []byte
		switch {
		case id == 0:
			part = sub.skip(sub.left())
		case id <= 2:
			part = w.moveNameMap(sub, int(id))
		default:
			continue
		}
		o = appendSection(o, id, part)
	}
	return o
}

func (w *rewriter) moveNameMap(r *reader, depth int) []byte {
	n := r.count(r.what, 2, r.left())
	o := appendU32(nil, uint32(n))
	for i := 0; i < n && r.err == nil; i++ {
		o = appendU32(o, w.moved(r.u32()))
		from := r.pos
		r.nameMap(depth - 1)
		if r.err == nil {
			o = append(o, w.b[from:r.pos]...)
		}
	}
	return o
}
