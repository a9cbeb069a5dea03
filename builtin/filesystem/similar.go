package filesystem

import (
	"fmt"
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
	maxCompared = 5000
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
func noMatch(t *file.Target, text, old string) *abi.Error {
	lines := strings.Split(lf(text), "\n")
	d := noMatchDetails{SearchStringLength: file.Units(old), TotalLines: len(lines), FuzzyMatches: []similar{}}
	if len(text) <= maxSearched {
		d.FuzzyMatches = resembling(lines, lf(old))
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

// resembling are the places that are more than half like old, the best first.
func resembling(lines []string, old string) []similar {
	height := strings.Count(old, "\n") + 1
	want := measure(old)
	out := []similar{}
	compared := 0
	for i := 0; i+height <= len(lines) && compared < maxCompared; i++ {
		place := start(lines[i : i+height])
		have := measure(place)
		floor := 0.5
		if len(out) == maxSimilar {
			floor = out[maxSimilar-1].Similarity
		}
		if want.bound(have) <= floor {
			continue
		}
		compared++
		s := want.similarity(have)
		if s <= floor {
			continue
		}
		preview, _ := file.Cut(strings.TrimSpace(place), 100)
		out = append(out, similar{i + 1, s, preview})
		slices.SortStableFunc(out, func(a, b similar) int {
			switch {
			case a.Similarity > b.Similarity:
				return -1
			case a.Similarity < b.Similarity:
				return 1
			}
			return 0
		})
		out = out[:min(len(out), maxSimilar)]
	}
	return out
}

// start is as much of lines as is compared.
func start(lines []string) string {
	n, size := 0, 0
	for n < len(lines) && size < 4*compareUnits {
		size += len(lines[n]) + 1
		n++
	}
	return strings.Join(lines[:n], "\n")
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
