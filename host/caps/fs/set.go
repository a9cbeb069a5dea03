package fs

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"
)

// Set finds the grant that an absolute path belongs to. It is for native tools, whose
// paths come as text from a model. The zero value grants nothing.
type Set struct {
	views []*View // longest path first
}

// NewSet makes a set of views. A writable grant inside the tree of a read-only one is
// refused unless allowNested, since it is more often a mistake than meant.
func NewSet(allowNested bool, views ...*View) (*Set, error) {
	for _, ro := range views {
		for _, rw := range views {
			if ro.ReadOnly() && !rw.ReadOnly() && !allowNested && below(rw.g.real, ro.g.real) {
				return nil, fmt.Errorf("%s may be written but lies in %s, which may only be read: %w",
					rw.g.guest, ro.g.guest, EINVAL)
			}
		}
	}
	s := &Set{views: append([]*View(nil), views...)}
	sort.SliceStable(s.views, func(i, j int) bool { return len(s.views[i].g.guest) > len(s.views[j].g.guest) })
	return s, nil
}

// Views returns the views, longest path first.
func (s *Set) Views() []*View { return append([]*View(nil), s.views...) }

// Place is a path in a grant. Dir and Rel go into operations, Path is for people.
type Place struct {
	View *View
	Dir  *Dir
	Rel  string // relative to Dir, slash separated, "." for the folder itself
	Path string // absolute and cleaned
}

// Resolve finds where an absolute path lies. The most specific grant wins; whole
// elements are compared, so /w does not contain /w-evil. A relative path or one in no
// grant fails with ErrOutside. Links are not looked at: operations on the place refuse
// those that leave it (ErrEscape).
func (s *Set) Resolve(path string) (Place, error) {
	if !filepath.IsAbs(path) || strings.IndexByte(path, 0) >= 0 {
		return Place{}, ErrOutside
	}
	slash := strings.HasSuffix(path, "/")
	path = filepath.Clean(path)
	for _, v := range s.views {
		for _, base := range []string{v.g.guest, v.g.real} {
			if !below(path, base) {
				continue
			}
			rel, err := filepath.Rel(base, path)
			if err != nil {
				continue
			}
			rel = filepath.ToSlash(rel)
			if slash && rel != "." {
				rel += "/"
			}
			return Place{View: v, Dir: v.Root(), Rel: rel, Path: path}, nil
		}
	}
	return Place{}, ErrOutside
}

// below reports whether a path is base or in it, by whole elements and with the
// system's idea of case.
func below(path, base string) bool {
	return within(fold(filepath.ToSlash(path)), strings.TrimSuffix(fold(filepath.ToSlash(base)), "/")) || isRootDir(base)
}

func isRootDir(p string) bool { return p == "/" }
