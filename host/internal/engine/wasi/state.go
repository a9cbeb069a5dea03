package wasi

import (
	"context"
	"crypto/rand"
	"io"
	"slices"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/bladehost/bladehost/host/caps/fs"
)

// Phase is where a guest is in its life.
type Phase uint8

const (
	// Run: everything the configuration gives is usable. It is the zero value.
	Run Phase = iota
	// Init: before the first call. The guest sees its arguments, environment, preopens
	// and stdio; everything that would use a granted folder fails with NOTCAPABLE.
	Init
	// AfterRet: after the result was handed over; the same as Run here.
	AfterRet
)

// Mount lends a folder under an absolute guest path.
type Mount struct {
	Guest string
	View  *fs.View
}

// Config is the world of one guest. The zero value is a guest with nothing: no
// arguments, no folders, empty stdin, output thrown away.
type Config struct {
	Args []string
	// Env holds "NAME=value".
	Env    []string
	Mounts []Mount

	// Stdin is read without regard to the context, so it must not block. nil is empty.
	Stdin io.Reader
	// Stdout and Stderr get what the guest writes; nil discards. An error ends the write
	// with errno IO.
	Stdout, Stderr io.Writer

	// FineClock gives clocks at full resolution instead of steps of a millisecond.
	FineClock bool
	// Random is the source of random_get; nil is crypto/rand.
	Random io.Reader
	// Walltime returns nanoseconds since 1970; nil is the system's clock.
	Walltime func() int64
	// Monotonic returns nanoseconds since any start; nil counts from NewState.
	Monotonic func() int64

	// Sleep waits for d or the end of ctx, whichever is first; nil uses a timer.
	Sleep func(ctx context.Context, d time.Duration)
	// Blocking is called before a wait, and what it returns after it. The engine gives
	// its place for running guests back in between. nil does nothing.
	Blocking func() (resume func())
	// OnEffect is told of each change to a folder before it is tried: the operation
	// (create, write, truncate, mkdir, rmdir, unlink, rename, link, symlink, times) and
	// the absolute guest path. nil does nothing.
	OnEffect func(op, path string)
}

// State is the world of one guest instance. It belongs to one goroutine at a time.
type State struct {
	cfg   Config
	args  []string
	env   []string
	phase Phase

	fds  []desc
	base []desc // what Reset puts back

	start  time.Time
	offset int64 // added to the monotonic clock

	mod api.Module
	mem api.Memory
	c   call
}

// monotonicStart is what a fresh monotonic clock reads: the Go runtime does not start
// with a clock that reads zero.
const monotonicStart = int64(time.Second)

// NewState makes the world of one instance. Descriptors 0 to 2 are stdio, the mounts
// follow from 3 on in the order given.
func NewState(cfg Config) *State {
	s := &State{cfg: cfg, args: cfg.Args, env: cfg.Env, start: time.Now()}
	if s.cfg.Random == nil {
		s.cfg.Random = rand.Reader
	}
	if s.cfg.Stdout == nil {
		s.cfg.Stdout = io.Discard
	}
	if s.cfg.Stderr == nil {
		s.cfg.Stderr = io.Discard
	}
	s.base = append(s.base,
		desc{kind: kindStdin, rights: stdinRights},
		desc{kind: kindStdout, rights: stdoutRights},
		desc{kind: kindStderr, rights: stdoutRights})
	for _, m := range cfg.Mounts {
		s.base = append(s.base, desc{
			kind: kindDir, dir: m.View.Root(), preopen: true, path: m.Guest,
			rights: dirRights, inherit: allRights,
		})
	}
	s.fds = append(s.fds, s.base...)
	return s
}

// SetPhase says where the guest is.
func (s *State) SetPhase(p Phase) { s.phase = p }

// SetStdio replaces the streams, for instance for the next call. nil means empty stdin
// or discarded output.
func (s *State) SetStdio(in io.Reader, out, errOut io.Writer) {
	if out == nil {
		out = io.Discard
	}
	if errOut == nil {
		errOut = io.Discard
	}
	s.cfg.Stdin, s.cfg.Stdout, s.cfg.Stderr = in, out, errOut
}

// Reset closes every descriptor the guest opened and puts the table back to that of
// NewState, or of the last Mark. Clocks go on. It is for use between two calls.
func (s *State) Reset() {
	s.closeOpened()
	clear(s.fds)
	s.fds = append(s.fds[:0], s.base...)
}

// Table is a descriptor table as a guest left it in Init, without open files.
type Table struct {
	descs []desc
	mount []int // for each, which mount it is of, or -1
}

// Table returns the table as it is now, for instances of the same world that begin
// with the memory of this one.
func (s *State) Table() Table {
	t := Table{descs: slices.Clone(s.fds)}
	for i := range t.descs {
		d := &t.descs[i]
		t.mount = append(t.mount, slices.IndexFunc(s.cfg.Mounts, func(m Mount) bool { return d.dir != nil && m.View.Root() == d.dir }))
		d.file, d.dir = nil, nil
	}
	return t
}

// SetTable puts a table in place, now and in each Reset. It must be of a state with
// the same mounts.
func (s *State) SetTable(t Table) {
	s.closeOpened()
	s.base = append(s.base[:0], t.descs...)
	for i, m := range t.mount {
		if m >= 0 {
			s.base[i].dir = s.cfg.Mounts[m].View.Root()
		}
	}
	s.fds = append(s.fds[:0], s.base...)
}

// Mark makes the table as it is now the one that Reset restores: what the guest did to
// its preopens during Init stays as its memory image remembers it. Open files are
// closed first.
func (s *State) Mark() {
	s.closeOpened()
	s.base = append(s.base[:0], s.fds...)
}

// Close is Reset for the last time.
func (s *State) Close() {
	s.closeOpened()
	s.fds = nil
}

func (s *State) closeOpened() {
	for i := range s.fds {
		d := &s.fds[i]
		if d.file == nil {
			continue
		}
		_ = d.file.Close()
		d.file = nil
		if !d.preopen {
			*d = desc{}
		}
	}
}

// OpenFiles counts the descriptors that hold a file or directory of the host.
func (s *State) OpenFiles() int {
	n := 0
	for i := range s.fds {
		if s.fds[i].file != nil {
			n++
		}
	}
	return n
}

// Monotonic is what the guest's monotonic clock reads at full resolution.
func (s *State) Monotonic() int64 {
	if s.cfg.Monotonic != nil {
		return s.cfg.Monotonic() + s.offset
	}
	return int64(time.Since(s.start)) + monotonicStart + s.offset
}

// SetMonotonicFloor moves the monotonic clock ahead so that it never reads less than
// ns. An instance that starts from another's memory image needs the clock of that image.
func (s *State) SetMonotonicFloor(ns int64) {
	if now := s.Monotonic(); now < ns {
		s.offset += ns - now
	}
}

func (s *State) walltime() int64 {
	if s.cfg.Walltime != nil {
		return s.cfg.Walltime()
	}
	return time.Now().UnixNano()
}

// clockStep is the resolution of clocks in nanoseconds.
func (s *State) clockStep() int64 {
	if s.cfg.FineClock {
		return 1
	}
	return int64(time.Millisecond)
}

func (s *State) effect(op, path string) {
	if s.cfg.OnEffect != nil {
		s.cfg.OnEffect(op, path)
	}
}
