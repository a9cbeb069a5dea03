package fs

import (
	"io"
	"math"
	"os"
	"sync"
)

// File is an open regular file or directory. Its position is kept here, not in the
// kernel.
type File struct {
	v    *View
	f    *os.File
	dir  bool
	rel  string
	base Dir

	mu     sync.Mutex
	o      OpenFlags
	pos    int64
	closed bool
	list   listing
}

// begin locks the file for an operation.
func (f *File) begin() error {
	if f.v.g.revoked.Load() {
		return ErrRevoked
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return EBADF
	}
	return nil
}

// IsDir reports whether it is a directory.
func (f *File) IsDir() bool { return f.dir }

// Dir returns the directory as the start of paths, ENOTDIR for a file. It is valid
// until Close.
func (f *File) Dir() (*Dir, error) {
	if !f.dir {
		return nil, ENOTDIR
	}
	return &f.base, nil
}

// Flags returns the flags as they are now.
func (f *File) Flags() OpenFlags {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.o
}

// Close releases the descriptor. A second Close fails with EBADF.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return EBADF
	}
	f.closed = true
	f.list = listing{}
	f.v.give(cOpen, 1)
	if f.dir {
		return fail(f.base.h.close())
	}
	return fail(f.f.Close())
}

func (f *File) canRead() error {
	switch {
	case f.dir:
		return EISDIR
	case !f.o.Read:
		return EBADF
	}
	return nil
}

func (f *File) canWrite() error {
	switch {
	case f.dir:
		return EISDIR
	case !f.o.Write:
		return EBADF
	}
	return nil
}

// Read reads at the position and moves it. At the end it returns 0 and io.EOF.
func (f *File) Read(b []byte) (int, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	defer f.mu.Unlock()
	n, err := f.pread(b, f.pos)
	f.pos += int64(n)
	return n, err
}

// ReadAt reads at off (pread); less than asked for only at the end, with io.EOF.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	defer f.mu.Unlock()
	return f.pread(b, off)
}

func (f *File) pread(b []byte, off int64) (int, error) {
	if err := f.canRead(); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, EINVAL
	}
	if len(b) == 0 {
		return 0, nil
	}
	n, err := f.f.ReadAt(b, off)
	if err == io.EOF {
		return n, io.EOF
	}
	return n, fail(err)
}

// Write writes at the position, or at the end in append mode, and moves the position
// behind it.
func (f *File) Write(b []byte) (int, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	defer f.mu.Unlock()
	if err := f.canWrite(); err != nil {
		return 0, err
	}
	if len(b) == 0 {
		return 0, nil
	}
	if f.o.Append {
		return f.writeEnd(b)
	}
	n, err := f.pwrite(b, f.pos)
	f.pos += int64(n)
	return n, err
}

// WriteAt writes at off (pwrite) without moving the position. On Linux an append-mode
// file appends all the same.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	defer f.mu.Unlock()
	if err := f.canWrite(); err != nil {
		return 0, err
	}
	return f.pwrite(b, off)
}

// writeEnd appends. Where the system has an append mode, that is used.
func (f *File) writeEnd(b []byte) (int, error) {
	st, err := f.v.g.be.fstat(f.f, f.rel)
	if err != nil {
		return 0, fail(err)
	}
	n, err := f.put(b, st.Size, appendFile)
	f.pos = st.Size + int64(n)
	if end, e := f.v.g.be.fstat(f.f, f.rel); e == nil && n == len(b) {
		f.pos = end.Size
	}
	return n, err
}

func (f *File) pwrite(b []byte, off int64) (int, error) { return f.put(b, off, writeAt) }

// put books and writes.
func (f *File) put(b []byte, off int64, write func(*os.File, []byte, int64) (int, error)) (int, error) {
	if off < 0 {
		return 0, EINVAL
	}
	if len(b) == 0 {
		return 0, nil
	}
	end := off + int64(len(b))
	if f.o.Append {
		if st, err := f.v.g.be.fstat(f.f, f.rel); err == nil {
			end = max(end, st.Size+int64(len(b)))
		}
	}
	if end < 0 || f.tooBig(end) {
		return 0, EFBIG
	}
	if !f.v.take(cWritten, int64(len(b))) {
		return 0, EDQUOT
	}
	n, err := write(f.f, b, off)
	if n < len(b) {
		f.v.give(cWritten, int64(len(b)-n))
	}
	if err == nil {
		err = f.flush()
	}
	return n, fail(err)
}

func (f *File) tooBig(end int64) bool {
	m := f.v.maxSize()
	return m >= 0 && end > m
}

func (f *File) flush() error {
	switch {
	case f.o.Sync:
		return f.f.Sync()
	case f.o.Datasync:
		return datasync(f.f)
	}
	return nil
}

// Seek sets the position; whence is io.SeekStart, SeekCurrent or SeekEnd. A position
// behind the end is allowed.
func (f *File) Seek(off int64, whence int) (int64, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	defer f.mu.Unlock()
	if f.dir {
		return 0, EISDIR
	}
	var from int64
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		from = f.pos
	case io.SeekEnd:
		st, err := f.v.g.be.fstat(f.f, f.rel)
		if err != nil {
			return 0, fail(err)
		}
		from = st.Size
	default:
		return 0, EINVAL
	}
	if off > 0 && from > math.MaxInt64-off {
		return 0, EOVERFLOW
	}
	if from+off < 0 {
		return 0, EINVAL
	}
	f.pos = from + off
	return f.pos, nil
}

// SetFlags changes append and flush behaviour of the open file.
func (f *File) SetFlags(appendMode, sync, datasync bool) error {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if !f.dir && appendMode != f.o.Append {
		if err := setAppend(f.f, appendMode); err != nil {
			return fail(err)
		}
	}
	f.o.Append, f.o.Sync, f.o.Datasync = appendMode, sync, datasync
	return nil
}

// Stat describes the open file.
func (f *File) Stat() (Info, error) {
	if err := f.begin(); err != nil {
		return Info{}, err
	}
	defer f.mu.Unlock()
	st, err := f.v.g.be.fstat(f.f, f.rel)
	return st, fail(err)
}

// Truncate sets the size; what is added reads as zero.
func (f *File) Truncate(size int64) error {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if f.dir {
		return EINVAL
	}
	if err := f.canWrite(); err != nil {
		return err
	}
	switch {
	case size < 0:
		return EINVAL
	case f.tooBig(size):
		return EFBIG
	}
	return fail(f.f.Truncate(size))
}

// Allocate makes the file at least off+n bytes long.
func (f *File) Allocate(off, n int64) error {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if f.dir {
		return EBADF
	}
	if err := f.canWrite(); err != nil {
		return err
	}
	if off < 0 || n <= 0 {
		return EINVAL
	}
	if off > math.MaxInt64-n || f.tooBig(off+n) {
		return EFBIG
	}
	st, err := f.v.g.be.fstat(f.f, f.rel)
	if err != nil || st.Size >= off+n {
		return fail(err)
	}
	return fail(f.f.Truncate(off + n))
}

// Sync flushes data and metadata to the disk.
func (f *File) Sync() error {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.mu.Unlock()
	return fail(f.f.Sync())
}

// Datasync flushes the data to the disk.
func (f *File) Datasync() error {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.mu.Unlock()
	return fail(datasync(f.f))
}

// SetTimes sets the time stamps of the open file.
func (f *File) SetTimes(atim, mtim TimeSet) error {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if f.v.g.opt.ReadOnly {
		return EROFS
	}
	if atim.omit() && mtim.omit() {
		return nil
	}
	return fail(setFileTimes(f.f, atim, mtim))
}
