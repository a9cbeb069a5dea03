package file

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/tool"
)

// Access is what one call may touch: the workspace folders of its session, opened. It
// is closed at the end of the call.
type Access struct {
	set    *fs.Set
	grants []*fs.Grant
	roots  []string
	cwd    string
}

// Open opens the workspace folders of a call. A folder that does not exist is left
// out; without any the error is no_filesystem. Nothing below the folders in deny,
// which are absolute, can be used.
func Open(s tool.Snapshot, deny []string) (*Access, error) {
	if len(s.Roots) == 0 {
		return nil, Error(abi.TypePermission, CodeNoFilesystem, "the session has no workspace folder, so no file can be used; give it one (bladehost run --root DIR).")
	}
	a := &Access{roots: s.Roots, cwd: s.Home()}
	var views []*fs.View
	var last error
	for _, root := range s.Roots {
		opt := fs.Options{Deny: denied(root, deny), Protect: fs.RecommendedProtect()}
		if len(opt.Deny) == 1 && opt.Deny[0] == "" {
			continue // the whole of it
		}
		g, err := fs.Open(root, opt)
		if err != nil {
			last = err
			continue
		}
		a.grants = append(a.grants, g)
		views = append(views, g.View(fs.Limits{MaxOpen: -1, MaxFileSize: -1, MaxWritten: -1, MaxEntries: -1}))
	}
	if len(views) == 0 {
		return nil, Error(abi.TypePermission, CodeNoFilesystem, "none of the workspace folders (%s) can be used: %v.", strings.Join(s.Roots, ", "), orDenied(last)).Because(last)
	}
	var err error
	if a.set, err = fs.NewSet(true, views...); err != nil {
		a.Close()
		return nil, Failed("open", strings.Join(s.Roots, ", "), err)
	}
	return a, nil
}

// orDenied is why a folder could not be opened; nil means that it is one of the host's own.
func orDenied(err error) string {
	if err == nil {
		return "they belong to the host itself"
	}
	return err.Error()
}

// denied are the denied folders inside root, relative and slash separated; a single
// empty string where root itself is inside one.
func denied(root string, deny []string) (out []string) {
	real := RealPath(root)
	for _, d := range deny {
		if d == "" {
			continue
		}
		d = RealPath(d)
		if rel, err := filepath.Rel(d, real); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			return []string{""}
		}
		if rel, err := filepath.Rel(real, d); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			out = append(out, filepath.ToSlash(rel))
		}
	}
	return out
}

// Close releases the folders.
func (a *Access) Close() {
	for _, g := range a.grants {
		_ = g.Close() // nothing is written through a folder's own descriptor
	}
}

// Cwd is where relative paths of the session start, or "".
func (a *Access) Cwd() string { return a.cwd }

// Target is a path in one of the folders. What it leads to is looked at by each
// operation, not before.
type Target struct {
	// Path is absolute and cleaned, for people.
	Path string
	// Dir and Rel are where operations start.
	Dir *fs.Dir
	Rel string
}

// File finds the target of an argument that must be absolute; pointer is its JSON
// Pointer.
func (a *Access) File(pointer, path string) (*Target, error) {
	if path == "" {
		return nil, Invalid(pointer, "the path is empty; give the absolute path of a file.")
	}
	if strings.IndexByte(path, 0) >= 0 {
		return nil, Invalid(pointer, "%s: %q has a NUL byte, which no path can have.", strings.TrimPrefix(pointer, "/"), path)
	}
	if !filepath.IsAbs(path) {
		hint := ""
		if a.cwd != "" {
			hint = ", perhaps " + filepath.Join(a.cwd, path)
		}
		return nil, Invalid(pointer, "%s: %q is relative; give an absolute path%s.", strings.TrimPrefix(pointer, "/"), path, hint)
	}
	return a.at(path)
}

// Folder finds the target of a search path, which may be relative to the session's
// folder (see tool.Snapshot.Home) and is that folder where it is empty.
func (a *Access) Folder(path string) (*Target, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return nil, Invalid("/path", "path: %q has a NUL byte, which no path can have.", path)
	}
	if !filepath.IsAbs(path) {
		if a.cwd == "" {
			return nil, Error(abi.TypeValidation, CodeNoSearchPath, "there is no folder to search: the session has no current folder, so path must be absolute.")
		}
		path = filepath.Join(a.cwd, path)
	}
	return a.at(path)
}

func (a *Access) at(path string) (*Target, error) {
	p, err := a.set.Resolve(path)
	if err != nil {
		return nil, Error(abi.TypePermission, CodeOutside, "%s is outside the workspace folders (%s). Use a path in one of them, or ask the user to add a folder.",
			path, strings.Join(a.roots, ", ")).With(failure{Op: "resolve", Path: path, Errno: fs.ErrnoOf(err).Code()})
	}
	return &Target{Path: p.Path, Dir: p.Dir, Rel: p.Rel}, nil
}

// Stat describes what the target leads to.
func (t *Target) Stat() (fs.Info, error) {
	st, err := t.Dir.Stat(t.Rel)
	if err != nil {
		return st, Failed("look at", t.Path, err)
	}
	return st, nil
}

// Open opens the target for reading. A directory is an error.
func (t *Target) Open() (*fs.File, fs.Info, error) {
	f, err := t.Dir.OpenFile(t.Rel, fs.OpenFlags{Read: true})
	if err != nil {
		return nil, fs.Info{}, Failed("open", t.Path, err)
	}
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = fs.EISDIR
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, fs.Info{}, Failed("open", t.Path, err)
	}
	return f, st, nil
}

// Key names the file for what is remembered of it: two spellings of one file have one
// key. It is never opened.
func (t *Target) Key() string { return RealPath(t.Path) }

// RealPath is a path after links, as far as it exists. It is for comparing names; nothing is opened by it.
func RealPath(p string) string {
	p = filepath.Clean(p)
	rest := ""
	for q := p; ; q = filepath.Dir(q) {
		if real, err := filepath.EvalSymlinks(q); err == nil {
			return filepath.Join(real, rest)
		}
		if q == filepath.Dir(q) {
			return p
		}
		rest = filepath.Join(filepath.Base(q), rest)
	}
}

// Missing is the error of a target that is not there: a link that leads nowhere is told apart.
func (t *Target) Missing(err error) error {
	if abi.CodeOf(err) != CodeNotFound || !t.Exists() {
		return err
	}
	return Error(abi.TypeExecution, CodeNotFound, "%s is a symbolic link that leads to nothing. Make the file it leads to, or have the link removed.", t.Path).Because(err)
}

// Exists reports whether something is at the target itself, a link that leads nowhere
// too.
func (t *Target) Exists() bool {
	_, err := t.Dir.Lstat(strings.TrimRight(t.Rel, "/"))
	return err == nil
}

// FolderExists reports whether the folder above the target is there.
func (t *Target) FolderExists() bool {
	st, err := t.Dir.Stat(path.Dir(strings.TrimRight(t.Rel, "/")))
	return err == nil && st.IsDir()
}
