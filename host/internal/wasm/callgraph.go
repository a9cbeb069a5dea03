package wasm

import "slices"

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
	// bounded says that the body has no loop, no indirect call and no operation
	// of unbounded length: what it does between its calls ends soon.
	bounded bool
	// loops says that it has a loop.
	loops bool
	// frame is about how much stack a call of it takes; see [Options.Depth].
	frame int64
	// light is the cost that callers pay for the function, or -1 when it has
	// checks of its own.
	light int64
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

// begin starts the next body: its number of parameters and locals, and its length.
func (g *callGraph) begin(locals, size int) {
	if g != nil {
		g.facts = append(g.facts, facts{bounded: true, from: len(g.calls), light: -1, frame: 1 + int64(locals/16) + int64(size/1024)})
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
	case opLoop:
		f.bounded, f.loops = false, true
	case opMemoryGrow:
		f.bounded = false
	case opCall:
		if int(in.x) >= imported {
			g.calls = append(g.calls, in.x-uint32(imported))
		}
	case opCallIndirect:
		f.bounded = false
		f.indirect = true
	case opRefFunc:
		g.take(in.x, imported)
	case opMisc:
		f.bounded = f.bounded && !bulky(in)
	}
}

func (g *callGraph) take(index uint32, imported int) {
	if int(index) >= imported {
		g.taken = append(g.taken, index-uint32(imported))
	}
}

const (
	// lightCost bounds what a function and the light ones it calls may cost to go
	// without an entry check; their direct callers pay for them.
	lightCost = 200
	// lightFrame is the largest frame of one: it pays no fuel for it.
	lightFrame = 4
)

