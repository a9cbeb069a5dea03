package wasm

import "unicode/utf8"

func (m *module) readTypes(r *reader) {
	n := r.count(r.what, 3, m.lim.Types)
	m.info.Types = make([]FuncType, 0, n)
	for i := 0; i < n && r.err == nil; i++ {
		switch form := r.byte(); {
		case r.err != nil:
		case form == 0x60:
			var t FuncType
			t.Params = r.valTypes("parameters", m.lim.Params)
			t.Results = r.valTypes("results", m.lim.Results)
			m.info.Types = append(m.info.Types, t)
		case form == 0x4e || form == 0x4f || form == 0x50 || form == 0x5e || form == 0x5f:
			r.missing("garbage-collected types are not supported")
		default:
			r.fail(Malformed, "has an unknown form 0x%02x", form)
		}
	}
}

func (r *reader) valTypes(what string, limit int) []ValType {
	n := r.count(what, 1, limit)
	if n == 0 {
		return nil
	}
	ts := make([]ValType, n)
	for i := range ts {
		ts[i] = r.valType()
	}
	return ts
}

func (m *module) readImports(r *reader) {
	n := r.count(r.what, 4, m.lim.Imports)
	m.info.Imports = make([]Import, 0, n)
	for i := 0; i < n && r.err == nil; i++ {
		im := Import{Module: r.name(m.lim.NameBytes), Name: r.name(m.lim.NameBytes), Kind: Kind(r.byte())}
		if r.err != nil {
			return
		}
		m.readImport(r, &im)
		m.info.Imports = append(m.info.Imports, im)
	}
	m.importedFuncs = len(m.funcs)
	m.importedGlobals = len(m.info.Globals)
	m.importedTables = len(m.info.Tables)
}

func (m *module) readImport(r *reader, im *Import) {
	switch im.Kind {
	case Func:
		index := m.typeIndex(r)
		if r.err != nil {
			return
		}
		im.Type = m.info.Types[index]
		m.funcs = append(m.funcs, index)
	case Table:
		m.addTable(r)
		m.info.ImportedTables = true
	case Memory:
		m.addMemory(r)
		m.info.ImportedMemory = true
	case Global:
		t := r.globalType()
		m.info.Globals = append(m.info.Globals, t)
		m.info.ImportedMutableGlobals = m.info.ImportedMutableGlobals || t.Mutable
	case 4:
		r.missing("exception handling is not supported")
	default:
		r.fail(Malformed, "has an unknown kind 0x%02x for %s", byte(im.Kind), quote(im.Name))
	}
}

// typeIndex reads a type index and holds it against the number of types.
func (m *module) typeIndex(r *reader) uint32 {
	return r.index("type", len(m.info.Types))
}

// index reads an index that must be below n.
func (r *reader) index(what string, n int) uint32 {
	i := r.u32()
	if r.err == nil && int64(i) >= int64(n) {
		r.fail(Malformed, "names %s %d, there are %d", what, i, n)
		return 0
	}
	return i
}

func (m *module) readFunctions(r *reader) {
	n := r.count(r.what, 1, m.lim.Functions-m.importedFuncs)
	all := make([]uint32, m.importedFuncs, m.importedFuncs+n)
	copy(all, m.funcs)
	for i := 0; i < n && r.err == nil; i++ {
		all = append(all, m.typeIndex(r))
	}
	m.funcs = all
}

func (m *module) declare(index uint32) {
	if m.declared == nil {
		m.declared = make([]bool, len(m.funcs))
	}
	m.declared[index] = true
}

func (m *module) readTables(r *reader) {
	n := r.count(r.what, 3, m.lim.Tables)
	for i := 0; i < n && r.err == nil; i++ {
		if r.left() > 0 && r.b[r.pos] == 0x40 {
			r.missing("tables with an initial value are not supported")
			return
		}
		m.addTable(r)
	}
}

