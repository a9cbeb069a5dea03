package search

import (
	"cmp"
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/caps/fs"
)

// Limits of Glob.
const (
	// MaxGlobEntries is how many names one Glob looks at.
	MaxGlobEntries = 500_000
	// MaxGlobTime is how long one Glob may take.
	MaxGlobTime = 20 * time.Second
)

// GlobQuery is what to find.
type GlobQuery struct {
	// Start is the folder, Pattern a doublestar pattern for paths below it.
	Start   *file.Target
	Pattern string
	// Max is how many matches are returned.
	Max int
	// Dirs also finds folders and links; CaseSensitive tells letters' cases apart.
	Dirs, CaseSensitive bool
}

// Match is a file that was found.
type Match struct {
	// Path is relative to the start, slash separated.
	Path string
	Info fs.Info
}

// GlobAnswer is what was found: folders last, the newest first.
type GlobAnswer struct {
	Matches []Match
	// Found is how many there are in all, as far as was looked.
	Found int
	// Incomplete says that the walk ended early, and Why by which limit.
	Incomplete bool
	Why        string
	// Denied are the folders that could not be read.
	Denied int64
}

// Limits of glob patterns: each alternative of {a,b} is tried with each of the others.
const (
	maxGlobPattern = 4096
	maxAlternates  = 4096
)

// CheckGlob refuses a pattern that would take too long to match; the error is invalid_arguments for the
// argument at pointer.
func CheckGlob(pointer, text string) error {
	if len(text) > maxGlobPattern {
		return file.Invalid(pointer, "the pattern has %d bytes; at most %d are allowed.", len(text), maxGlobPattern)
	}
	if alternatives(text) > maxAlternates {
		return file.Invalid(pointer, "the pattern has too many alternatives in braces: all of them together make more than %d patterns.", maxAlternates)
	}
	return nil
}

// alternatives is how many patterns the braces of a pattern stand for, or more, and a large
// number where there are too many to count.
func alternatives(text string) int {
	total, open := 1, []int{}
	for i := 0; i < len(text) && total <= maxAlternates; i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			open = append(open, 1)
		case ',':
			if n := len(open); n > 0 {
				open[n-1]++
			}
		case '}':
			if n := len(open); n > 0 {
				total *= open[n-1]
				open = open[:n-1]
			}
		}
	}
	return total
}

// pattern is a glob pattern, ready to match.
type pattern struct {
	text string
	fold bool
	// parts are its elements, nil where they cannot be told apart.
	parts []string
}

// newPattern prepares a pattern; ok is false where it cannot match anything: ill-formed, with a slash
// at its end, a "!" in front, or leading upwards.
func newPattern(text string, fold bool) (p pattern, ok bool) {
	text = strings.TrimPrefix(text, "./")
	if fold {
		text = strings.ToLower(text)
	}
	if text == "" || text[0] == '!' || strings.HasSuffix(text, "/") || !doublestar.ValidatePattern(text) {
		return p, false
	}
	parts := strings.Split(text, "/")
	if slices.Contains(parts, "..") {
		return p, false
	}
	p = pattern{text: text, fold: fold}
	for _, x := range parts {
		// A group with slashes in it, or with a ** that is an element where the group is one.
		if !doublestar.ValidatePattern(x) || (strings.Contains(x, "{") && strings.Contains(x, "**")) {
			return p, true
		}
	}
	p.parts = parts
	return p, true
}

func (p *pattern) match(name string) bool {
	if p.fold {
		name = strings.ToLower(name)
	}
	return doublestar.MatchUnvalidated(p.text, name)
}

// below reports whether something below a folder could match.
func (p *pattern) below(dir string) bool {
	if p.parts == nil {
		return true
	}
	if p.fold {
		dir = strings.ToLower(dir)
	}
	for i, name := range strings.Split(dir, "/") {
		switch {
		case i >= len(p.parts)-1:
			return p.parts[len(p.parts)-1] == "**"
		case p.parts[i] == "**":
			return true
		case !doublestar.MatchUnvalidated(p.parts[i], name):
			return false
		}
	}
	return true
}

