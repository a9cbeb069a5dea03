// Package faulty makes SQLite's files fail on purpose: the n-th write, sync,
// truncation, removal or opening of a file. It is for tests of what happens then.
package faulty

import (
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Op is a kind of operation on a file.
type Op string

// Operations.
const (
	Open     Op = "open"
	Write    Op = "write"
	Sync     Op = "sync"
	Truncate Op = "truncate"
	Delete   Op = "delete"
)

// Ops lists all kinds.
func Ops() []Op { return []Op{Open, Write, Sync, Truncate, Delete} }

// VFS is a layer over SQLite's default VFS. SQLite keeps its name as long as the
// process lasts; the caller keeps the VFS as long as files are open with it.
type VFS struct {
	name string

	mu sync.Mutex
	op Op
	// left counts down to the operation that fails; sticky lets all after it fail
	// too.
	left   int
	sticky bool
	hit    int

	vfs     *lib.Tsqlite3_vfs
	base    *lib.Tsqlite3_vfs
	methods map[uintptr]*lib.Tsqlite3_io_methods
	// kept are the functions that SQLite has addresses of.
	kept []any
}

// New registers a layer under a name that must be new in the process.
func New(name string) (*VFS, error) {
	tls := libc.NewTLS()
	defer tls.Close()
	base := lib.Xsqlite3_vfs_find(tls, 0)
	if base == 0 {
		return nil, fmt.Errorf("faulty: SQLite has no VFS")
	}
	zName, err := libc.CString(name)
	if err != nil {
		return nil, err
	}
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	if p == 0 {
		return nil, fmt.Errorf("faulty: out of memory")
	}
	f := &VFS{name: name, methods: map[uintptr]*lib.Tsqlite3_io_methods{}}
	f.base, f.vfs = at[lib.Tsqlite3_vfs](base), at[lib.Tsqlite3_vfs](p)
	*f.vfs = *f.base
	f.vfs.FzName, f.vfs.FpNext = zName, 0
	f.vfs.FxOpen, f.vfs.FxDelete = pointer(f, f.open), pointer(f, f.remove)
	if rc := lib.Xsqlite3_vfs_register(tls, p, 0); rc != lib.SQLITE_OK {
		return nil, fmt.Errorf("faulty: the VFS was refused (%d)", rc)
	}
	return f, nil
}

// Name is what Options.VFS takes.
func (f *VFS) Name() string { return f.name }

// Fail lets the n-th operation of a kind fail, counted from now and from 1; with
// sticky all after it too.
func (f *VFS) Fail(op Op, n int, sticky bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.op, f.left, f.sticky, f.hit = op, n, sticky, 0
}

// Mend lets nothing fail, and says how often something did.
func (f *VFS) Mend() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.op = ""
	return f.hit
}

// fails counts one operation and says whether it fails.
func (f *VFS) fails(op Op) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.op != op {
		return false
	}
	f.left--
	if f.left == 0 || (f.left < 0 && f.sticky) {
		f.hit++
		return true
	}
	return false
}

// at is C memory as a Go type. It is not the Go heap's, so it does not move.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// pointer is a Go function as SQLite's translation calls it: the word that a func
// value is.
func pointer[F any](f *VFS, fn F) uintptr {
	keep := &fn
	f.kept = append(f.kept, keep)
	return *(*uintptr)(unsafe.Pointer(keep))
}

func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

type openFunc = func(tls *libc.TLS, vfs, path, file uintptr, flags int32, out uintptr) int32

func (f *VFS) open(tls *libc.TLS, vfs, path, file uintptr, flags int32, out uintptr) int32 {
	if f.fails(Open) {
		at[lib.Tsqlite3_file](file).FpMethods = 0
		return lib.SQLITE_CANTOPEN
	}
	rc := function[openFunc](f.base.FxOpen)(tls, vfs, path, file, flags, out)
	if h := at[lib.Tsqlite3_file](file); rc == lib.SQLITE_OK && h.FpMethods != 0 {
		h.FpMethods = f.wrap(tls, h.FpMethods)
	}
	return rc
}

func (f *VFS) remove(tls *libc.TLS, vfs, path uintptr, dir int32) int32 {
	if f.fails(Delete) {
		return lib.SQLITE_IOERR_DELETE
	}
	return function[func(*libc.TLS, uintptr, uintptr, int32) int32](f.base.FxDelete)(tls, vfs, path, dir)
}

// wrap is a table of methods like another one, of which some may fail.
func (f *VFS) wrap(tls *libc.TLS, table uintptr) uintptr {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.methods[table]; m != nil {
		return uintptr(unsafe.Pointer(m))
	}
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
	if p == 0 {
		return table
	}
	m, base := at[lib.Tsqlite3_io_methods](p), at[lib.Tsqlite3_io_methods](table)
	*m = *base
	write := function[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](base.FxWrite)
	m.FxWrite = pointer(f, func(tls *libc.TLS, file, buf uintptr, n int32, off int64) int32 {
		if f.fails(Write) {
			if half := n / 2; half > 0 { // what a disk does that is full
				_ = write(tls, file, buf, half, off)
			}
			return lib.SQLITE_IOERR_WRITE
		}
		return write(tls, file, buf, n, off)
	})
	truncate := function[func(*libc.TLS, uintptr, int64) int32](base.FxTruncate)
	m.FxTruncate = pointer(f, func(tls *libc.TLS, file uintptr, n int64) int32 {
		if f.fails(Truncate) {
			return lib.SQLITE_IOERR_TRUNCATE
		}
		return truncate(tls, file, n)
	})
	flush := function[func(*libc.TLS, uintptr, int32) int32](base.FxSync)
	m.FxSync = pointer(f, func(tls *libc.TLS, file uintptr, flags int32) int32 {
		if f.fails(Sync) {
			return lib.SQLITE_IOERR_FSYNC
		}
		return flush(tls, file, flags)
	})
	f.methods[table] = m
	return p
}
