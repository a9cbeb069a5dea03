package search

import (
	"context"
	"path"
	"runtime"
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
	// Visit takes an entry: its path from Start, slash separated, what it is, whether it
	// is ignored or hidden, and the folder that holds it. Ignored folders are visited and not entered. It is called
	// from several goroutines at once and returns false to end the walk.
	Visit func(e Entry) bool
	// MaxEntries bounds the entries that are looked at; 0 means no bound.
	MaxEntries int64
}

// Entry is one name that a walk finds.
type Entry struct {
	// Path is relative to the start of the walk.
	Path, Name string
	Type       fs.FileType
	Ignored    bool
	Hidden     bool
	dir        *fs.Dir
}

// Stat looks at the entry itself. It is for Visit.
func (e *Entry) Stat() (fs.Info, error) { return e.dir.Lstat(e.Name) }

// Stats is what a walk has seen.
type Stats struct {
	Entries int64
	// Denied are the folders that could not be read.
	Denied int64
	// Full says that MaxEntries was reached.
	Full bool
}

// job is a folder to be read.
type job struct {
	path  string
	rules *layer
}

type walker struct {
	Walk
	ctx context.Context

	mu      sync.Mutex
	cond    *sync.Cond
	todo    []job
	busy    int
	stopped atomic.Bool
	entries atomic.Int64
	denied  atomic.Int64
	full    atomic.Bool
}

// Run walks. The error is that of the start, or aborted; folders that cannot be read on the way
// are counted only, as they may vanish at any time.
func (w Walk) Run(ctx context.Context) (Stats, error) {
	x := &walker{Walk: w, ctx: ctx}
	x.cond = sync.NewCond(&x.mu)
	f, err := w.Start.Dir.OpenFile(w.Start.Rel, fs.OpenFlags{Directory: true})
	if err != nil {
		return Stats{}, file.Failed("read the folder", w.Start.Path, err)
	}
	rules := above(w.Start)
	x.folder(f, "", rules)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 8) {
		wg.Go(x.work) // waited for below
	}
	wg.Wait()
	st := Stats{Entries: x.entries.Load(), Denied: x.denied.Load(), Full: x.full.Load()}
	return st, file.Aborted(ctx)
}

// work reads folders until there are none.
func (w *walker) work() {
	for {
		w.mu.Lock()
		for len(w.todo) == 0 && w.busy > 0 && !w.stopped.Load() {
			w.cond.Wait()
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
		w.enter(j)
		w.mu.Lock()
		w.busy--
		w.cond.Broadcast()
		w.mu.Unlock()
	}
}

// enter opens a folder by its path from the start, without following a link in the last place.
func (w *walker) enter(j job) {
	if w.ctx.Err() != nil {
		w.stopped.Store(true)
		return
	}
	f, err := w.Start.Dir.OpenFile(joinPath(w.Start.Rel, j.path), fs.OpenFlags{Directory: true, NoFollow: true})
	if err != nil {
		w.denied.Add(1)
		return
	}
	w.folder(f, j.path, j.rules)
}

func joinPath(dir, name string) string {
	if dir == "." {
		return name
	}
	return strings.TrimRight(dir, "/") + "/" + name
}

// folder reads an open folder, and closes it.
func (w *walker) folder(f *fs.File, at string, rules *layer) {
	defer func() { _ = f.Close() }() // read only
	dir, err := f.Dir()
	if err != nil {
		w.denied.Add(1)
		return
	}
	list, ignore, git := w.names(f)
	if git && at != "" { // a repository of its own: what is above does not count
		rules = repository(dir, at)
	}
	if ignore {
		if text, err := dir.ReadFile(".gitignore", maxIgnore); err == nil {
			rules = push(rules, parseIgnore(string(text)), at)
		}
	}
	var folders []job
	for _, e := range list {
		if w.stopped.Load() || w.ctx.Err() != nil {
			return
		}
		if n := w.entries.Add(1); w.MaxEntries > 0 && n > w.MaxEntries {
			w.full.Store(true)
			w.stop()
			return
		}
		p := e.Name
		if at != "" {
			p = at + "/" + e.Name
		}
		isDir := e.Type == fs.TypeDir
		x := Entry{Path: p, Name: e.Name, Type: e.Type, Hidden: e.Name[0] == '.', dir: dir}
		x.Ignored = (isDir && defaultDir(e.Name)) || (!isDir && (e.Name == ".git" || defaultFile(e.Name))) || rules.ignored(p, e.Name, isDir)
		if !w.Visit(x) {
			w.stop()
			return
		}
		if isDir && !x.Ignored && (w.Hidden || !x.Hidden) && (w.Enter == nil || w.Enter(p)) {
			folders = append(folders, job{path: p, rules: rules})
		}
	}
	if len(folders) > 0 {
		w.mu.Lock()
		w.todo = append(w.todo, folders...)
		w.cond.Broadcast()
		w.mu.Unlock()
	}
}

func (w *walker) stop() {
	w.stopped.Store(true)
	w.mu.Lock()
	w.cond.Broadcast()
	w.mu.Unlock()
}

// names are the entries of a folder, and whether .gitignore and .git are among them.
func (w *walker) names(f *fs.File) (list []fs.DirEntry, ignore, git bool) {
	cookie := uint64(0)
	for {
		batch, err := f.ReadDir(cookie, 1024)
		if err != nil {
			w.denied.Add(1)
			return list, ignore, git
		}
		if len(batch) == 0 {
			return list, ignore, git
		}
		for _, e := range batch {
			cookie = e.Next
			switch e.Name {
			case ".", "..":
				continue
			case ".gitignore":
				ignore = e.Type == fs.TypeRegular
			case ".git":
				git = true
			}
			list = append(list, e)
		}
	}
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

// repository are the rules that a repository starts with.
func repository(dir *fs.Dir, at string) *layer {
	if text, err := dir.ReadFile(".git/info/exclude", maxIgnore); err == nil {
		return push(nil, parseIgnore(string(text)), at)
	}
	return nil
}

// above are the rules that count where a walk starts: those of its repository, or of the
// workspace folder, down to the start, without the start's own .gitignore.
func above(t *file.Target) *layer {
	rel := path.Clean(t.Rel)
	if rel == "." {
		return repository(t.Dir, "")
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
			names = []string{".git/info/exclude", ".gitignore"}
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