func (m *module) addTable(r *reader) {
	t := TableType{Elem: r.refType()}
	t.Min, t.Max, t.HasMax = r.size("table")
	if r.err != nil {
		return
	}
	if t.HasMax && t.Max < t.Min {
		r.fail(Malformed, "has a table with a maximum of %d below its minimum of %d", t.Max, t.Min)
		return
	}
	m.info.Tables = append(m.info.Tables, t)
	if n := len(m.info.Tables); n > m.lim.Tables {
		r.over("tables", int64(n), int64(m.lim.Tables))
	}
	var total int64
	for _, t := range m.info.Tables {
		total += int64(t.Min)
	}
	if total > int64(m.lim.TableSize) {
		r.over("entries of all tables", total, int64(m.lim.TableSize))
	}
}

// size reads the limits of a memory or table.
func (r *reader) size(what string) (lo, hi uint32, hasMax bool) {
	flags := r.byte()
	switch {
	case r.err != nil:
		return 0, 0, false
	case flags&0x04 != 0 && flags < 0x10 && what == "memory":
		r.missing("64-bit memory is not supported")
	case flags&0x04 != 0 && flags < 0x10:
		r.missing("64-bit tables are not supported")
	case flags&0x08 != 0 && flags < 0x10:
		r.missing("custom page sizes are not supported")
	case flags&0x02 != 0 && flags < 0x10:
		r.missing("threads are not supported")
	case flags > 1:
		r.fail(Malformed, "has unknown flags 0x%02x for a %s", flags, what)
	}
	lo = r.u32()
	if flags == 1 {
		hi = r.u32()
	}
	return lo, hi, flags == 1
}

func (m *module) readMemories(r *reader) {
	n := r.count(r.what, 2, m.lim.Size)
	if n > 1 {
		r.missing("more than one memory is not supported")
	}
	if n == 1 && r.err == nil {
		m.addMemory(r)
	}
}

// maxPages is where the format's 32-bit address space ends.
const maxPages = 65_536

func (m *module) addMemory(r *reader) {
	var t MemoryType
	t.Min, t.Max, t.HasMax = r.size("memory")
	switch {
	case r.err != nil:
		return
	case m.info.Memory != nil:
		r.missing("more than one memory is not supported")
	case t.Min > maxPages || t.Max > maxPages:
		r.fail(Malformed, "has a memory of %d pages, the address space has %d", max(t.Min, t.Max), maxPages)
	case t.HasMax && t.Max < t.Min:
		r.fail(Malformed, "has a memory with a maximum of %d below its minimum of %d", t.Max, t.Min)
	case int64(t.Min) > int64(m.lim.MemoryPages):
		r.over("pages of memory", int64(t.Min), int64(m.lim.MemoryPages))
	}
	m.info.Memory = &t
}

func (r *reader) globalType() GlobalType {
	t := GlobalType{Type: r.valType()}
	mutable := r.byte()
	if r.err == nil && mutable > 1 {
		if mutable == 2 || mutable == 3 {
			r.missing("threads are not supported")
		}
		r.fail(Malformed, "has an unknown mutability 0x%02x", mutable)
	}
	t.Mutable = mutable == 1
	return t
}

func (m *module) readGlobals(r *reader) {
	n := r.count(r.what, 4, m.lim.Globals-m.importedGlobals)
	m.globalInits = make([]constant, 0, n)
	for i := 0; i < n && r.err == nil; i++ {
		t := r.globalType()
		m.globalInits = append(m.globalInits, m.constExpr(r, t.Type))
		m.info.Globals = append(m.info.Globals, t)
		if t.Mutable && !t.Type.numeric() {
			m.info.RefOrV128MutableGlobals = true
		}
	}
}

// constExpr reads an initial value of type want: one instruction and its end.
func (m *module) constExpr(r *reader, want ValType) constant {
	c := constant{at: span{start: r.pos}}
	if r.err != nil {
		return c
	}
	var in instr
	r.next(&in, &m.lim)
	got := m.constType(r, &in)
	if r.err == nil && got != want {
		r.fail(Malformed, "has an initial value of type %s where %s belongs", got, want)
	}
	if end := r.byte(); r.err == nil && end != opEnd {
		r.missing("initial values of several instructions are not supported")
	}
	c.op, c.x, c.v = in.op, in.x, in.v
	c.at.end = r.pos
	return c
}

