package search

import (
	"cmp"
	"context"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/caps/fs"
)

// maxIgnore bounds a .gitignore, in bytes: what is larger is not read.
const maxIgnore = 1 << 20

// Walk says how a folder is walked.
type Walk struct {
	// Start is the folder.
	Start *file.Target
	// Hidden also walks names that start with a dot.
	Hidden bool
	// Enter may leave a folder out by its path; nil enters all.
	Enter func(path string) bool
	// Visit makes, for a folder by its path from Start, what takes its entries, which may keep them and which
	// returns false to end the walk. Ignored folders are visited and not entered. Both are called from several
	// goroutines at once, but for the entries of one folder from one.
	Visit func(dir string) func(e *Entry) bool
	// MaxEntries bounds the entries that are looked at; 0 means no bound.
	MaxEntries int64

	tree *fs.Tree // of Start, where it is open
}

// Entry is one name that a walk finds. It is the next one after the call.
type Entry struct {
	// Path is relative to the start of the walk.
	Path, Name string
	Type       fs.FileType
	Ignored    bool
	Hidden     bool
	// Keep makes the path one of Stats.Kept.
	Keep   bool
	folder *fs.Folder
}

// Stat looks at the entry itself. It is for Visit.
func (e *Entry) Stat() (fs.Info, error) { return e.folder.Lstat(e.Name) }

// Stats is what a walk has seen.
type Stats struct {
	Entries int64
	// Denied are the folders that could not be read.
	Denied int64
	// Full says that MaxEntries was reached.
	Full bool
	// Kept are the paths that Visit kept, in the order of ComparePaths.
	Kept []string
}

// job is a folder to be read.
type job struct {
	path  string
	rules *layer
	kept  *kept
}

// kept is what is kept of a folder: paths, and the folders in it.
type kept struct {
	list []keptEntry
}

type keptEntry struct {
	path   string
	folder *kept // of a folder
}

// append adds the paths in order.
func (k *kept) append(out []string) []string {
	for _, e := range k.list {
		if e.folder != nil {
			out = e.folder.append(out)
		} else {
			out = append(out, e.path)
		}
	}
	return out
}

type walker struct {
	Walk
	ctx context.Context

	mu      sync.Mutex
	cond    *sync.Cond
	todo    []job
	busy    int
	waiting int
	stopped atomic.Bool
	entries atomic.Int64
	denied  atomic.Int64
	full    atomic.Bool
}

// openTree opens a folder, which the caller closes.
func openTree(t *file.Target) (*fs.File, *fs.Tree, error) {
	f, err := t.Dir.OpenFile(t.Rel, fs.OpenFlags{Directory: true})
	if err != nil {
		return nil, nil, file.Failed("read the folder", t.Path, err)
	}
	tree, err := f.Tree()
	if err != nil {
		_ = f.Close() // read only
		return nil, nil, file.Failed("read the folder", t.Path, err)
	}
	return f, tree, nil
}

// Run walks. The error is that of the start, or aborted; folders that cannot be read on the way
// are counted only, as they may vanish at any time.
func (w Walk) Run(ctx context.Context) (Stats, error) {
	x := &walker{Walk: w, ctx: ctx}
	x.cond = sync.NewCond(&x.mu)
	if x.tree == nil {
		f, tree, err := openTree(w.Start)
		if err != nil {
			return Stats{}, err
		}
		defer func() { _ = f.Close() }() // read only
		x.tree = tree
	}
	top := job{rules: above(w.Start), kept: &kept{}}
	x.todo = append(x.todo, top)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 8) {
		wg.Go(x.work) // waited for below
	}
	wg.Wait()
	st := Stats{Entries: x.entries.Load(), Denied: x.denied.Load(), Full: x.full.Load(), Kept: top.kept.append(nil)}
	return st, file.Aborted(ctx)
}

// work reads folders until there are none.
func (w *walker) work() {
	var scratch []fs.DirEntry
	for {
		w.mu.Lock()
		for len(w.todo) == 0 && w.busy > 0 && !w.stopped.Load() {
			w.waiting++
			w.cond.Wait()
			w.waiting--
		}
		if len(w.todo) == 0 || w.stopped.Load() {
			w.cond.Broadcast()
			w.mu.Unlock()
			return
		}
		j := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		w.busy++
		w.mu.Unlock()
		folders := w.enter(j, &scratch)
		w.mu.Lock()
		w.todo = append(w.todo, folders...)
		if w.busy--; w.waiting > 0 && (len(w.todo) > 1 || w.busy == 0) {
			w.cond.Broadcast()
		}
		w.mu.Unlock()
	}
}

func joinPath(dir, name string) string {
	if dir == "." {
		return name
	}
	return strings.TrimRight(dir, "/") + "/" + name
}

