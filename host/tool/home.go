package tool

import (
	"path/filepath"
	"strings"
)

// Home is where the relative paths of a call start: the session's current folder, if that is in one of the
// workspace folders, else the first of those. Who starts a session beside its workspace means the
// workspace. Without workspace folders it is the current folder, which may be empty.
func (s Snapshot) Home() string {
	if s.Cwd == "" || len(s.Roots) == 0 {
		return s.Cwd
	}
	cwd := filepath.Clean(s.Cwd)
	for _, r := range s.Roots {
		if real, err := filepath.EvalSymlinks(r); within(r, cwd) || (err == nil && within(real, cwd)) {
			return s.Cwd
		}
	}
	if cwd, err := filepath.EvalSymlinks(cwd); err == nil { // it may lead into one
		for _, r := range s.Roots {
			if real, err := filepath.EvalSymlinks(r); err == nil && within(real, cwd) {
				return cwd
			}
		}
	}
	return s.Roots[0]
}

func within(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
