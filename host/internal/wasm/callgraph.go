package wasm

// callGraph holds, for each function defined here, what decides about its
// checks: its cost, whether it loops or calls, and whom it calls. A nil graph
// ignores everything, so that a plain scan pays nothing for it.
type callGraph struct {
	facts []facts
	// calls are the called functions of all bodies, one body after the other,
	// counted from the first function defined here.
	calls []uint32
	// taken are functions, counted likewise, that may stand in a table.
	taken []uint32
}

// facts describes one body.
type facts struct {
	// cost is the weight of all instructions together.
	cost int64
	// plain says that the body has no loop, no call and no operation of
	// unbounded length: it ends soon.
	plain bool
	// indirect says that the body has a call_indirect.
	indirect bool
	// from is where its part of callGraph.calls begins.
	from int
}

// weight is the cost of one instruction in fuel units, about one machine
// instruction each.
func weight(in *instr) int64 {
	switch in.op {
	case opNop, opBlock, opLoop, opElse, opEnd:
		return 0
	case opCall:
		return 5
	case opCallIndirect:
		return indirectCost
	case opMemoryGrow:
		return 500
	}
	return 1
}

// indirectCost includes a share for the small leaves that may be called this
// way without a check of their own.
const indirectCost = 25

// begin starts the next body.
func (g *callGraph) begin() {
	if g != nil {
		g.facts = append(g.facts, facts{plain: true, from: len(g.calls)})
	}
}

// add notes one instruction of the current body.
func (g *callGraph) add(in *instr, imported int) {
	if g == nil {
		return
	}
	f := &g.facts[len(g.facts)-1]
	f.cost += weight(in)
	switch in.op {
	case opLoop, opMemoryGrow:
		f.plain = false
	case opCall:
		f.plain = false
		if int(in.x) >= imported {
			g.calls = append(g.calls, in.x-uint32(imported))
		}
	case opCallIndirect:
		f.plain = false
		f.indirect = true
	case opRefFunc:
		g.take(in.x, imported)
	case opMisc:
		f.plain = f.plain && !bulky(in)
	}
}

func (g *callGraph) take(index uint32, imported int) {
	if int(index) >= imported {
		g.taken = append(g.taken, index-uint32(imported))
	}
}

// leafCost bounds what a function may cost to go without an entry check; its
// direct callers pay for it.
const leafCost = 200

// leaf returns the cost that callers pay for function f, or -1 when it has
// checks of its own.
func (g *callGraph) leaf(f int) int64 {
	if x := &g.facts[f]; x.plain && x.cost <= leafCost {
		return x.cost
	}
	return -1
}

// out returns the callees of node n. The node after the last function stands
// for all indirect calls.
func (g *callGraph) out(n int) []uint32 {
	if n == len(g.facts) {
		return g.taken
	}
	to := len(g.calls)
	if n+1 < len(g.facts) {
		to = g.facts[n+1].from
	}
	return g.calls[g.facts[n].from:to]
}

// recursive says for each function whether it lies on a cycle of calls. Only
// those can call each other without end; the others are at most as deep as
// there are functions. It is Tarjan's algorithm with a stack of its own.
func (g *callGraph) recursive() []bool {
	n := len(g.facts) + 1
	t := tarjan{
		g: g, low: make([]int32, n), index: make([]int32, n), open: make([]bool, n),
		cyclic: make([]bool, n),
	}
	for v := range n {
		if t.index[v] == 0 {
			t.run(v)
		}
	}
	return t.cyclic[:n-1]
}

type tarjan struct {
	g          *callGraph
	low, index []int32 // 0 means not seen
	open       []bool
	cyclic     []bool
	stack      []int32
	work       []visit
	seen       int32
}

// visit is a node whose edges up to next were followed.
type visit struct{ node, next int }

func (t *tarjan) enter(v int) {
	t.seen++
	t.index[v], t.low[v] = t.seen, t.seen
	t.open[v] = true
	t.stack = append(t.stack, int32(v))
	t.work = append(t.work, visit{node: v})
}

// edge returns the target of v's k-th edge: direct calls first, then the node
// of indirect calls.
func (t *tarjan) edge(v, k int) (int, bool) {
	out := t.g.out(v)
	if k < len(out) {
		return int(out[k]), true
	}
	last := len(t.g.facts)
	return last, k == len(out) && v < last && t.g.facts[v].indirect
}

func (t *tarjan) run(root int) {
	t.enter(root)
	for len(t.work) > 0 {
		top := &t.work[len(t.work)-1]
		v := top.node
		w, ok := t.edge(v, top.next)
		if !ok {
			t.leave(v)
			continue
		}
		top.next++
		switch {
		case t.index[w] == 0:
			t.enter(w)
		case t.open[w]:
			t.low[v] = min(t.low[v], t.index[w])
			t.cyclic[v] = t.cyclic[v] || v == w
		}
	}
}

// leave finishes v, and its component when v is the first of it.
func (t *tarjan) leave(v int) {
	t.work = t.work[:len(t.work)-1]
	if k := len(t.work); k > 0 {
		up := t.work[k-1].node
		t.low[up] = min(t.low[up], t.low[v])
	}
	if t.low[v] != t.index[v] {
		return
	}
	alone := t.stack[len(t.stack)-1] == int32(v)
	for {
		w := int(t.stack[len(t.stack)-1])
		t.stack = t.stack[:len(t.stack)-1]
		t.open[w] = false
		t.cyclic[w] = t.cyclic[w] || !alone
		if w == v {
			return
		}
	}
}
