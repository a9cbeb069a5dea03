package wasm

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
)

// RewriterVersion is part of every [Key]; it changes whenever [Rewrite] makes
// other bytes of the same module and options.
const RewriterVersion = 3

// Names that a rewritten module uses towards the host. A guest may not.
const (
	// MeterModule and RefillName are the one added import, of type () -> ().
	// The guest calls it when fuel has fallen below zero. The host adds fuel, or
	// ends the guest by a panic; with depth below zero it must end it.
	MeterModule = "blade_meter"
	RefillName  = "refill"
	// ReservedPrefix begins every added export.
	ReservedPrefix = "__blade_"
	// FuelExport is the exported i64 that checks count down, by about one for
	// each machine instruction. It begins at zero, so that the first check asks
	// the host. A good slice to add is 1,000,000: half a millisecond at most.
	FuelExport = ReservedPrefix + "fuel"
	// DepthExport is the exported i64 with the call depth that is left.
	DepthExport = ReservedPrefix + "depth"
	// StartExport is the former start function, of type () -> ().
	StartExport = ReservedPrefix + "start"
)

// Options says how [Rewrite] changes a module. The zero value is usable.
type Options struct {
	// Limits are those of the scan that comes first.
	Limits Limits
	// MemoryPages is the most the memory may grow to, in pages of 64 KiB
	// (65,535). A module that begins above it is refused.
	MemoryPages int
	// TableEntries is the most a table may grow to (100,000, at most 4,194,303);
	// a table that begins larger keeps its initial size.
	TableEntries int
	// Depth is how deep calls may nest, in units (100,000). At least one call on
	// each circle of calls takes one unit, and one more for each 16 locals and each
	// 1,024 bytes of the function's body; an indirect call takes two. The depth is
	// looked at when fuel runs out, and large frames cost fuel: a guest gets deeper
	// by some 100 bytes of stack for each eight of fuel in a slice.
	Depth int
	// Keep names the custom sections that stay; "name" is adapted. All others
	// go: their offsets are stale and engines read some of them.
	Keep []string
}

// maxTable is the most entries a table may grow to. It is a mask.
const maxTable = 1<<22 - 1

// withDefaults returns o with each unset field filled in.
func (o Options) withDefaults() Options {
	o.Limits = o.Limits.withDefaults()
	if o.MemoryPages <= 0 {
		o.MemoryPages = 65_535
	}
	if o.TableEntries <= 0 {
		o.TableEntries = 100_000
	}
	o.TableEntries = min(o.TableEntries, maxTable)
	if o.Depth <= 0 {
		o.Depth = 100_000
	}
	o.Keep = slices.Clone(o.Keep)
	slices.Sort(o.Keep)
	return o
}

// Key names the result of Rewrite(b, opt) for a cache: SHA-256 over the version
// of the rewriter, the options and the module.
func Key(b []byte, opt Options) [32]byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "bladehost rewrite %d %#v %d\n", RewriterVersion, opt.withDefaults(), len(b))
	_, _ = h.Write(b)
	return [32]byte(h.Sum(nil))
}

// Module is a rewritten module and what a host needs to run it.
type Module struct {
	// Bytes is the new module. It begins with empty memory and runs nothing at
	// instantiation.
	Bytes []byte
	// Image is the initial content of the memory, to be written in order before
	// anything runs. The bytes share memory with the input.
	Image []Segment
	// Globals are the module's own mutable numeric globals, exported for a
	// snapshot. Fuel and depth are not among them.
	Globals []GlobalExport
	// FuelGlobal and DepthGlobal are FuelExport and DepthExport.
	FuelGlobal, DepthGlobal string
	// DepthLimit is what the depth global begins with. A host that uses an
	// instance again after a clean return finds it there.
	DepthLimit int64
	// HasStart says that StartExport has to be called, after Image was written.
	HasStart bool
	// Info describes the input.
	Info *Info
	// Restorable says that memory and Globals are all the state there is: an
	// instance can be put back to an earlier moment. Otherwise NotRestorableWhy
	// says what stands against it, for a person.
	Restorable       bool
	NotRestorableWhy string
	// Checks counts the places that can call refill; Counted counts the
	// functions that keep the call depth.
	Checks, Counted int
}

// Segment is a piece of memory content.
type Segment struct {
	Offset uint32
	Bytes  []byte
}

// GlobalExport is a global exported under a reserved name.
type GlobalExport struct {
	Name string
	Type ValType
}

