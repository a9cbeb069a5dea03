package wasm

// Limits bounds what [Scan] accepts. A field that is zero or less means the
// default in its comment. The defaults lie at or below the numbers browsers
// agreed on (https://webassembly.github.io/spec/js-api/#limits) and were held
// against real Go, Rust, C and TypeScript guests.
type Limits struct {
	// Size is the largest file, in bytes (64 MiB).
	Size int
	// Types is the largest number of function types (20,000).
	Types int
	// Functions is the largest number of functions, imported ones included
	// (100,000; a million take the compiler over four seconds).
	Functions int
	// Imports is the largest number of imports (1,000).
	Imports int
	// Exports is the largest number of exports (10,000).
	Exports int
	// Globals is the largest number of globals, imported ones included (10,000).
	Globals int
	// Tables is the largest number of tables (16).
	Tables int
	// TableSize is the largest initial size of all tables together, in entries
	// (1,000,000).
	TableSize int
	// MemoryPages is the largest initial memory, in pages of 64 KiB (65,535:
	// wazero v1.12.0 computes a wrong bound for a memory of exactly 4 GiB).
	MemoryPages int
	// Elements is the largest number of element segments (10,000).
	Elements int
	// ElementItems is the largest number of entries of all element segments
	// together (1,000,000).
	ElementItems int
	// Data is the largest number of data segments (100,000; a Go guest has
	// about 37,000).
	Data int
	// Params is the largest number of parameters of one function type (1,000).
	Params int
	// Results is the largest number of results of one function type (1,000).
	Results int
	// Locals is the largest number of locals of one function, parameters
	// included (50,000).
	Locals int
	// TotalLocals is the largest number of locals of all functions together
	// (4,000,000; the engine needs eight bytes for each).
	TotalLocals int
	// Body is the largest function body, in bytes (1 MiB; a large Go program has
	// 50 KiB, half a million calls in one body take the compiler a second).
	Body int
	// Nesting is the deepest nesting of blocks in a function (5,000: Go
	// functions nest one block for each resume point, and the compiler's time
	// grows with the square).
	Nesting int
	// BranchTargets is the largest number of targets of one br_table (65,520).
	BranchTargets int
	// Customs is the largest number of custom sections (64).
	Customs int
	// NameBytes is the longest module, import, export or section name, in
	// bytes (10,000).
	NameBytes int
}

// withDefaults returns l with each unset field filled in.
func (l Limits) withDefaults() Limits {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&l.Size, 64<<20)
	set(&l.Types, 20_000)
	set(&l.Functions, 100_000)
	set(&l.Imports, 1_000)
	set(&l.Exports, 10_000)
	set(&l.Globals, 10_000)
	set(&l.Tables, 16)
	set(&l.TableSize, 1_000_000)
	set(&l.MemoryPages, 65_535)
	set(&l.Elements, 10_000)
	set(&l.ElementItems, 1_000_000)
	set(&l.Data, 100_000)
	set(&l.Params, 1_000)
	set(&l.Results, 1_000)
	set(&l.Locals, 50_000)
	set(&l.TotalLocals, 4_000_000)
	set(&l.Body, 1<<20)
	set(&l.Nesting, 5_000)
	set(&l.BranchTargets, 65_520)
	set(&l.Customs, 64)
	set(&l.NameBytes, 10_000)
	return l
}
