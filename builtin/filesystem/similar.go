package filesystem

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
)

// Limits of looking for what may have been meant.
const (
	// compareUnits is how much of a text is compared.
	compareUnits = 200
	// maxSimilar is how many places are named.
	maxSimilar = 3
	// maxCompared bounds the comparisons, each of up to compareUnits² steps.
	maxCompared = 4000
	// maxMeasured bounds the text that is prepared for comparing, in bytes.
	maxMeasured = 8 << 20
	// maxHinted bounds the places that share a line with what was looked for, and go first.
	maxHinted = 4000
	// maxRepeats is how many of the same line in what was looked for count.
	maxRepeats = 4
	// maxSearched is the largest text that is looked through, in bytes.
	maxSearched = 8 << 20
)

// similar is a place that resembles a text that was not found.
type similar struct {
	Line       int     `json:"line"`
	Similarity float64 `json:"similarity"`
	Preview    string  `json:"preview"`
}

// noMatchDetails is the details of no_match.
type noMatchDetails struct {
	SearchStringLength int       `json:"searchStringLength"`
	FuzzyMatches       []similar `json:"fuzzyMatches"`
	ExcerptRange       [2]int    `json:"excerptRange"`
	TotalLines         int       `json:"totalLines"`
}

// noMatch is the error of an old_string that is nowhere, with what may have been meant.
func noMatch(ctx context.Context, t *file.Target, text, old string) *abi.Error {
	lines := strings.Split(lf(text), "\n")
	d := noMatchDetails{SearchStringLength: file.Units(old), TotalLines: len(lines), FuzzyMatches: []similar{}}
	if len(text) <= maxSearched {
		d.FuzzyMatches = resembling(ctx, lines, lf(old))
	}
	from, to := 0, min(20, len(lines))
	if len(d.FuzzyMatches) > 0 {
		from, to = max(0, d.FuzzyMatches[0].Line-10), min(len(lines), d.FuzzyMatches[0].Line+10)
	}
	d.ExcerptRange = [2]int{from + 1, to}
	var b strings.Builder
	short, cut := file.Cut(old, 300)
	if cut {
		short += "…"
	}
	fmt.Fprintf(&b, "old_string is not in %s (%d lines). It must be there letter by letter, blanks and line ends included. Looked for:\n%s\n", t.Path, len(lines), short)
	if len(d.FuzzyMatches) > 0 {
		b.WriteString("\nSimilar places:\n")
		for _, s := range d.FuzzyMatches {
			fmt.Fprintf(&b, "- line %d (%d %%): %s\n", s.Line, int(s.Similarity*100+0.5), s.Preview)
		}
	}
	fmt.Fprintf(&b, "\nLines %d to %d are:\n", from+1, to)
	for i, l := range lines[from:to] {
		l, _ = file.Cut(l, compareUnits)
		fmt.Fprintf(&b, "    %4d: %s\n", from+1+i, l)
	}
	b.WriteString("\nRead the file and repeat the call with the text as it is.")
	return file.Error(abi.TypeExecution, file.CodeNoMatch, "%s", b.String()).With(d)
}

// resembling are the places that are more than half like old, the best first. The work is bounded whatever
// the texts are; in a large file, places that share a line with old go first.
func resembling(ctx context.Context, lines []string, old string) []similar {
	l := &looker{ctx: ctx, lines: lines, height: strings.Count(old, "\n") + 1, want: measure(old), out: []similar{}}
	l.all(old)
	return l.out
}

// all compares places until it has done enough.
func (l *looker) all(old string) {
	seen := map[int]bool{}
	for _, i := range hinted(l.ctx, l.lines, old) {
		if seen[i] = true; !l.look(i) {
			return
		}
	}
	for i := 0; i+l.height <= len(l.lines); i++ {
		if !seen[i] && !l.look(i) {
			return
		}
	}
}

// hinted are the places where a line is as in old, those with the most such lines first.
func hinted(ctx context.Context, lines []string, old string) []int {
	want := strings.Split(old, "\n")
	at := map[string][]int{}
	for k, line := range want {
		if line = strings.TrimSpace(line); len(line) > 3 && len(at[line]) < maxRepeats {
			at[line] = append(at[line], k)
		}
	}
	votes := map[int]int{}
	for i, line := range lines {
		if i%1024 == 0 && ctx.Err() != nil {
			break
		}
		for _, k := range at[strings.TrimSpace(line)] {
			if place := i - k; place >= 0 && place+len(want) <= len(lines) {
				votes[place]++
			}
		}
		if len(votes) > 16*maxHinted { // lines that are everywhere tell nothing
			break
		}
	}
	out := slices.SortedFunc(maps.Keys(votes), func(a, b int) int { return cmp.Or(votes[b]-votes[a], a-b) })
	return out[:min(len(out), maxHinted)]
}

// looker compares one place after the other, until it has done enough.
type looker struct {
	ctx                context.Context
	lines              []string
	height             int
	want               measured
	out                []similar
	compared, measured int
}

// look compares the place at a line; false ends it.
func (l *looker) look(i int) bool {
	if l.ctx.Err() != nil || l.compared >= maxCompared || l.measured >= maxMeasured {
		return false
	}
	place := start(l.lines[i : i+l.height])
	l.measured += len(place) + 64
	have := measure(place)
	floor := 0.5
	if len(l.out) == maxSimilar {
		floor = l.out[maxSimilar-1].Similarity
	}
	if l.want.bound(have) <= floor {
		return true
	}
	l.compared++
	s := l.want.similarity(have)
	if s <= floor {
		return true
	}
	preview, _ := file.Cut(strings.TrimSpace(place), 100)
	l.out = append(l.out, similar{i + 1, s, preview})
	slices.SortStableFunc(l.out, func(a, b similar) int { return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), a.Line-b.Line) })
	l.out = l.out[:min(len(l.out), maxSimilar)]
	return true
}

// start is as much of lines as is compared.
func start(lines []string) string {
	n, size := 0, 0
	for n < len(lines) && size < 4*compareUnits {
		size += len(lines[n]) + 1
		n++
	}
	text, _ := file.Cut(strings.Join(lines[:n], "\n"), 4*compareUnits) // one line can be the whole file
	return text
}

// measured is a text as it is compared: blanks joined, quotes straight, the start of it.
type measured struct {
	runes []rune
	count [64]int16 // letters by their low bits
}

func measure(s string) (m measured) {
	s, _ = file.Cut(s, 4*compareUnits) // blanks are joined next
	s, _ = file.Cut(straight.Replace(strings.Join(strings.Fields(s), " ")), compareUnits)
	m.runes = []rune(s)
	for _, r := range m.runes {
		m.count[r%64]++
	}
	return m
}

// bound is what the similarity is at most: each letter more or less in one of the texts
// costs a step.
func (m *measured) bound(o measured) float64 {
	longest := max(len(m.runes), len(o.runes))
	if longest == 0 {
		return 0
	}
	more, less := 0, 0
	for i := range m.count {
		if d := int(m.count[i]) - int(o.count[i]); d > 0 {
			more += d
		} else {
			less -= d
		}
	}
	return 1 - float64(max(more, less))/float64(longest)
}

// similarity is 1 less the edit distance in parts of the longer text.
func (m *measured) similarity(o measured) float64 {
	a, b := m.runes, o.runes
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diag := row[0]
		row[0] = i + 1
		for j := range b {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return 1 - float64(row[len(b)])/float64(max(len(a), len(b)))
}