// Rewrite makes a module stoppable, bounded and resettable:
//
//   - A fuel counter is charged and checked at every loop header and function
//     entry; entries of functions that soon end or come to another check, and of
//     those that fall straight into a loop, need none. Operations on many bytes or
//     entries are charged by length. Small loops that call nothing are repeated,
//     and their call of refill is put into a loop around them; see unroll.
//   - A depth counter is kept by so many functions that no circle of calls is
//     without one, and by indirect calls where that takes fewer.
//   - Mutable numeric globals are exported, active data becomes Image, the start
//     function becomes an export.
//   - Maxima of memory and tables are lowered to the options.
//
// It refuses with an [*Error] what [Scan] refuses, what uses a reserved name,
// and what could not be instantiated. Equal input gives equal bytes.
//
// What it costs is in docs/performance.md, and why it is done in this way in
// docs/adr/0008-what-does-a-check-cost.md.
//
// The depth is right on every way out: the body is wrapped in a block, to which
// returns and branches out of the function lead. A trap leaves it low, so an
// instance that trapped must not be used again.
func Rewrite(b []byte, opt Options) (*Module, error) {
	opt = opt.withDefaults()
	m := newModule(b, opt.Limits)
	m.graph = &callGraph{}
	if err := m.parse(); err != nil {
		return nil, err
	}
	if err := checkReserved(m.info); err != nil {
		return nil, err
	}
	w := &rewriter{module: m, opt: opt, out: &Module{
		Info: m.info, HasStart: m.info.HasStart, DepthLimit: int64(opt.Depth),
		FuelGlobal: FuelExport, DepthGlobal: DepthExport,
	}}
	if err := w.takeData(); err != nil {
		return nil, err
	}
	m.lim = unlimited(len(b)) // they were kept to
	m.unroll()
	w.prepare()
	code := w.code()
	if err := w.assemble(code); err != nil {
		return nil, err
	}
	w.out.NotRestorableWhy = w.whyNotRestorable()
	w.out.Restorable = w.out.NotRestorableWhy == ""
	return w.out, nil
}

// checkReserved refuses guests that reach for the host's names.
func checkReserved(info *Info) error {
	for _, im := range info.Imports {
		if im.Module == MeterModule {
			return refuse(Reserved, 0, "imports: the module name %s is reserved for the host", quote(MeterModule))
		}
	}
	for _, e := range info.Exports {
		if strings.HasPrefix(e.Name, ReservedPrefix) {
			return refuse(Reserved, 0, "exports: the name %s begins with %s, which is reserved for the host", quote(e.Name), ReservedPrefix)
		}
	}
	return nil
}

// whyNotRestorable names the first piece of state that a host cannot put back.
func (w *rewriter) whyNotRestorable() string {
	f := &w.info.Features
	switch {
	case f.ImportedMemory:
		return "its memory is imported"
	case f.ImportedTables:
		return "a table is imported"
	case f.ImportedMutableGlobals:
		return "a mutable global is imported"
	case f.RefOrV128MutableGlobals:
		return "a mutable global holds a reference or a vector"
	case f.TableMutation:
		return "its code changes tables"
	case f.SegmentDrop:
		return "its code drops segments"
	case w.keepData:
		return "the place of its data is an imported global"
	}
	return ""
}

// takeData moves active data segments into the image.
func (w *rewriter) takeData() error {
	w.keepData = w.info.ImportedMemory
	for _, d := range w.data {
		if !d.passive && d.offset.op != opI32Const {
			w.keepData = true
		}
	}
	if w.keepData || w.info.Memory == nil {
		return nil
	}
	size := int64(w.info.Memory.Min) << 16
	for i, d := range w.data {
		if d.passive {
			continue
		}
		s := Segment{Offset: uint32(d.offset.v), Bytes: d.bytes.of(w.b)}
		if int64(s.Offset)+int64(len(s.Bytes)) > size {
			return refuse(Malformed, d.bytes.start, "data segment %d: %d bytes at %d reach past the memory of %d bytes", i, len(s.Bytes), s.Offset, size)
		}
		if len(s.Bytes) > 0 {
			w.out.Image = append(w.out.Image, s)
		}
	}
	w.out.Image = joined(w.out.Image)
	return nil
}

// joinGap is how many zero bytes are written rather than start another segment: the
// modules of Go come in tens of thousands of them.
const joinGap = 64

// joined puts segments that lie closely together into one, where none overlaps another:
// the bytes between them are zero then, and the order does not matter.
func joined(list []Segment) []Segment {
	end := func(s Segment) uint64 { return uint64(s.Offset) + uint64(len(s.Bytes)) }
	sorted := slices.SortedStableFunc(slices.Values(list), func(a, b Segment) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := range len(sorted) - 1 {
		if end(sorted[i]) > uint64(sorted[i+1].Offset) {
			return list
		}
	}
	var out []Segment
	for from := 0; from < len(sorted); {
		to := from + 1
		for to < len(sorted) && uint64(sorted[to].Offset)-end(sorted[to-1]) <= joinGap {
			to++
		}
		one := sorted[from]
		if to > from+1 {
			one.Bytes = make([]byte, end(sorted[to-1])-uint64(one.Offset))
			for _, s := range sorted[from:to] {
				copy(one.Bytes[s.Offset-one.Offset:], s.Bytes)
			}
		}
		out = append(out, one)
		from = to
	}
	return out
}
