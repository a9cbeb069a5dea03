package wasm

import (
	"slices"
	"strings"
)

// Info is what a module says about itself. It is made by [Scan]; payloads of
// custom sections share memory with the scanned bytes, the rest is a copy.
type Info struct {
	// Size is the length of the module in bytes.
	Size int
	// Types are the function types, in order.
	Types []FuncType
	// Imports are all imports, in order.
	Imports []Import
	// Exports are all exports, in order; their names are unique.
	Exports []Export
	// Functions is the number of functions defined here, without imported ones.
	Functions int
	// Memory is the one memory, imported or defined; nil when there is none.
	Memory *MemoryType
	// Tables are all tables, imported ones first.
	Tables []TableType
	// Globals are all globals, imported ones first.
	Globals []GlobalType
	// DataSegments and ElementSegments are the numbers of segments of any kind.
	DataSegments, ElementSegments int
	// HasStart says that a start function runs at instantiation; Start is its
	// function index.
	HasStart bool
	Start    uint32
	// Customs are the custom sections, in order.
	Customs []Custom
	// Features is what the module's code and declarations make use of.
	Features
}

// Features tells what decides whether an instance can be put back to an
// earlier state, and some of what it needs from an engine.
type Features struct {
	// ImportedMemory says that the memory belongs to someone else.
	ImportedMemory bool
	// ImportedTables says that some table belongs to someone else.
	ImportedTables bool
	// ImportedMutableGlobals says that some imported global can change.
	ImportedMutableGlobals bool
	// RefOrV128MutableGlobals says that some mutable global of its own holds a
	// reference or a vector, which no host can read or set.
	RefOrV128MutableGlobals bool
	// TableMutation says that the code has table.set, grow, fill, copy or init.
	TableMutation bool
	// SegmentDrop says that the code has data.drop or elem.drop.
	SegmentDrop bool
	// MemoryInit says that the code has memory.init, which reads a segment.
	MemoryInit bool
	// PassiveData says that some data segment is passive.
	PassiveData bool
	// MemoryGrow says that the code has memory.grow.
	MemoryGrow bool
	// SIMD says that the code has vector instructions.
	SIMD bool
}

// Custom returns the payload of the first custom section of that name, and how
// many sections have it: 0 and nil when there is none.
func (i *Info) Custom(name string) (payload []byte, n int) {
	for _, c := range i.Customs {
		if c.Name != name {
			continue
		}
		if n++; n == 1 {
			payload = c.Payload
		}
	}
	return payload, n
}

// Export returns the export of that name.
func (i *Info) Export(name string) (Export, bool) {
	k := slices.IndexFunc(i.Exports, func(e Export) bool { return e.Name == name })
	if k < 0 {
		return Export{}, false
	}
	return i.Exports[k], true
}

// Import is one import.
type Import struct {
	Module, Name string
	Kind         Kind
	// Type is the full signature; set for functions only.
	Type FuncType
}

// Export is one export.
type Export struct {
	Name string
	Kind Kind
	// Index counts within the kind, imported ones first.
	Index uint32
	// Type is the full signature; set for functions only.
	Type FuncType
}

// Custom is one custom section.
type Custom struct {
	Name string
	// Payload is everything after the name. It shares memory with the module.
	Payload []byte
}

// MemoryType is the type of a memory, in pages of 64 KiB.
type MemoryType struct {
	Min, Max uint32
	// HasMax says that Max was declared; without it Max is 0.
	HasMax bool
}

// TableType is the type of a table, in entries.
type TableType struct {
	Elem     ValType
	Min, Max uint32
	// HasMax says that Max was declared; without it Max is 0.
	HasMax bool
}

// GlobalType is the type of a global.
type GlobalType struct {
	Type    ValType
	Mutable bool
}

// Kind is the kind of an import or export, with its number in the format.
type Kind byte

// The kinds of imports and exports.
const (
	Func   Kind = 0
	Table  Kind = 1
	Memory Kind = 2
	Global Kind = 3
)

// String returns the word of the text format.
func (k Kind) String() string {
	switch k {
	case Func:
		return "func"
	case Table:
		return "table"
	case Memory:
		return "memory"
	case Global:
		return "global"
	}
	return "unknown"
}

// ValType is a value type, with its number in the format.
type ValType byte

// The value types of WebAssembly 2.0.
const (
	I32       ValType = 0x7f
	I64       ValType = 0x7e
	F32       ValType = 0x7d
	F64       ValType = 0x7c
	V128      ValType = 0x7b
	FuncRef   ValType = 0x70
	ExternRef ValType = 0x6f
)

// String returns the word of the text format.
func (t ValType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return "unknown"
}

func (t ValType) numeric() bool { return t >= F64 && t <= I32 }

func (t ValType) reference() bool { return t == FuncRef || t == ExternRef }

// FuncType is the signature of a function.
type FuncType struct {
	Params, Results []ValType
}

// Equal says whether both have the same parameters and results.
func (t FuncType) Equal(o FuncType) bool {
	return slices.Equal(t.Params, o.Params) && slices.Equal(t.Results, o.Results)
}

// String returns the signature for a person, such as "(i32, i32) -> i64".
func (t FuncType) String() string {
	var sb strings.Builder
	list := func(ts []ValType) {
		for i, v := range ts {
			if i > 0 {
				sb.WriteString(", ")
			}
			sb.WriteString(v.String())
		}
	}
	sb.WriteByte('(')
	list(t.Params)
	sb.WriteString(") -> ")
	if len(t.Results) == 1 {
		list(t.Results)
		return sb.String()
	}
	sb.WriteByte('(')
	list(t.Results)
	sb.WriteByte(')')
	return sb.String()
}
