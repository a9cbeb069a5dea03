package search

import "bytes"

// finder finds the lines with a match of a pattern within lines: first by a text that every match has, or by an
// automaton, and by RE2 what these do not know. It is used by one goroutine.
type finder struct {
	re  *regex
	dfa *dfa
	// asked are the lines that RE2 was asked about, and seen the bytes that were looked at, of one buffer.
	asked, seen int
}

func newFinder(re *regex) *finder {
	f := &finder{re: re}
	if re.lines && !re.literal {
		f.dfa = newDFA(re.tree)
	}
	return f
}

// What next finds.
type found int

const (
	foundNone found = iota
	foundLine
	foundLong // from start on it is shorter to give all to RE2
)

// minNeed is the length of a text that is looked for before the automaton: a shorter one is nearly everywhere.
const minNeed = 2

// next finds the first line with a match in buf[at:to], whole lines; stop is where it ends, without its LF.
func (f *finder) next(buf []byte, at, to int) (start, stop int, what found) {
	need := f.re.need
	switch {
	case f.re.literal, len(need) >= minNeed:
	case f.dfa == nil:
		return at, 0, foundLong
	default:
		return f.scan(buf, at, to)
	}
	for at < to {
		i := bytes.Index(buf[at:to], need)
		if i < 0 {
			return 0, 0, foundNone
		}
		start, stop = lineAt(buf, at, at+i, to)
		if f.re.literal {
			return start, stop, foundLine
		}
		f.seen += stop + 1 - at
		switch f.line(buf[start:stop]) {
		case foundLine:
			return start, stop, foundLine
		case foundLong:
			return start, 0, foundLong
		}
		at = stop + 1
	}
	return 0, 0, foundNone
}

// lineAt is the line at i of the lines in buf[at:to].
func lineAt(buf []byte, at, i, to int) (start, stop int) {
	start, stop = at+bytes.LastIndexByte(buf[at:i], '\n')+1, to
	if k := bytes.IndexByte(buf[i:to], '\n'); k >= 0 {
		stop = i + k
	}
	return start, stop
}

// line says whether a line has a match.
func (f *finder) line(line []byte) found {
	if f.dfa != nil && len(line) > 0 {
		switch _, why := f.dfa.scan(line); why {
		case dfaMatch:
			return foundLine
		case dfaNone:
			return foundNone
		case dfaTooBig:
			f.dfa = nil
		}
	}
	return f.ask(line)
}

// ask gives a line to RE2, unless most of them are.
func (f *finder) ask(line []byte) found {
	if f.asked++; f.asked > 20 && f.asked*600 > f.seen {
		return foundLong
	}
	if f.re.re.Match(line) {
		return foundLine
	}
	return foundNone
}

// scan is next by the automaton.
func (f *finder) scan(buf []byte, at, to int) (start, stop int, what found) {
	for at < to {
		i, why := f.dfa.scan(buf[at:to])
		f.seen += i
		if why == dfaNone {
			return 0, 0, foundNone
		}
		start, stop = lineAt(buf, at, at+i, to)
		switch why {
		case dfaMatch:
			return start, stop, foundLine
		case dfaTooBig:
			f.dfa = nil
			return start, 0, foundLong
		}
		if what := f.ask(buf[start:stop]); what != foundNone {
			return start, stop, what
		}
		at = stop + 1
	}
	return 0, 0, foundNone
}