// enter reads a folder and returns those in it.
func (w *walker) enter(j job, scratch *[]fs.DirEntry) (folders []job) {
	if w.ctx.Err() != nil {
		w.stopped.Store(true)
		return nil
	}
	f, err := w.tree.Folder(j.path)
	if err != nil {
		w.denied.Add(1)
		return nil
	}
	defer f.Close()
	list, err := f.List((*scratch)[:0])
	*scratch = list
	if err != nil {
		w.denied.Add(1)
	}
	rules := w.rules(j, list)
	visit := w.Visit(j.path)
	x := Entry{folder: f}
	for i, e := range list {
		if w.stopped.Load() || (i%1024 == 1023 && w.ctx.Err() != nil) {
			break
		}
		if n := w.entries.Add(1); w.MaxEntries > 0 && n > w.MaxEntries {
			w.full.Store(true)
			w.stop()
			break
		}
		isDir := e.Type == fs.TypeDir
		x.Name, x.Path, x.Type, x.Hidden, x.Keep = e.Name, e.Name, e.Type, e.Name[0] == '.', false
		if j.path != "" {
			x.Path = j.path + "/" + e.Name
		}
		x.Ignored = (isDir && defaultDir(e.Name)) || (!isDir && (e.Name == ".git" || defaultFile(e.Name))) || rules.ignored(x.Path, e.Name, isDir)
		if !visit(&x) {
			w.stop()
			break
		}
		if x.Keep {
			j.kept.list = append(j.kept.list, keptEntry{path: x.Path})
		}
		if isDir && !x.Ignored && (w.Hidden || !x.Hidden) && (w.Enter == nil || w.Enter(x.Path)) {
			sub := job{path: x.Path, rules: rules, kept: &kept{}}
			folders = append(folders, sub)
			j.kept.list = append(j.kept.list, keptEntry{sub.path, sub.kept})
		}
	}
	slices.SortFunc(j.kept.list, func(a, b keptEntry) int { return cmp.Compare(a.path, b.path) }) // siblings
	return folders
}

func (w *walker) stop() {
	w.stopped.Store(true)
	w.mu.Lock()
	w.cond.Broadcast()
	w.mu.Unlock()
}

// rules are those that count in a folder: what is above, and its own.
func (w *walker) rules(j job, list []fs.DirEntry) *layer {
	ignore, git := false, false
	for _, e := range list {
		switch e.Name {
		case ".gitignore":
			ignore = e.Type == fs.TypeRegular
		case ".git":
			git = true
		}
	}
	in := func(name string) string {
		if j.path != "" {
			name = j.path + "/" + name
		}
		return joinPath(w.Start.Rel, name)
	}
	rules := j.rules
	if git && j.path != "" { // a repository of its own: what is above does not count
		rules = repository(w.Start.Dir, in(exclude), j.path)
	}
	if ignore {
		if text, err := w.Start.Dir.ReadFile(in(".gitignore"), maxIgnore); err == nil {
			rules = push(rules, parseIgnore(string(text)), j.path)
		}
	}
	return rules
}

func push(up *layer, rs rules, at string) *layer {
	if len(rs) == 0 {
		return up
	}
	l := &layer{rules: rs, up: up}
	if at != "" {
		l.base = len(at) + 1
	}
	return l
}

// exclude is where a repository has rules of its own.
const exclude = ".git/info/exclude"

// repository are the rules that a repository starts with: at is its path from the start of the walk.
func repository(dir *fs.Dir, exclude, at string) *layer {
	if text, err := dir.ReadFile(exclude, maxIgnore); err == nil {
		return push(nil, parseIgnore(string(text)), at)
	}
	return nil
}

// above are the rules that count where a walk starts: those of its repository, or of the
// workspace folder, down to the start, without the start's own .gitignore.
func above(t *file.Target) *layer {
	rel := path.Clean(t.Rel)
	if rel == "." {
		return repository(t.Dir, exclude, "")
	}
	parts := strings.Split(rel, "/")
	// The nearest folder that is a repository, else the workspace folder.
	top := 0
	for k := len(parts); k >= 0; k-- {
		if _, err := t.Dir.Lstat(joinPath(path.Join(append([]string{"."}, parts[:k]...)...), ".git")); err == nil {
			top = k
			break
		}
	}
	var out *layer
	for k := top; k <= len(parts); k++ {
		at := path.Join(append([]string{"."}, parts[:k]...)...)
		prefix := strings.Join(parts[k:], "/")
		if prefix != "" {
			prefix += "/"
		}
		names := []string{".gitignore"}
		if k == top {
			names = []string{exclude, ".gitignore"}
		}
		for _, name := range names {
			if k == len(parts) && name == ".gitignore" {
				continue // the walk reads it
			}
			if text, err := t.Dir.ReadFile(joinPath(at, name), maxIgnore); err == nil {
				if rs := parseIgnore(string(text)); len(rs) > 0 {
					out = &layer{rules: rs, prefix: prefix, up: out}
				}
			}
		}
	}
	return out
}
