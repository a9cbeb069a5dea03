package fs

import "sync/atomic"

// Limits bounds one view. A field that is zero takes its default, a negative one
// means no limit.
type Limits struct {
	MaxOpen     int64 // descriptors open at once; default 64
	MaxFileSize int64 // highest end of a file that may be written, in bytes; default 1 GiB
	MaxWritten  int64 // bytes written in all; default 4 GiB
	MaxEntries  int64 // files, directories and links created in all; default 10,000
}

// Defaults of Limits.
const (
	DefaultMaxOpen     = 64
	DefaultMaxFileSize = 1 << 30
	DefaultMaxWritten  = 4 << 30
	DefaultMaxEntries  = 10_000
)

func (l Limits) withDefaults() Limits {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&l.MaxOpen, DefaultMaxOpen)
	def(&l.MaxFileSize, DefaultMaxFileSize)
	def(&l.MaxWritten, DefaultMaxWritten)
	def(&l.MaxEntries, DefaultMaxEntries)
	return l
}

// View is a counted use of a grant. What goes through a child view (see Sub) counts
// in its parents too.
type View struct {
	g      *Grant
	parent *View
	lim    Limits
	root   Dir

	open, written, entries atomic.Int64
}

// View returns a new counted use of the grant.
func (g *Grant) View(l Limits) *View {
	v := &View{g: g, lim: l.withDefaults()}
	v.root = Dir{v: v, h: &handle{g: g, f: g.top, root: g.root, rel: ".", top: true}}
	return v
}

// Sub returns a view with limits of its own whose use also counts in v.
func (v *View) Sub(l Limits) *View {
	s := v.g.View(l)
	s.parent = v
	return s
}

// Root is the granted folder, where path operations start.
func (v *View) Root() *Dir { return &v.root }

// Grant is what the view uses.
func (v *View) Grant() *Grant { return v.g }

// ReadOnly reports whether changes are refused.
func (v *View) ReadOnly() bool { return v.g.opt.ReadOnly }

// Renew starts a new period: bytes written and entries created count from zero
// again. Descriptors that are still open stay counted. Parents are not renewed.
func (v *View) Renew() {
	v.written.Store(0)
	v.entries.Store(0)
}

// Usage is what a view has counted.
type Usage struct {
	Open, Written, Entries int64
}

// Usage returns the counters.
func (v *View) Usage() Usage {
	return Usage{Open: v.open.Load(), Written: v.written.Load(), Entries: v.entries.Load()}
}

type counter int

const (
	cOpen counter = iota
	cWritten
	cEntries
)

func (v *View) counter(c counter) (*atomic.Int64, int64) {
	switch c {
	case cOpen:
		return &v.open, v.lim.MaxOpen
	case cWritten:
		return &v.written, v.lim.MaxWritten
	}
	return &v.entries, v.lim.MaxEntries
}

// take books n in the view and its parents, or nothing at all.
func (v *View) take(c counter, n int64) bool {
	for w := v; w != nil; w = w.parent {
		ctr, limit := w.counter(c)
		if sum := ctr.Add(n); limit >= 0 && sum > limit {
			ctr.Add(-n)
			for u := v; u != w; u = u.parent {
				b, _ := u.counter(c)
				b.Add(-n)
			}
			return false
		}
	}
	return true
}

func (v *View) give(c counter, n int64) {
	for w := v; w != nil; w = w.parent {
		ctr, _ := w.counter(c)
		ctr.Add(-n)
	}
}

// maxSize is the smallest file size limit of the view and its parents, -1 for none.
func (v *View) maxSize() int64 {
	m := int64(-1)
	for w := v; w != nil; w = w.parent {
		if l := w.lim.MaxFileSize; l >= 0 && (m < 0 || l < m) {
			m = l
		}
	}
	return m
}