// Relative makes an absolute pattern relative to start, or to the folder it names itself; base is
// that folder, or "" for start.
func Relative(start, text string) (base, rest string) {
	if !filepath.IsAbs(text) {
		return "", text
	}
	text = filepath.ToSlash(text)
	if rest, ok := strings.CutPrefix(text, strings.TrimSuffix(filepath.ToSlash(start), "/")+"/"); ok {
		return "", rest
	}
	return doublestar.SplitPattern(text)
}

// Glob finds files by a pattern.
func Glob(ctx context.Context, q GlobQuery) (GlobAnswer, error) {
	p, ok := newPattern(q.Pattern, !q.CaseSensitive)
	if !ok {
		return GlobAnswer{}, nil
	}
	limited, cancel := context.WithTimeout(ctx, MaxGlobTime)
	defer cancel()
	var mu sync.Mutex
	best := newest{most: q.Max}
	st, err := Walk{
		Start: q.Start, Hidden: true, Enter: p.below, MaxEntries: MaxGlobEntries,
		Visit: func(string) func(*Entry) bool {
			return func(e *Entry) bool {
				if e.Ignored || (e.Type != fs.TypeRegular && !q.Dirs) || !p.match(e.Path) {
					return true
				}
				info, err := e.Stat()
				if err != nil {
					return true // it has gone
				}
				mu.Lock()
				best.add(Match{e.Path, info})
				mu.Unlock()
				return true
			}
		},
	}.Run(limited)
	if e := file.Aborted(ctx); e != nil {
		return GlobAnswer{}, e
	}
	a := GlobAnswer{Denied: st.Denied}
	switch {
	case limited.Err() != nil:
		a.Incomplete, a.Why = true, "it took more than "+MaxGlobTime.String()
	case err != nil:
		return GlobAnswer{}, err
	case st.Full:
		a.Incomplete, a.Why = true, "there are too many files"
	}
	a.Matches, a.Found = best.sorted(), best.found
	return a, nil
}

// newest keeps the first matches of an order.
type newest struct {
	most, found int
	list        []Match
	// last is the last of the first ones so far, once there are enough: what comes behind it is only
	// counted.
	last *Match
}

func (n *newest) add(m Match) {
	n.found++
	if n.last != nil && inOrder(m, *n.last) > 0 {
		return
	}
	n.list = append(n.list, m)
	if len(n.list) >= 2*n.most+100 {
		n.list = n.sorted()
		last := n.list[len(n.list)-1]
		n.last = &last
	}
}

func (n *newest) sorted() []Match {
	slices.SortFunc(n.list, inOrder)
	return n.list[:min(len(n.list), n.most)]
}

// inOrder is the order of matches: files before folders, the newest first, then by path.
func inOrder(a, b Match) int {
	if a.Info.IsDir() != b.Info.IsDir() {
		if a.Info.IsDir() {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(b.Info.Mtim, a.Info.Mtim), ComparePaths(a.Path, b.Path))
}

// ComparePaths orders paths by their elements.
func ComparePaths(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] != b[i] {
			switch {
			case a[i] == '/':
				return -1
			case b[i] == '/':
				return 1
			}
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

// fileGlob is a filter of Grep: a pattern without a slash is for names at any depth, "!" in front
// leaves out what matches.
type fileGlob struct {
	p       pattern
	negated bool
	path    bool
}

// newFileGlob prepares a filter; the error is invalid_arguments.
func newFileGlob(text string) (g fileGlob, err error) {
	g.negated = strings.HasPrefix(text, "!")
	text = strings.TrimPrefix(text, "!")
	g.path = strings.Contains(strings.TrimPrefix(text, "/"), "/") || strings.HasPrefix(text, "/")
	text = strings.TrimPrefix(text, "/")
	p, ok := newPattern(text, false)
	if !ok {
		return g, file.Invalid("/glob", "glob %q is no pattern; examples are *.go, src/**/*.ts and *.{js,ts}.", text)
	}
	g.p = p
	return g, CheckGlob("/glob", text)
}

func (g *fileGlob) match(p string) bool {
	if !g.path {
		return g.p.match(path.Base(p))
	}
	return g.p.match(p)
}
