package search

import "strings"

// A pattern of a .gitignore as Git reads it. Git looks at bytes, not characters, and its "**" has
// a meaning only as a whole element of a path. A pattern is compiled to steps, and matched by
// keeping the set of steps that can be reached: the time is the product of the lengths, whatever
// the pattern.

type stepKind uint8

const (
	stepByte  stepKind = iota
	stepAny            // one byte, not the slash in a path
	stepClass          // one byte of a set
	stepStar           // any bytes, not the slash in a path
	stepDeep           // any bytes
	stepDirs           // nothing, or what stepIn takes
	stepIn             // any bytes that end in a slash; only behind stepDirs
)

type step struct {
	kind  stepKind
	b     byte
	class *[256]bool
}

// wild is a compiled pattern. A nil one matches nothing.
type wild struct {
	steps []step
	// literal is the whole pattern where it has no special letters; suffix is what is behind the star
	// of a pattern such as *.log.
	literal, suffix string
	plain, star     bool
	// prefix is what a path has to start with before the steps begin. Git takes the letters in front
	// of the first special one off before it looks at the rest, so that "a**/b" finds ab.
	prefix string
}

// compileWild compiles a pattern; path says that it is matched against a path, where
// slashes count.
func compileWild(p string, path bool) *wild {
	if !strings.ContainsAny(p, `*?[\`) {
		return &wild{literal: p, plain: true}
	}
	if !path && p[0] == '*' && !strings.ContainsAny(p[1:], `*?[\`) {
		return &wild{suffix: p[1:], star: true}
	}
	w := &wild{}
	if path {
		i := strings.IndexAny(p, `*?[\`)
		w.prefix, p = p[:i], p[i:]
	}
	for i := 0; i < len(p); {
		switch c := p[i]; c {
		case '\\':
			if i+1 == len(p) {
				return nil // it escapes nothing
			}
			w.add(step{kind: stepByte, b: p[i+1]})
			i += 2
		case '?':
			w.add(step{kind: stepAny})
			i++
		case '*':
			i = w.stars(p, i, path)
		case '[':
			class, n := parseClass(p[i:])
			if class == nil {
				return nil
			}
			if path {
				class['/'] = false
			}
			w.add(step{kind: stepClass, class: class})
			i += n
		default:
			w.add(step{kind: stepByte, b: c})
			i++
		}
	}
	if !path { // a name has no slash
		for i := range w.steps {
			if w.steps[i].kind == stepStar {
				w.steps[i].kind = stepDeep
			}
		}
	}
	return w
}

func (w *wild) add(s step) { w.steps = append(w.steps, s) }

// stars compiles a run of stars at i and returns where the pattern goes on.
func (w *wild) stars(p string, i int, path bool) int {
	k := i
	for k < len(p) && p[k] == '*' {
		k++
	}
	element := k-i >= 2 && path && (i == 0 || p[i-1] == '/')
	switch {
	case element && k == len(p), element && strings.HasPrefix(p[k:], `\/`):
		w.add(step{kind: stepDeep})
	case element && p[k] == '/':
		w.add(step{kind: stepDirs})
		w.add(step{kind: stepIn})
		return k + 1
	default:
		w.add(step{kind: stepStar})
	}
	return k
}

// classes are the named sets of bytes.
func namedClass(name string, c byte) (in, known bool) {
	lower, upper, digit := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9'
	switch name {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < 0x20 || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return c > 0x20 && c < 0x7f, true
	case "lower":
		return lower, true
	case "print":
		return c >= 0x20 && c < 0x7f, true
	case "punct":
		return c > 0x20 && c < 0x7f && !lower && !upper && !digit, true
	case "space":
		return c == ' ' || (c >= '\t' && c <= '\r'), true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'), true
	}
	return false, false
}

// parseClass reads a set at the start of p, and how long it is. A set without an end is nil.
func parseClass(p string) (*[256]bool, int) {
	var set [256]bool
	i := 1
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	last, have := byte(0), false // the start of a range
	for first := true; ; first = false {
		if i >= len(p) {
			return nil, 0
		}
		c := p[i]
		switch {
		case c == ']' && !first:
			if negated {
				for k := range set {
					set[k] = !set[k]
				}
			}
			return &set, i + 1
		case c == '-' && have && i+1 < len(p) && p[i+1] != ']':
			i++
			if c = p[i]; c == '\\' {
				if i++; i >= len(p) {
					return nil, 0
				}
				c = p[i]
			}
			for k := int(last); k <= int(c); k++ {
				set[k] = true
			}
			have = false
		case c == '[' && i+1 < len(p) && p[i+1] == ':':
			end := strings.IndexByte(p[i+2:], ']')
			if end < 0 {
				return nil, 0
			}
			name := p[i+2 : i+2+end]
			if !strings.HasSuffix(name, ":") { // no name after all
				set['['] = true
				last, have = '[', true
				break
			}
			name = strings.TrimSuffix(name, ":")
			for k := range set {
				in, known := namedClass(name, byte(k))
				if !known {
					return nil, 0
				}
				set[k] = set[k] || in
			}
			i += 2 + end
			have = false
		default:
			if c == '\\' {
				if i++; i >= len(p) {
					return nil, 0
				}
				c = p[i]
			}
			set[c] = true
			last, have = c, true
		}
		i++
	}
}

// match reports whether the whole of s fits.
func (w *wild) match(s string) bool {
	switch {
	case w == nil:
		return false
	case w.plain:
		return s == w.literal
	case w.star:
		return len(s) >= len(w.suffix) && s[len(s)-len(w.suffix):] == w.suffix
	}
	s, ok := strings.CutPrefix(s, w.prefix)
	if !ok {
		return false
	}
	n := len(w.steps)
	now, next := make([]bool, n+1), make([]bool, n+1)
	now[0] = true
	w.skip(now)
	for i := 0; i < len(s); i++ {
		c, some := s[i], false
		clear(next)
		for k, st := range w.steps {
			if !now[k] {
				continue
			}
			switch st.kind {
			case stepByte:
				next[k+1] = next[k+1] || c == st.b
			case stepAny:
				next[k+1] = next[k+1] || c != '/'
			case stepClass:
				next[k+1] = next[k+1] || st.class[c]
			case stepStar:
				next[k] = next[k] || c != '/'
			case stepDeep:
				next[k] = true
			case stepIn:
				next[k] = true
				next[k+1] = next[k+1] || c == '/'
			}
		}
		w.skip(next)
		for _, b := range next {
			some = some || b
		}
		if !some {
			return false
		}
		now, next = next, now
	}
	return now[n]
}

// skip goes on over steps that may be nothing.
func (w *wild) skip(set []bool) {
	for k, st := range w.steps {
		switch {
		case !set[k]:
		case st.kind == stepStar, st.kind == stepDeep:
			set[k+1] = true
		case st.kind == stepDirs:
			set[k+1], set[k+2] = true, true
		}
	}
}