// findLight finds the functions that need no check: those that end soon, or soon
// come to one that has a check. They do not call each other in a circle.
func (g *callGraph) findLight() {
	g.walk(func(v int) bool { return v == len(g.facts) || !g.facts[v].bounded }, func(v int, cyclic bool) {
		f := &g.facts[v]
		if cyclic || f.frame > lightFrame {
			return
		}
		cost := f.cost
		for _, callee := range g.out(v) {
			cost += max(0, g.facts[callee].light)
		}
		if cost <= lightCost {
			f.light = cost
		}
	})
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

// recursive says for each function whether it lies on a circle of calls. Only
// those can call each other without end; the others are at most as deep as
// there are functions. The last entry is for the node of indirect calls.
func (g *callGraph) recursive() []bool {
	cyclic := make([]bool, len(g.facts)+1)
	g.walk(func(int) bool { return false }, func(v int, c bool) { cyclic[v] = c })
	return cyclic
}

const (
	// countRounds is how often functions are chosen from what still is a circle, and
	// countWork how many calls are looked at for that, before all the rest are: some
	// 100 ms. A large Go guest takes a tenth of it.
	countRounds = 64
	countWork   = 4_000_000
	// countFrame is the largest frame of a function that leaves the counting to
	// others, countPath the most that all frames between two that count take
	// together, in units of depth.
	countFrame, countPath = 4, 1024
)

// counters chooses the functions that keep the depth, and says whether indirect
// calls do: as few as there must be so that no circle of calls is without one.
// Those that most others lead to, and that lead to most others, stand on the most
// circles and are chosen first. All is what recursive said.
func (g *callGraph) counters(all []bool) (counted []bool, indirect bool) {
	chosen := make([]bool, len(all))
	for v := range g.facts {
		chosen[v] = all[v] && g.facts[v].frame > countFrame
	}
	each := len(g.calls) + len(g.taken) + len(all)
	for range min(countRounds, countWork/each) {
		c := g.circles(chosen)
		if len(c.best) == 0 {
			if c.longest > countPath {
				break
			}
			return chosen[:len(g.facts)], chosen[len(g.facts)]
		}
		for _, v := range c.best {
			chosen[v] = true
		}
	}
	return slices.Clone(all[:len(g.facts)]), false
}

// circles is what is left of a call graph without the chosen nodes.
type circles struct {
	// best holds one node of each circle that is left, and all that call themselves.
	best []int
	// longest is the most that frames take on one path, where no circle is left.
	longest int64
}

func (g *callGraph) circles(chosen []bool) (c circles) {
	n := len(g.facts)
	component := make([]int32, n+1) // 0: not on a circle
	height := make([]int64, n+1)
	var members [][]int
	g.components(func(v int) bool { return chosen[v] }, func(list []int, cyclic bool) {
		if cyclic {
			members = append(members, list)
			for _, v := range list {
				component[v] = int32(len(members))
			}
			return
		}
		v := list[0]
		g.edges(v, func(w int) { height[v] = max(height[v], height[w]) })
		if v < n {
			height[v] += g.facts[v].frame
		}
		c.longest = max(c.longest, height[v])
	})
	in, out := make([]int64, n+1), make([]int64, n+1)
	for k, list := range members {
		self := false
		for _, v := range list {
			g.edges(v, func(w int) {
				if component[w] == int32(k+1) && !chosen[w] {
					in[w]++
					out[v]++
					if w == v && component[v] != 0 {
						self = true
						c.best = append(c.best, v)
						component[v] = 0
					}
				}
			})
		}
		if self {
			continue
		}
		best := list[0]
		for _, v := range list {
			if a, b := in[v]*out[v], in[best]*out[best]; a > b || a == b && v < best {
				best = v
			}
		}
		c.best = append(c.best, best)
	}
	return c
}

// edges calls f for each node that v leads to.
func (g *callGraph) edges(v int, f func(w int)) {
	for _, w := range g.out(v) {
		f(int(w))
	}
	if v < len(g.facts) && g.facts[v].indirect {
		f(len(g.facts))
	}
}

// walk is components for who looks at single nodes.
func (g *callGraph) walk(gone func(v int) bool, leave func(v int, cyclic bool)) {
	g.components(gone, func(list []int, cyclic bool) {
		for _, v := range list {
			leave(v, cyclic)
		}
	})
}

// components calls leave for the strongly connected components of the graph
// without the nodes that are gone, callees before callers, and says whether there is
// a circle in it. It is Tarjan's algorithm with a stack of its own.
func (g *callGraph) components(gone func(v int) bool, leave func(list []int, cyclic bool)) {
	n := len(g.facts) + 1
	t := tarjan{
		g: g, low: make([]int32, n), index: make([]int32, n), open: make([]bool, n), itself: make([]bool, n), gone: gone, leave: leave,
	}
	for v := range n {
		if t.index[v] == 0 && !gone(v) {
			t.run(v)
		}
	}
}

type tarjan struct {
	g          *callGraph
	gone       func(v int) bool
	leave      func(list []int, cyclic bool)
	low, index []int32 // 0 means not seen
	open       []bool
	itself     []bool
	stack      []int
	work       []visit
	seen       int32
}

// visit is a node whose edges up to next were followed.
type visit struct{ node, next int }

func (t *tarjan) enter(v int) {
	t.seen++
	t.index[v], t.low[v] = t.seen, t.seen
	t.open[v] = true
	t.stack = append(t.stack, v)
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
			t.finish(v)
			continue
		}
		top.next++
		switch {
		case t.gone(w):
		case t.index[w] == 0:
			t.enter(w)
		case t.open[w]:
			t.low[v] = min(t.low[v], t.index[w])
			t.itself[v] = t.itself[v] || v == w
		}
	}
}

// finish ends v, and its component when v is the first of it.
func (t *tarjan) finish(v int) {
	t.work = t.work[:len(t.work)-1]
	if k := len(t.work); k > 0 {
		up := t.work[k-1].node
		t.low[up] = min(t.low[up], t.low[v])
	}
	if t.low[v] != t.index[v] {
		return
	}
	first := len(t.stack) - 1
	for t.stack[first] != v {
		first--
	}
	list := slices.Clone(t.stack[first:])
	t.stack = t.stack[:first]
	for _, w := range list {
		t.open[w] = false
	}
	t.leave(list, len(list) > 1 || t.itself[v])
}
