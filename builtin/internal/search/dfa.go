package search

import (
	"bytes"
	"encoding/binary"
	"regexp/syntax"
	"slices"
)

// A pattern within lines as an automaton over ASCII: one look into a table for each byte tells which lines have a
// match. It is made as it goes. A line with any other byte in it is left to RE2, which knows characters.

// What a table may say instead of the next state.
const (
	dfaUnknown uint16 = iota // not worked out yet
	dfaMatch                 // the line has a match
	dfaOther                 // the byte is not ASCII
	dfaTooBig                // the automaton would become too large
	dfaNone                  // no line that is left has a match
	dfaStart                 // the state at the start of a line
)

// Limits of an automaton.
const (
	maxDFAStates = 1000
	maxDFAProg   = 500
	// maxDFASteps bounds the work of making it, in instructions looked at.
	maxDFASteps = 20_000_000
)

type dfa struct {
	prog  *syntax.Prog
	words bool // it asks for word boundaries
	table [][256]uint16
	// states are the instructions that are waiting for a byte, and a letter for what was in front.
	states []dfaState
	index  map[string]uint16
	steps  int

	seen  []uint32 // instructions, by the round in which they were seen
	round uint32
	stack []uint32
}

type dfaState struct {
	pcs    []uint32
	before rune // '\n', 'a' for a letter of a word, or ' '
}

// newDFA makes the automaton of a pattern within lines, or nil where it would be too large.
func newDFA(t *syntax.Regexp) *dfa {
	prog, err := syntax.Compile(t.Simplify())
	if err != nil || len(prog.Inst) > maxDFAProg {
		return nil
	}
	d := &dfa{prog: prog, index: map[string]uint16{}, seen: make([]uint32, len(prog.Inst))}
	for i := range prog.Inst {
		if x := &prog.Inst[i]; x.Op == syntax.InstEmptyWidth {
			op := syntax.EmptyOp(x.Arg)
			if op&(syntax.EmptyBeginText|syntax.EmptyEndText) != 0 {
				return nil
			}
			d.words = d.words || op&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
		}
	}
	d.table = make([][256]uint16, dfaStart)
	d.states = make([]dfaState, dfaStart)
	d.add(dfaState{before: '\n'})
	return d
}

// add makes a state.
func (d *dfa) add(s dfaState) uint16 {
	if len(d.states) >= maxDFAStates {
		return dfaTooBig
	}
	d.states = append(d.states, s)
	d.table = append(d.table, [256]uint16{})
	row := &d.table[len(d.table)-1]
	for c := 0x80; c < 0x100; c++ {
		row[c] = dfaOther
	}
	return uint16(len(d.states) - 1)
}

// scan looks at b, whole lines, and says where it stopped first, and why: at a byte of a line with a match, or
// with a byte that is not ASCII.
func (d *dfa) scan(b []byte) (at int, why uint16) {
	if len(b) >= minDFAParts {
		if at, why, ok := d.scanParts(b); ok {
			return at, why
		}
	}
	return d.scanFrom(b, 0, dfaStart)
}

// minDFAParts is the length from which on a text is looked at in several places at once.
const minDFAParts = 2 << 10

// scanFrom goes on at a byte, in a state.
func (d *dfa) scanFrom(b []byte, at int, s uint16) (int, uint16) {
	t := d.table
	for i := at; i < len(b); i++ {
		n := t[s][b[i]]
		if n < dfaStart {
			if n == dfaUnknown {
				n = d.step(s, b[i])
				t = d.table
			}
			if n < dfaStart {
				return i, n
			}
		}
		s = n
	}
	if len(b) > 0 && b[len(b)-1] != '\n' {
		n := d.table[s]['\n']
		if n == dfaUnknown {
			n = d.step(s, '\n')
		}
		if n < dfaStart {
			return len(b) - 1, n
		}
	}
	return len(b), dfaNone
}

// scanParts is scan for four parts of the lines at once: the processor waits for the table only, and four times as
// many looks into it take hardly longer. It is not ok where the lines are too long to be parted.
func (d *dfa) scanParts(b []byte) (at int, why uint16, ok bool) {
	var cut [5]int
	for k := 1; k < 4; k++ {
		i := bytes.IndexByte(b[k*len(b)/4:], '\n')
		if i < 0 {
			return 0, 0, false
		}
		cut[k] = k*len(b)/4 + i + 1
	}
	cut[4] = len(b)
	n := len(b)
	for k := range 4 {
		n = min(n, cut[k+1]-cut[k])
	}
	p0, p1, p2, p3 := b[:n], b[cut[1]:][:n], b[cut[2]:][:n], b[cut[3]:][:n]
	s0, s1, s2, s3 := dfaStart, dfaStart, dfaStart, dfaStart
	t, i := d.table, 0
	for i < n {
		n0, n1, n2, n3 := t[s0][p0[i]], t[s1][p1[i]], t[s2][p2[i]], t[s3][p3[i]]
		if min(n0, n1, n2, n3) < dfaStart {
			known := true
			for k, x := range [4]struct{ now, next uint16 }{{s0, n0}, {s1, n1}, {s2, n2}, {s3, n3}} {
				if x.next == dfaUnknown {
					d.step(x.now, b[cut[k]+i]) // the next look finds it
					known = false
				}
			}
			t = d.table
			if known || d.steps > maxDFASteps || len(d.states) >= maxDFAStates {
				break
			}
			continue
		}
		s0, s1, s2, s3 = n0, n1, n2, n3
		i++
	}
	for k, s := range [4]uint16{s0, s1, s2, s3} {
		if at, why = d.scanFrom(b[:cut[k+1]], cut[k]+i, s); why != dfaNone {
			return at, why, true
		}
	}
	return len(b), dfaNone, true
}

// step works out where a byte of ASCII leads.
func (d *dfa) step(s uint16, c byte) (next uint16) {
	if d.steps += len(d.prog.Inst); d.steps > maxDFASteps {
		return dfaTooBig
	}
	defer func() {
		if next != dfaTooBig {
			d.table[s][c] = next
		}
	}()
	from := d.states[s]
	flags := syntax.EmptyOpContext(from.before, rune(c))
	d.round++
	d.stack = append(append(d.stack[:0], from.pcs...), uint32(d.prog.Start)) // a match may begin anywhere
	var to []uint32
	for len(d.stack) > 0 {
		pc := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if d.seen[pc] == d.round {
			continue
		}
		d.seen[pc] = d.round
		x := &d.prog.Inst[pc]
		switch x.Op {
		case syntax.InstMatch:
			return dfaMatch
		case syntax.InstAlt, syntax.InstAltMatch:
			d.stack = append(d.stack, x.Out, x.Arg)
		case syntax.InstCapture, syntax.InstNop:
			d.stack = append(d.stack, x.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(x.Arg)&^flags == 0 {
				d.stack = append(d.stack, x.Out)
			}
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if x.MatchRune(rune(c)) {
				to = append(to, x.Out)
			}
		}
	}
	if c == '\n' { // nothing matches it
		return dfaStart
	}
	slices.Sort(to)
	to = slices.Compact(to)
	before := ' '
	if d.words && syntax.IsWordChar(rune(c)) {
		before = 'a'
	}
	key := binary.AppendUvarint(nil, uint64(before))
	for _, pc := range to {
		key = binary.AppendUvarint(key, uint64(pc))
	}
	if n, ok := d.index[string(key)]; ok {
		return n
	}
	n := d.add(dfaState{to, before})
	if n >= dfaStart {
		d.index[string(key)] = n
	}
	return n
}
