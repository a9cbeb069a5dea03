package wasm

// Opcodes of the inserted sequences.
const (
	opI64LtS     = 0x53
	opI64Add     = 0x7c
	opI64Sub     = 0x7d
	opI64Or      = 0x84
	opI64ShrU    = 0x88
	opI64ExtendU = 0xad
)

// The inserted code leaves the operand stack as it was, so that it may stand
// anywhere. wazero keeps the counter in a register between the store and the
// following load: a check is load, subtract, store, branch.

// charge subtracts cost from a counter.
func charge(o []byte, counter uint32, cost int64) []byte {
	o = appendU32(append(o, opGlobalGet), counter)
	o = append(appendS64(append(o, opI64Const), cost), opI64Sub)
	return appendU32(append(o, opGlobalSet), counter)
}

// refillIfNegative calls refill when the i64 on the stack is below zero.
func (w *rewriter) refillIfNegative(o []byte) []byte {
	w.out.Checks++
	o = append(o, opI64Const, 0, opI64LtS, opIf, typeVoid, opCall)
	return append(appendU32(o, w.refill), opEnd)
}

func (w *rewriter) check(o []byte, counter uint32) []byte {
	return w.refillIfNegative(appendU32(append(o, opGlobalGet), counter))
}

// emitPoint writes what one point inside a body does.
func (w *rewriter) emitPoint(o []byte, p *point) []byte {
	switch p.kind {
	case pointCharge:
		return charge(o, w.fuel, p.cost)
	case pointCheck:
		return w.check(charge(o, w.fuel, p.cost+checkCost), w.fuel)
	}
	return o
}

// emitEntry writes what happens before the body. A function that keeps the
// depth opens the block to which all ways out lead.
func (w *rewriter) emitEntry(i int, o []byte) []byte {
	p := &w.points[0]
	if !w.counted[i] {
		return w.emitPoint(o, p)
	}
	w.out.Counted++
	switch p.kind {
	case pointCharge:
		o = charge(o, w.fuel, p.cost)
	case pointCheck:
		o = charge(o, w.fuel, p.cost+checkCost)
	}
	o = charge(o, w.depth, w.frameCost(i))
	o = appendU32(append(o, opGlobalGet), w.depth)
	if p.kind == pointCheck {
		o = append(appendU32(append(o, opGlobalGet), w.fuel), opI64Or)
	}
	return w.resultBlock(append(w.refillIfNegative(o), opBlock), i)
}

// addDepth gives the frame back.
func (w *rewriter) addDepth(o []byte, cost int64) []byte {
	o = appendU32(append(o, opGlobalGet), w.depth)
	o = append(appendS64(append(o, opI64Const), cost), opI64Add)
	return appendU32(append(o, opGlobalSet), w.depth)
}

// bulkCharge pays for an operation whose length is on top of the stack: one
// unit for each 32 bytes or each table entry.
func (w *rewriter) bulkCharge(o []byte, in *instr, local uint32) []byte {
	o = appendU32(append(o, opLocalTee), local)
	o = appendU32(append(o, opGlobalGet), w.fuel)
	o = append(appendU32(append(o, opLocalGet), local), opI64ExtendU)
	if in.sub <= miscMemoryFill {
		o = append(o, opI64Const, 5, opI64ShrU)
	}
	o = append(o, opI64Sub)
	o = appendU32(append(o, opGlobalSet), w.fuel)
	return w.check(o, w.fuel)
}
