package wasm

// Opcodes of the inserted sequences.
const (
	opI64LtS     = 0x53
	opI64Add     = 0x7c
	opI64Sub     = 0x7d
	opI64And     = 0x83
	opI64ShrU    = 0x88
	opI64ExtendU = 0xad
)

// The inserted code leaves the operand stack as it was, so that it may stand
// anywhere. wazero keeps the counter in a register between the store and the
// following load: a check is load, subtract, store, branch.

// charge takes cost from the fuel.
func (w *rewriter) charge(o []byte, cost int64) []byte {
	o = appendU32(append(o, opGlobalGet), w.fuel)
	o = append(appendS64(append(o, opI64Const), cost), opI64Sub)
	return appendU32(append(o, opGlobalSet), w.fuel)
}

// check calls refill when the fuel is below zero.
func (w *rewriter) check(o []byte) []byte {
	w.out.Checks++
	o = appendU32(append(o, opGlobalGet), w.fuel)
	o = append(o, opI64Const, 0, opI64LtS, opIf, typeVoid, opCall)
	return append(appendU32(o, w.refill), opEnd)
}

// emitPoint writes what one point inside a body does.
func (w *rewriter) emitPoint(o []byte, p *point) []byte {
	switch p.kind {
	case pointCharge:
		return w.charge(o, p.cost)
	case pointCheck:
		return w.check(w.charge(o, p.cost+checkCost))
	case pointOuter:
		return w.check(o)
	case pointInner:
		// Looked at before it is charged, so that each turn is paid once, however
		// little refill gives.
		o = appendU32(append(o, opGlobalGet), w.fuel)
		return w.charge(append(o, opI64Const, 0, opI64LtS, opBrIf, 1), p.cost+checkCost)
	}
	return o
}

// emitEntry writes what happens before the body. A function that keeps the
// depth remembers it in a local and opens the block to which all ways out lead.
// Nothing looks at the depth here: refill does, and no circle of calls is
// without a check of fuel.
func (w *rewriter) emitEntry(i int, o []byte) []byte {
	o = w.emitPoint(o, &w.points[0])
	if !w.counted[i] {
		return o
	}
	w.out.Counted++
	o = appendU32(append(o, opGlobalGet), w.depth)
	o = appendU32(append(o, opLocalTee), w.depthLocal())
	o = append(appendS64(append(o, opI64Const), w.graph.facts[i].frame), opI64Sub)
	o = appendU32(append(o, opGlobalSet), w.depth)
	return w.resultBlock(append(o, opBlock), i)
}

// siteDepth is what an indirect call that keeps the depth takes from it: its own
// frame and the one of what it calls.
const siteDepth = 2

// site is an indirect call that takes from the depth before, and gives it back after.
func (w *rewriter) site(o []byte, in *instr) []byte {
	o = appendU32(append(o, opGlobalGet), w.depth)
	o = appendU32(append(o, opI64Const, siteDepth, opI64Sub, opGlobalSet), w.depth)
	o = appendU32(append(w.canonical(o, in), opGlobalGet), w.depth)
	return appendU32(append(o, opI64Const, siteDepth, opI64Add, opGlobalSet), w.depth)
}

// emitExit puts the depth back to what it was at entry.
func (w *rewriter) emitExit(o []byte) []byte {
	o = appendU32(append(o, opLocalGet), w.depthLocal())
	return append(appendU32(append(o, opGlobalSet), w.depth), opEnd)
}

// bulkCharge pays for an operation whose length is on top of the stack: one
// unit for each 32 bytes or each table entry. A table.grow that asks for more
// than any table may have only fails, in no time; it must not take four billion
// units each time, or fuel would in the end wrap around.
func (w *rewriter) bulkCharge(o []byte, in *instr, local uint32) []byte {
	o = appendU32(append(o, opLocalTee), local)
	o = appendU32(append(o, opGlobalGet), w.fuel)
	o = append(appendU32(append(o, opLocalGet), local), opI64ExtendU)
	switch {
	case in.sub <= miscMemoryFill:
		o = append(o, opI64Const, 5, opI64ShrU)
	case in.sub == miscTableGrow:
		o = append(appendS64(append(o, opI64Const), maxTable), opI64And)
	}
	o = append(o, opI64Sub)
	o = appendU32(append(o, opGlobalSet), w.fuel)
	return w.check(o)
}