func (m *module) constType(r *reader, in *instr) ValType {
	if r.err != nil {
		return 0
	}
	switch in.op {
	case opI32Const:
		return I32
	case opI64Const:
		return I64
	case opF32Const:
		return F32
	case opF64Const:
		return F64
	case opRefNull:
		return ValType(r.b[in.end-1])
	case opRefFunc:
		if int64(in.x) >= int64(len(m.funcs)) {
			r.fail(Malformed, "names function %d, there are %d", in.x, len(m.funcs))
			return 0
		}
		m.declare(in.x)
		return FuncRef
	case opGlobalGet:
		if int64(in.x) >= int64(m.importedGlobals) || m.info.Globals[in.x].Mutable {
			r.fail(Malformed, "has an initial value from global %d, which is no imported constant", in.x)
			return 0
		}
		return m.info.Globals[in.x].Type
	case opVec:
		if in.sub == vecConst {
			return V128
		}
	}
	r.fail(Malformed, "has an initial value that is not constant")
	return 0
}

func (m *module) readExports(r *reader) {
	n := r.count(r.what, 3, m.lim.Exports)
	m.info.Exports = make([]Export, 0, n)
	seen := make(map[string]struct{}, n)
	for i := 0; i < n && r.err == nil; i++ {
		e := Export{Name: r.name(m.lim.NameBytes), Kind: Kind(r.byte())}
		m.readExport(r, &e)
		if r.err != nil {
			return
		}
		if _, dup := seen[e.Name]; dup {
			r.fail(Malformed, "has the name %s twice", quote(e.Name))
		}
		seen[e.Name] = struct{}{}
		m.info.Exports = append(m.info.Exports, e)
	}
}

func (m *module) readExport(r *reader, e *Export) {
	switch e.Kind {
	case Func:
		e.Index = r.index("function", len(m.funcs))
		if r.err == nil {
			e.Type = m.info.Types[m.funcs[e.Index]]
			m.declare(e.Index)
		}
	case Table:
		e.Index = r.index("table", len(m.info.Tables))
	case Memory:
		memories := 0
		if m.info.Memory != nil {
			memories = 1
		}
		e.Index = r.index("memory", memories)
	case Global:
		e.Index = r.index("global", len(m.info.Globals))
	case 4:
		r.missing("exception handling is not supported")
	default:
		r.fail(Malformed, "has an unknown kind 0x%02x for %s", byte(e.Kind), quote(e.Name))
	}
}

func (m *module) readStart(r *reader) {
	m.info.Start = r.index("function", len(m.funcs))
	if r.err != nil {
		return
	}
	m.info.HasStart = true
	if t := m.info.Types[m.funcs[m.info.Start]]; len(t.Params)+len(t.Results) > 0 {
		r.fail(Malformed, "the start function has the signature %s, it must have none", t)
	}
}

// checkNames walks the name section: wazero reads module, function and local
// names and allocates what they claim.
func checkNames(b []byte, at span) error {
	r := newReader(b, at.start, at.end, "names")
	for r.left() > 0 && r.err == nil {
		id := r.byte()
		n := r.u32()
		if r.err == nil && int64(n) > int64(r.left()) {
			r.fail(Malformed, "claims a part of %d bytes in %d bytes", n, r.left())
		}
		if r.err != nil {
			break
		}
		sub := newReader(b, r.pos, r.pos+int(n), "names")
		r.pos += int(n)
		if id > 2 {
			continue
		}
		sub.nameMap(int(id))
		if err := sub.done(); err != nil {
			return err
		}
	}
	return r.done()
}

// nameMap walks a name (depth 0), a list of names, or a list of such lists.
func (r *reader) nameMap(depth int) {
	if depth == 0 {
		r.label()
		return
	}
	n := r.count(r.what, 2, r.left())
	for i := 0; i < n && r.err == nil; i++ {
		r.u32()
		r.nameMap(depth - 1)
	}
}

// label walks a string of the name section.
func (r *reader) label() {
	n := r.u32()
	if r.err == nil && int64(n) > int64(r.left()) {
		r.fail(Malformed, "claims a name of %d bytes in %d bytes", n, r.left())
	}
	if s := r.skip(int(n)); r.err == nil && !utf8.Valid(s) {
		r.fail(Malformed, "has a name that is not UTF-8")
	}
}
