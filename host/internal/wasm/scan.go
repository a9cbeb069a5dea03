package wasm

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	magic   = "\x00asm"
	version = "\x01\x00\x00\x00"
	header  = len(magic) + len(version)
)

// Section ids of the binary format.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12
	secTag       = 13
)

// Scan reads a module completely, function bodies included, and reports what is
// in it. It refuses with an [*Error] what is not WebAssembly 2.0, what
// contradicts itself, and what is over lim; the zero Limits are the defaults.
//
// Scan does not check operand types: the engine does. It does check every
// index, so that code which an engine accepts is code that Scan has understood.
// Memory use is bounded by a small multiple of len(b), whatever b claims.
func Scan(b []byte, lim Limits) (*Info, error) {
	m := newModule(b, lim)
	if err := m.parse(); err != nil {
		return nil, err
	}
	return m.info, nil
}

// span is a range of bytes in the module.
type span struct{ start, end int }

func (s span) of(b []byte) []byte { return b[s.start:s.end:s.end] }

// constant is an initial value: one instruction and its end.
type constant struct {
	op byte
	x  uint32 // function or global index
	v  int64  // value of an i32.const
	at span   // including the end opcode
}

// element is one element segment.
type element struct {
	flags  uint32
	table  uint32
	elem   ValType
	offset constant
	// items are all entries, as function indices or as constants.
	items span
	count int
}

// datum is one data segment.
type datum struct {
	passive bool
	offset  constant
	bytes   span
}

// section is one section of the file.
type section struct {
	id byte
	// whole begins at the id, body after the length.
	whole, body span
	name        string // of a custom section
}

// module is a parsed module: what Info has, and where in the file the rest is.
type module struct {
	b        []byte
	lim      Limits
	info     *Info
	sections []section
	// funcs are the type indices of all functions, imported ones first.
	funcs []uint32
	// declared says which functions are named outside code: ref.func may name
	// those only.
	declared []bool
	// globalInits are the initial values of the globals defined here.
	globalInits                                    []constant
	importedFuncs, importedGlobals, importedTables int
	elements                                       []element
	data                                           []datum
	dataCount                                      int // -1 without a section
	bodies                                         []span
	// graph is nil in a plain scan.
	graph       *callGraph
	totalLocals int
	// doubled are the positions of loops that unroll put around others.
	doubled map[int]bool
}

func newModule(b []byte, lim Limits) *module {
	return &module{b: b, lim: lim.withDefaults(), info: &Info{Size: len(b)}, dataCount: -1}
}

func (m *module) parse() error {
	b := m.b
	if len(b) > m.lim.Size {
		return refuse(OverLimit, 0, "the module has %d bytes, over the limit of %d", len(b), m.lim.Size)
	}
	if err := checkHeader(b); err != nil {
		return err
	}
	var err error
	if m.sections, err = split(b, m.lim); err != nil {
		return err
	}
	for i := range m.sections {
		if err := m.section(&m.sections[i]); err != nil {
			return err
		}
	}
	return m.complete()
}

// checkHeader judges the first eight bytes.
func checkHeader(b []byte) error {
	switch {
	case len(b) == 0:
		return refuse(NotWasm, 0, "the file is empty, not a WebAssembly module")
	case len(b) < header && bytes.HasPrefix([]byte(magic+version), b):
		return refuse(Truncated, len(b), "the file ends inside the header of a WebAssembly module")
	case bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("(module")):
		return refuse(NotWasm, 0, "this is WebAssembly text; translate it to a binary first, for example with wat2wasm")
	case len(b) < header || string(b[:4]) != magic:
		return refuse(NotWasm, 0, "this is not a WebAssembly module: it does not begin with \\0asm")
	case b[6] == 1 && b[7] == 0:
		return refuse(Component, 4, "this is a WebAssembly component; build a core module (for Rust the target wasm32-wasip1, not wasm32-wasip2)")
	case string(b[4:8]) != version:
		v := uint32(b[4]) | uint32(b[5])<<8 | uint32(b[6])<<16 | uint32(b[7])<<24
		return refuse(BadVersion, 4, "version %d of the WebAssembly format is not supported, only version 1", v)
	}
	return nil
}

