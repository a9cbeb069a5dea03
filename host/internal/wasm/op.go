package wasm

// Opcodes that the code names; the others are known by range.
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opSelectT      = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opFirstMem     = 0x28
	opLastMem      = 0x3e
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opFirstNum     = 0x45
	opLastNum      = 0xc4
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opMisc         = 0xfc
	opVec          = 0xfd

	miscMemoryInit = 8
	miscDataDrop   = 9
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscElemDrop   = 13
	miscTableCopy  = 14
	miscTableGrow  = 15
	miscTableSize  = 16
	miscTableFill  = 17

	vecConst   = 0x0c
	vecShuffle = 0x0d

	// typeVoid is the block type without parameters and results.
	typeVoid = 0x40
)

// instr is one decoded instruction.
type instr struct {
	op  byte
	sub uint32 // the second opcode of opMisc and opVec
	// pos and end delimit it in the file.
	pos, end int
	// x and y are its indices: function, type, local, global, table, segment,
	// label; or alignment and offset.
	x, y uint32
	// v is the value of i32.const and i64.const.
	v int64
	// block is the value type or typeVoid of a block, 0 when x is its type.
	block byte
	// targets are the labels of br_table, the default last; valid until the
	// next instruction is decoded.
	targets []uint32
	// loose says that some number in it is longer than need be.
	loose bool
}

// next decodes the instruction at r.pos. Every opcode that is not listed is
// refused: who guesses the length of an immediate can be made to disagree with
// the engine about where the next instruction begins.
func (r *reader) next(in *instr, lim *Limits) {
	in.pos = r.pos
	r.loose = false
	op := r.byte()
	in.op = op
	switch {
	case op >= opFirstNum && op <= opLastNum:
	case op >= opLocalGet && op <= opTableSet:
		in.x = r.u32()
	case op == opI32Const:
		in.v = r.signed(32)
	case op == opI64Const:
		in.v = r.signed(64)
	case op >= opFirstMem && op <= opLastMem:
		r.memArg(in)
	case op <= opReturn:
		r.control(in, lim)
	default:
		r.rest(in)
	}
	in.end = r.pos
	in.loose = r.loose
}

// control decodes the opcodes 0x00 to 0x0f.
func (r *reader) control(in *instr, lim *Limits) {
	switch in.op {
	case opUnreachable, opNop, opElse, opEnd, opReturn:
	case opBlock, opLoop, opIf:
		r.blockType(in)
	case opBr, opBrIf:
		in.x = r.u32()
	case opBrTable:
		n := r.count("br_table", 1, lim.BranchTargets)
		in.targets = in.targets[:0]
		for i := 0; i <= n && r.err == nil; i++ {
			in.targets = append(in.targets, r.u32())
		}
	default: // 0x06 to 0x0a: try, catch, throw, rethrow, throw_ref
		r.missing("exception handling is not supported")
	}
}

// rest decodes the opcodes outside the large ranges.
func (r *reader) rest(in *instr) {
	switch in.op {
	case opDrop, opSelect, opRefIsNull:
	case opCall, opRefFunc:
		in.x = r.u32()
	case opCallIndirect:
		in.x = r.u32()
		in.y = r.u32()
	case opSelectT:
		// The engine reads the count as a byte and knows one type only.
		if n := r.byte(); r.err == nil && n != 1 {
			r.fail(Malformed, "has a select with %d types", n)
		}
		r.valType()
	case opMemorySize, opMemoryGrow:
		r.memIndex()
	case opF32Const:
		r.skip(4)
	case opF64Const:
		r.skip(8)
	case opRefNull:
		r.refType()
	case opMisc:
		r.misc(in)
	case opVec:
		r.vec(in)
	default:
		r.unknown(in.op)
	}
}

