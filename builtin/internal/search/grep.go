package search

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/caps/fs"
)

// Limits of Grep.
const (
	// MaxGrepTime is how long one Grep may take.
	MaxGrepTime = 30 * time.Second
	// MaxGrepOutput bounds the text of all hits, in bytes.
	MaxGrepOutput = 10 << 20
	// maxGrepFiles bounds the files of one Grep.
	maxGrepFiles = 1_000_000
)

// Mode is what Grep tells of a file.
type Mode string

// Modes.
const (
	ModeFiles   Mode = "files_with_matches"
	ModeContent Mode = "content"
	ModeCount   Mode = "count"
)

// GrepQuery is what to look for.
type GrepQuery struct {
	// Start is a folder or a file.
	Start   *file.Target
	Pattern string
	// Glob and Type choose files; empty means all that are not ignored.
	Glob, Type string
	Mode       Mode
	Fold       bool
	Multiline  bool
	// Before and After are lines of context.
	Before, After int
	// Enough is how many entries are needed; 0 means all.
	Enough int
	// Secret tells, for an absolute folder without links, which names in it are of files that a search over a
	// folder leaves out; nil means none. A start that is a file is searched whatever it says.
	Secret func(folder string) func(name string) bool
	// Ripgrep is the program that is asked which files may match, or empty.
	Ripgrep string

	plain    bool          // tests: RE2 finds all lines
	window   int           // tests: how much of a file is in memory at once
	patience time.Duration // tests: in the place of MaxGrepTime
}

// Hit is a line with a match.
type Hit struct {
	Number int
	Text   string
	// Cut says that Text is the start of a longer line.
	Cut           bool
	Before, After []string
}

// FileHits are the matches in one file.
type FileHits struct {
	// Path is absolute.
	Path  string
	Hits  []Hit // of ModeContent
	Count int   // of ModeCount, and 1 of ModeFiles

	size int  // bytes of the hits
	cut  bool // there are more hits than are kept
}

// entries is how many entries of a result it makes.
func (f *FileHits) entries(m Mode) int {
	if m == ModeContent {
		return len(f.Hits)
	}
	return 1
}

// GrepAnswer is what was found, by path.
type GrepAnswer struct {
	Files []FileHits
	// Strategy is how: ripgrep where it was asked first, else native.
	Strategy string
	// Searched is how many files there were to be searched.
	Searched int
	// Incomplete says that not all was searched, and Why.
	Incomplete bool
	Why        string
	// Skipped are files and folders that could not be read.
	Skipped int64
	// Secrets are files left out because of GrepQuery.Secret.
	Secrets int64
	// Binary says that the start is a file that is no text, so that nothing was looked for.
	Binary bool
}

// Grep looks for a pattern in files.
func Grep(ctx context.Context, q GrepQuery) (GrepAnswer, error) {
	re, err := compile(q.Pattern, q.Fold, q.Multiline)
	if err != nil {
		return GrepAnswer{}, err
	}
	sel, err := newSelection(q)
	if err != nil {
		return GrepAnswer{}, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, cmp.Or(q.patience, MaxGrepTime), errTooLong)
	defer cancel()
	g := &grep{ctx: limited, q: q, re: re, base: strings.TrimSuffix(q.Start.Path, string(filepath.Separator)) + string(filepath.Separator)}
	a := GrepAnswer{Strategy: "native"}
	st, err := q.Start.Stat()
	switch {
	case err != nil:
		return a, err
	case st.IsDir():
		var f *fs.File
		if f, g.tree, err = openTree(q.Start); err == nil {
			defer func() { _ = f.Close() }() // read only
			err = g.list(sel, &a)
		}
	case !st.IsRegular():
		return a, file.Failed("search", q.Start.Path, fs.ErrNotRegular)
	default:
		g.files = []string{""}
	}
	if err == nil {
		a.Searched = len(g.files)
		if st.IsDir() && q.Ripgrep != "" && re.rust != "" && len(g.files) > 0 {
			if g.narrow(q.Ripgrep) {
				a.Strategy = "ripgrep"
			}
		}
		g.run(&a)
		a.Skipped += g.skipped.Load()
		if !st.IsDir() {
			a.Binary = g.binary.Load()
			err = g.failed
		}
	}
	if e := file.Aborted(ctx); e != nil {
		return a, e
	}
	if limited.Err() != nil {
		return a, file.Error(abi.TypeTimeout, file.CodeTimeout, "the search took more than %v. Search a smaller folder, or narrow it with glob or type.", MaxGrepTime)
	}
	return a, err
}

var errTooLong = errors.New("the search took too long")

// grep is one search.
type grep struct {
	ctx   context.Context
	q     GrepQuery
	re    *regex
	files []string        // relative to the start; "" is the start itself
	tree  *fs.Tree        // of a start that is a folder
	base  string          // the start's path and a separator
	own   map[string]bool // files that ripgrep is not asked about

	results []*FileHits
	done    []bool
	next    atomic.Int64
	stopped atomic.Bool
	skipped atomic.Int64
	binary  atomic.Bool // a file that is no text was passed over
	failed  error       // why the start, which is a file, could not be searched

	mu       sync.Mutex
	frontier int // files below it are done
	entries  int // of the files below the frontier
	bytes    int // of all hits
	full     bool
	cut      bool // the answer ends at the frontier
}

