package fs

import "strings"

// maxPath bounds the length of a path in bytes.
const maxPath = 4096

// maxLinks bounds the links followed in the last place of a path.
const maxLinks = 40

// checkPath refuses what no relative path may be.
func checkPath(p string) error {
	switch {
	case p == "":
		return ENOENT
	case len(p) > maxPath:
		return ENAMETOOLONG
	case strings.IndexByte(p, 0) >= 0:
		return EINVAL
	case isAbs(p):
		return ErrEscape
	}
	return checkOSPath(p)
}

// splitLast cuts the last element off. A last element of "." or ".." (or none) means
// the directory as a whole: base is "." then. slash reports that the path must be a
// directory.
func splitLast(p string) (dir, base string, slash bool) {
	trimmed := strings.TrimRight(p, "/")
	slash = len(trimmed) < len(p)
	i := strings.LastIndexByte(trimmed, '/')
	dir, base = trimmed[:i+1], trimmed[i+1:]
	if base == "." || base == ".." || base == "" {
		return trimmed, ".", true
	}
	return strings.TrimRight(dir, "/"), base, slash
}

// joinRel joins two slash-separated relative paths without cleaning ".." away.
func joinRel(dir, name string) string {
	switch {
	case dir == "" || dir == ".":
		return name
	case name == ".":
		return dir
	}
	return dir + "/" + name
}