// unknown reports an opcode outside WebAssembly 2.0.
func (r *reader) unknown(op byte) {
	switch {
	case op == 0x12 || op == 0x13:
		r.missing("tail calls are not supported")
	case op == 0x18 || op == 0x19 || op == 0x1f:
		r.missing("exception handling is not supported")
	case op == 0xfe:
		r.missing("threads are not supported")
	case op == 0x14 || op == 0x15 || op >= 0xd3 && op <= 0xd6:
		r.missing("typed function references are not supported")
	case op == 0xfb:
		r.missing("garbage-collected types are not supported")
	default:
		r.fail(Malformed, "has an unknown opcode 0x%02x", op)
	}
}

// blockType decodes the type of a block. A negative number must be one byte,
// as the format demands: the engine would take more.
func (r *reader) blockType(in *instr) {
	in.block = 0
	if r.left() > 0 && r.b[r.pos]&0xc0 == 0x40 {
		if r.b[r.pos] == typeVoid {
			in.block = r.byte()
			return
		}
		in.block = byte(r.valType())
		return
	}
	v := r.signed(33)
	if r.err == nil && v < 0 {
		r.fail(Malformed, "has an unknown block type")
	}
	in.x = uint32(v)
}

// memArg decodes alignment and offset of a load or store.
func (r *reader) memArg(in *instr) {
	in.x = r.u32()
	if r.err == nil && in.x >= 32 {
		if in.x&^0x40 < 32 {
			r.missing("more than one memory is not supported")
			return
		}
		r.fail(Malformed, "has an alignment of 2^%d", in.x)
	}
	in.y = r.u32()
}

// memIndex decodes the reserved zero byte of memory instructions.
func (r *reader) memIndex() {
	if c := r.byte(); r.err == nil && c != 0 {
		r.missing("more than one memory is not supported")
	}
}

// misc decodes what follows 0xfc.
func (r *reader) misc(in *instr) {
	in.sub = r.u32()
	switch s := in.sub; {
	case r.err != nil || s < miscMemoryInit:
	case s == miscMemoryInit:
		in.x = r.u32()
		r.memIndex()
	case s == miscMemoryCopy:
		r.memIndex()
		r.memIndex()
	case s == miscMemoryFill:
		r.memIndex()
	case s == miscTableInit || s == miscTableCopy:
		in.x = r.u32()
		in.y = r.u32()
	case s <= miscTableFill:
		in.x = r.u32()
	default:
		r.fail(Malformed, "has an unknown opcode 0xfc %d", s)
	}
}

// vec decodes what follows 0xfd. wazero v1.12.0 reads the second opcode as one
// byte and takes the next byte of the number for an instruction: 1 is nop, all
// else would hide code from this reader. So the number must be as short as can
// be, and at most 0xff.
func (r *reader) vec(in *instr) {
	at := r.pos
	in.sub = r.u32()
	if r.err != nil {
		return
	}
	s := in.sub
	if s > 0xff {
		r.missing("relaxed SIMD is not supported")
		return
	}
	if width := r.pos - at; width != 1 && (s < 0x80 || width != 2) {
		r.fail(Malformed, "has a vector opcode that is longer than need be")
		return
	}
	switch {
	case s <= 0x0b, s == 0x5c, s == 0x5d:
		r.memArg(in)
	case s == vecConst, s == vecShuffle:
		r.skip(16)
	case s >= 0x15 && s <= 0x22:
		r.byte()
	case s >= 0x54 && s <= 0x5b:
		r.memArg(in)
		r.byte()
	case vecHole(s):
		r.fail(Malformed, "has an unknown vector opcode 0x%02x", s)
	}
}

// vecHole says whether the format leaves that vector opcode unused.
func vecHole(s uint32) bool {
	switch s {
	case 0x9a, 0xa2, 0xa5, 0xa6, 0xaf, 0xb0, 0xb2, 0xb3, 0xb4, 0xbb,
		0xc2, 0xc5, 0xc6, 0xcf, 0xd0, 0xd2, 0xd3, 0xd4, 0xe2, 0xee:
		return true
	}
	return false
}