// list finds the files of a folder that are to be searched.
func (g *grep) list(sel *selection, a *GrepAnswer) error {
	real := file.RealPath(g.q.Start.Path) // below it the walk follows no link
	var found, secrets atomic.Int64
	visit := func(dir string) func(*Entry) bool {
		secret := func(string) bool { return false }
		if g.q.Secret != nil {
			secret = g.q.Secret(filepath.Join(real, filepath.FromSlash(dir)))
		}
		return func(e *Entry) bool {
			switch {
			case e.Type != fs.TypeRegular || !sel.takes(e):
				return true
			case secret(e.Name):
				secrets.Add(1)
				return true
			}
			e.Keep = true
			return found.Add(1) < maxGrepFiles
		}
	}
	st, err := Walk{Start: g.q.Start, tree: g.tree, Hidden: sel.hidden, MaxEntries: 4 * maxGrepFiles, Visit: visit}.Run(g.ctx)
	if err != nil {
		return err
	}
	g.files, a.Secrets = st.Kept, secrets.Load()
	a.Skipped = st.Denied
	if st.Full || len(g.files) >= maxGrepFiles {
		a.Incomplete, a.Why = true, "there are too many files"
	}
	return nil
}

// run searches the files, in parallel, and stops when enough entries are known from the
// start of the list on.
func (g *grep) run(a *GrepAnswer) {
	g.results, g.done = make([]*FileHits, len(g.files)), make([]bool, len(g.files))
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 8, len(g.files)) {
		wg.Go(func() { // waited for below
			s := &searcher{g: g, finder: newFinder(g.re)}
			defer s.close()
			for !g.stopped.Load() && g.ctx.Err() == nil {
				i := int(g.next.Add(1)) - 1
				if i >= len(g.files) {
					return
				}
				g.settle(i, s.file(g.files[i]))
			}
		})
	}
	wg.Wait()
	for i := range g.frontier {
		if r := g.results[i]; r != nil {
			a.Files = append(a.Files, *r)
		}
	}
	if g.full {
		a.Incomplete, a.Why = true, "there is too much to return"
	}
}

// settle takes the result of a file.
func (g *grep) settle(i int, r *FileHits) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.results[i], g.done[i] = r, true
	for !g.cut && g.frontier < len(g.done) && g.done[g.frontier] {
		if r := g.results[g.frontier]; r != nil {
			g.entries += r.entries(g.q.Mode)
			g.bytes += len(r.Path) + r.size
			g.full = g.full || r.cut
		}
		g.frontier++
		if g.bytes > MaxGrepOutput {
			g.full, g.cut = g.full || g.frontier < len(g.done), true
		}
		if g.q.Enough > 0 && g.entries >= g.q.Enough {
			g.cut = true
		}
		if g.cut { // what others find behind this file does not count
			g.stopped.Store(true)
		}
	}
}

// path is the absolute path of a file.
func (g *grep) path(rel string) string {
	if rel == "" {
		return g.q.Start.Path
	}
	return g.base + filepath.FromSlash(rel)
}

// selection is which files of a folder are searched.
type selection struct {
	glob   *fileGlob
	types  []*wild
	hidden bool
}

func newSelection(q GrepQuery) (*selection, error) {
	s := &selection{}
	if q.Glob != "" {
		g, err := newFileGlob(q.Glob)
		if err != nil {
			return nil, err
		}
		s.glob = &g
		// A pattern that names hidden things wants them.
		s.hidden = !g.negated && (strings.HasPrefix(g.p.text, ".") || strings.Contains(g.p.text, "/."))
	}
	if q.Type != "" {
		list, ok := types()[q.Type]
		if !ok {
			return nil, unknownType(q.Type)
		}
		for _, p := range list {
			s.types = append(s.types, compileWild(p, false))
		}
	}
	return s, nil
}

func unknownType(name string) error {
	var near []string
	for t, globs := range types() {
		if len(name) > 0 && (strings.HasPrefix(t, name[:1]) || strings.Contains(t, name) || slices.Contains(globs, "*."+name)) {
			near = append(near, t)
		}
	}
	shared := func(t string) (n int) { // letters at the start
		for n < len(t) && n < len(name) && t[n] == name[n] {
			n++
		}
		return n
	}
	slices.SortFunc(near, func(a, b string) int { return cmp.Or(shared(b)-shared(a), cmp.Compare(a, b)) })
	short, _ := file.Cut(name, 60)
	hint := ""
	if len(near) > 0 {
		hint = " Known are for instance " + strings.Join(near[:min(len(near), 12)], ", ") + "."
	}
	return file.Error(abi.TypeValidation, file.CodeUnknownType, "there is no file type %q.%s A glob such as *.go chooses files too.", short, hint)
}

// takes reports whether an entry is searched. A glob that names a file brings it back though it is
// ignored or hidden, as long as its folder is not.
func (s *selection) takes(e *Entry) bool {
	named := s.glob != nil && s.glob.match(e.Path)
	switch {
	case s.glob != nil && named == s.glob.negated:
		return false
	case (e.Ignored || e.Hidden) && (s.glob == nil || s.glob.negated):
		return false
	}
	if s.types == nil {
		return true
	}
	return slices.ContainsFunc(s.types, func(w *wild) bool { return w.match(e.Name) })
}

// Check is nil for a query that can run: bad_regex, unknown_type and invalid_arguments are found
// without a search.
func Check(q GrepQuery) error {
	if _, err := newSelection(q); err != nil {
		return err
	}
	_, err := compile(q.Pattern, q.Fold, q.Multiline)
	return err
}
