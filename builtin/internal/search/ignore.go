package search

import "strings"

// rule is a line of a .gitignore.
type rule struct {
	pattern *wild
	negated bool
	dirOnly bool
	// path says that the pattern is matched against the path below the file's folder,
	// not against the name.
	path bool
}

// rules are the lines of one .gitignore, in order.
type rules []rule

// parseIgnore reads a .gitignore.
func parseIgnore(text string) (out rules) {
	text = strings.TrimPrefix(text, "\xef\xbb\xbf")
	for line := range strings.SplitSeq(text, "\n") {
		if r, ok := parseRule(strings.TrimSuffix(line, "\r")); ok {
			out = append(out, r)
		}
	}
	return out
}

// maxRule is the longest line that counts, in bytes: no path is longer.
const maxRule = 4096

func parseRule(line string) (r rule, ok bool) {
	line = trimBlanks(line)
	if line == "" || line[0] == '#' || len(line) > maxRule {
		return r, false
	}
	if line[0] == '!' {
		r.negated = true
		line = line[1:]
	}
	if rest, cut := strings.CutSuffix(line, "/"); cut {
		r.dirOnly = true
		line = rest
	}
	if line == "" {
		return r, false
	}
	if strings.Contains(line, "/") {
		r.path = true
		line = strings.TrimPrefix(line, "/")
	}
	r.pattern = compileWild(line, r.path)
	return r, r.pattern != nil
}

// trimBlanks cuts blanks off the end, except one behind a backslash.
func trimBlanks(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(s))
	}
	return s[:end]
}

// judge is what the lines say about a path below their folder, and its name: the last one that
// matches counts.
func (rs rules) judge(path, name string, dir bool) (ignored, decided bool) {
	for i := len(rs) - 1; i >= 0; i-- {
		r := &rs[i]
		if r.dirOnly && !dir {
			continue
		}
		s := name
		if r.path {
			s = path
		}
		if r.pattern.match(s) {
			return !r.negated, true
		}
	}
	return false, false
}

// layer is the lines that count in a folder and below it, over those of the folders above.
type layer struct {
	rules rules
	// base is the length of the folder's path and the slash behind it, in paths from the start of the walk;
	// prefix is put in front of them for folders above the start.
	base   int
	prefix string
	up     *layer
}

// ignored reports whether a path from the start of the walk is ignored.
func (l *layer) ignored(path, name string, dir bool) bool {
	for ; l != nil; l = l.up {
		rel := path
		if l.prefix != "" {
			rel = l.prefix + path
		} else {
			rel = path[l.base:]
		}
		if ignored, decided := l.rules.judge(rel, name, dir); decided {
			return ignored
		}
	}
	return false
}

// Names that are ignored without a .gitignore, at every depth.
func defaultDir(name string) bool {
	switch name {
	case "node_modules", ".git", "dist", "build", "out", ".next", ".nuxt", ".cache", ".parcel-cache", "coverage",
		".nyc_output", ".idea", ".vscode", ".vs", "bower_components", "jspm_packages":
		return true
	}
	return false
}

func defaultFile(name string) bool {
	switch name {
	case "package-lock.json", "yarn.lock", "pnpm-lock.yaml", ".DS_Store", "Thumbs.db":
		return true
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		switch name[i:] {
		case ".log", ".lock", ".tmp", ".temp", ".swp", ".bak", ".pid", ".seed":
			return true
		}
	}
	return strings.HasSuffix(name, "~") || strings.HasPrefix(name, "npm-debug.log") ||
		strings.HasPrefix(name, "yarn-debug.log") || strings.HasPrefix(name, "pnpm-debug.log")
}