// split finds the sections, checks their order and reads the names of custom
// ones.
func split(b []byte, lim Limits) ([]section, error) {
	var out []section
	customs, last := 0, 0
	for pos := header; pos < len(b); {
		s, err := splitOne(b, pos, lim)
		if err != nil {
			return nil, err
		}
		pos = s.whole.end
		out = append(out, s)
		if s.id == secCustom {
			if customs++; customs > lim.Customs {
				return nil, refuse(OverLimit, s.whole.start, "custom sections: %d is over the limit of %d", customs, lim.Customs)
			}
			continue
		}
		rank := sectionRank(s.id)
		if rank == last {
			return nil, refuse(Malformed, s.whole.start, "%s: the section is there twice", sectionName(s.id))
		}
		if rank < last {
			return nil, refuse(Malformed, s.whole.start, "%s: the section is out of order", sectionName(s.id))
		}
		last = rank
	}
	return out, nil
}

func splitOne(b []byte, pos int, lim Limits) (section, error) {
	s := section{id: b[pos], whole: span{start: pos}}
	if s.id == secTag {
		return s, refuse(Unsupported, pos, "exception handling is not supported (tags)")
	}
	if s.id > secTag {
		return s, refuse(Malformed, pos, "unknown section %d", s.id)
	}
	what := sectionName(s.id)
	r := newReader(b, pos+1, len(b), what)
	n := r.u32()
	if r.err != nil {
		if r.left() == 0 {
			r.err.Reason = Truncated
		}
		return s, r.err
	}
	if int64(n) > int64(r.left()) {
		return s, refuse(Truncated, r.pos, "%s: claims %d bytes, %d are left in the file", what, n, r.left())
	}
	s.body = span{r.pos, r.pos + int(n)}
	s.whole.end = s.body.end
	if s.id == secCustom {
		r = newReader(b, s.body.start, s.body.end, what)
		s.name = r.name(lim.NameBytes)
		s.body.start = r.pos
		if r.err != nil {
			return s, r.err
		}
	}
	return s, nil
}

// sectionRank is the place of a section in the file.
func sectionRank(id byte) int {
	switch id {
	case secCode, secData:
		return int(id) + 1
	case secDataCount:
		return secCode
	}
	return int(id)
}

func sectionName(id byte) string {
	switch id {
	case secCustom:
		return "custom section"
	case secType:
		return "types"
	case secImport:
		return "imports"
	case secFunction:
		return "functions"
	case secTable:
		return "tables"
	case secMemory:
		return "memories"
	case secGlobal:
		return "globals"
	case secExport:
		return "exports"
	case secStart:
		return "start"
	case secElement:
		return "element segments"
	case secCode:
		return "code"
	case secData:
		return "data segments"
	case secDataCount:
		return "data count"
	}
	return fmt.Sprintf("section %d", id)
}

// section reads one section.
func (m *module) section(s *section) error {
	r := newReader(m.b, s.body.start, s.body.end, sectionName(s.id))
	switch s.id {
	case secCustom:
		return m.custom(s)
	case secType:
		m.readTypes(r)
	case secImport:
		m.readImports(r)
	case secFunction:
		m.readFunctions(r)
	case secTable:
		m.readTables(r)
	case secMemory:
		m.readMemories(r)
	case secGlobal:
		m.readGlobals(r)
	case secExport:
		m.readExports(r)
	case secStart:
		m.readStart(r)
	case secElement:
		m.readElements(r)
	case secDataCount:
		m.dataCount = int(r.u32())
		if r.err == nil && m.dataCount > m.lim.Data {
			r.over(r.what, int64(m.dataCount), int64(m.lim.Data))
		}
	case secCode:
		m.readCode(r)
	case secData:
		m.readData(r)
	}
	return r.done()
}

// custom keeps a custom section. The name section is walked as well, because
// the engine reads it and believes its counts.
func (m *module) custom(s *section) error {
	if s.name == "name" {
		if _, n := m.info.Custom("name"); n > 0 {
			return refuse(Malformed, s.whole.start, "names: the section is there twice")
		}
		if err := checkNames(m.b, s.body); err != nil {
			return err
		}
	}
	m.info.Customs = append(m.info.Customs, Custom{Name: s.name, Payload: s.body.of(m.b)})
	return nil
}

// complete checks what only the whole module shows.
func (m *module) complete() error {
	if defined := len(m.funcs) - m.importedFuncs; defined != len(m.bodies) {
		return refuse(Malformed, 0, "functions: declares %d functions, but the code section has %d bodies", defined, len(m.bodies))
	}
	if m.dataCount >= 0 && m.dataCount != len(m.data) {
		return refuse(Malformed, 0, "data count: announces %d data segments, there are %d", m.dataCount, len(m.data))
	}
	m.info.Functions = len(m.bodies)
	m.info.DataSegments = len(m.data)
	m.info.ElementSegments = len(m.elements)
	return nil
}

// quote makes a name from the module fit for a sentence.
func quote(s string) string {
	if len(s) > 64 {
		s = strings.ToValidUTF8(s[:64], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
