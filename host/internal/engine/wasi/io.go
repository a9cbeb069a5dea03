package wasi

import (
	"errors"
	"io"
	"math"

	"github.com/bladehost/bladehost/host/caps/fs"
)

// maxVectors bounds the buffers of one read or write, as IOV_MAX does.
const maxVectors = 1024

// maxTransfer bounds the bytes of one read or write; the rest is a short count.
const maxTransfer = math.MaxInt32

// maxChunk is how much is moved between two looks at the context.
const maxChunk = 4 << 20

// vectors calls f with each buffer of the list at parameters i and i+1 until f is
// short or fails, and returns the sum. After some bytes an error is a short count.
func (c *call) vectors(i int, f func(b []byte) (int, Errno)) (uint32, Errno) {
	n := c.u32(i + 1)
	if n > maxVectors {
		return 0, ErrnoInval
	}
	list, e := c.out(i, n*8)
	if e != 0 {
		return 0, e
	}
	for at := 0; at < len(list); at += 8 { // all of them, before anything happens
		if _, e := c.bytes(get32(list[at:]), get32(list[at+4:])); e != 0 {
			return 0, e
		}
	}
	total, look := 0, maxChunk
	for at := 0; at < len(list); at += 8 {
		b, e := c.bytes(get32(list[at:]), get32(list[at+4:]))
		if e != 0 {
			return 0, e
		}
		b = b[:min(len(b), maxTransfer-total)]
		for len(b) > 0 {
			chunk := b[:min(len(b), maxChunk)]
			n, e := f(chunk)
			total += n
			switch {
			case e != 0 && total == 0:
				return 0, e
			case e != 0, n < len(chunk):
				return uint32(total), ErrnoSuccess
			}
			b = b[n:]
			if total >= look {
				if c.ctx.Err() != nil {
					return uint32(total), ErrnoSuccess
				}
				look = total + maxChunk
			}
		}
	}
	return uint32(total), ErrnoSuccess
}

// transfer runs vectors and writes the count to parameter res, whose pointer is
// checked first.
func (c *call) transfer(res int, f func(b []byte) (int, Errno)) Errno {
	out, e := c.out(res, 4)
	if e != 0 {
		return e
	}
	n, e := c.vectors(1, f)
	if e != 0 {
		return e
	}
	put32(out, n)
	return ErrnoSuccess
}

func readResult(n int, err error) (int, Errno) {
	if err == io.EOF {
		return n, ErrnoSuccess
	}
	return n, errnoOf(err)
}

func fdRead(c *call) Errno {
	d, e := c.s.readDesc(c.u32(0), rightFdRead)
	if e != 0 {
		return e
	}
	if d.kind == kindStdin {
		in := c.s.cfg.Stdin
		return c.transfer(3, func(b []byte) (int, Errno) {
			if in == nil {
				return 0, ErrnoSuccess
			}
			n, err := in.Read(b)
			if err != nil && !errors.Is(err, io.EOF) {
				return n, ErrnoIo
			}
			return n, ErrnoSuccess
		})
	}
	f, e := c.s.fileOf(d)
	if e != 0 {
		return e
	}
	return c.transfer(3, func(b []byte) (int, Errno) { return readResult(f.Read(b)) })
}

// readDesc and writeDesc return a descriptor that can be read or written: a
// directory is ISDIR, a missing right BADF, as POSIX programs expect.
func (s *State) readDesc(fd uint32, r rights) (*desc, Errno)  { return s.ioDesc(fd, rightFdRead, r) }
func (s *State) writeDesc(fd uint32, r rights) (*desc, Errno) { return s.ioDesc(fd, rightFdWrite, r) }

func (s *State) ioDesc(fd uint32, main, all rights) (*desc, Errno) {
	d, e := s.get(fd)
	switch {
	case e != 0:
		return nil, e
	case d.kind == kindDir:
		return nil, ErrnoIsdir
	case d.rights&main == 0:
		return nil, ErrnoBadf
	case d.stdio() && all&rightFdSeek != 0:
		return nil, ErrnoSpipe
	case d.rights&all != all:
		return nil, ErrnoNotcapable
	}
	return d, ErrnoSuccess
}

func fdPread(c *call) Errno {
	d, e := c.s.readDesc(c.u32(0), rightFdRead|rightFdSeek)
	if e != 0 {
		return e
	}
	f, e := c.s.fileOf(d)
	if e != 0 {
		return e
	}
	off := int64(c.u64(3))
	return c.transfer(4, func(b []byte) (int, Errno) {
		n, e := readResult(f.ReadAt(b, off))
		off += int64(n)
		return n, e
	})
}

func fdWrite(c *call) Errno {
	d, e := c.s.writeDesc(c.u32(0), rightFdWrite)
	if e != 0 {
		return e
	}
	if d.stdio() {
		w := c.s.cfg.Stdout
		if d.kind == kindStderr {
			w = c.s.cfg.Stderr
		}
		return c.transfer(3, func(b []byte) (int, Errno) {
			n, err := w.Write(b)
			if err != nil {
				return n, ErrnoIo
			}
			return n, ErrnoSuccess
		})
	}
	f, e := c.s.fileOf(d)
	if e != 0 {
		return e
	}
	return c.transfer(3, func(b []byte) (int, Errno) {
		n, err := f.Write(b)
		return n, errnoOf(err)
	})
}

func fdPwrite(c *call) Errno {
	d, e := c.s.writeDesc(c.u32(0), rightFdWrite|rightFdSeek)
	if e != 0 {
		return e
	}
	f, e := c.s.fileOf(d)
	if e != 0 {
		return e
	}
	off := int64(c.u64(3))
	return c.transfer(4, func(b []byte) (int, Errno) {
		n, err := f.WriteAt(b, off)
		off += int64(n)
		return n, errnoOf(err)
	})
}

func fdSeek(c *call) Errno {
	whence := int(c.u32(2) & 0xff)
	need := rightFdSeek
	if whence == io.SeekCurrent && c.u64(1) == 0 {
		need = rightFdTell // a seek that goes nowhere is a tell
	}
	return c.seek(3, int64(c.u64(1)), whence, need)
}

func fdTell(c *call) Errno { return c.seek(1, 0, io.SeekCurrent, rightFdTell) }

func (c *call) seek(res int, off int64, whence int, r rights) Errno {
	d, e := c.s.get(c.u32(0))
	switch {
	case e != 0:
		return e
	case d.stdio():
		return ErrnoSpipe
	case d.kind == kindDir:
		return ErrnoIsdir
	case d.rights&r == 0 && d.rights&rightFdSeek == 0:
		return ErrnoNotcapable
	}
	out, e := c.out(res, 8)
	if e != 0 {
		return e
	}
	f, e := c.s.fileOf(d)
	if e != 0 {
		return e
	}
	pos, err := f.Seek(off, whence)
	if err != nil {
		return errnoOf(err)
	}
	put64(out, uint64(pos))
	return ErrnoSuccess
}

// withFile runs f on the file of the descriptor in parameter 0, if it has the rights.
func (c *call) withFile(r rights, f func(*fs.File) error) Errno {
	d, e := c.s.need(c.u32(0), r)
	if e != 0 {
		return e
	}
	file, e := c.s.fileOf(d)
	if e != 0 {
		return e
	}
	return errnoOf(f(file))
}

func fdSync(c *call) Errno     { return c.flush(rightFdSync, (*fs.File).Sync) }
func fdDatasync(c *call) Errno { return c.flush(rightFdDatasync, (*fs.File).Datasync) }

// flush does nothing for stdio. It may wait for a disk.
func (c *call) flush(r rights, f func(*fs.File) error) Errno {
	if d, e := c.s.need(c.u32(0), r); e != 0 || d.stdio() {
		return e
	}
	defer c.blocking()()
	return c.withFile(r, f)
}

const maxAdvice = 5

func fdAdvise(c *call) Errno {
	if c.u32(3)&0xff > maxAdvice || int64(c.u64(1)) < 0 || int64(c.u64(2)) < 0 {
		return ErrnoInval
	}
	d, e := c.s.get(c.u32(0))
	switch {
	case e != 0:
		return e
	case d.stdio():
		return ErrnoSpipe
	case d.kind == kindDir:
		return ErrnoBadf
	case d.rights&rightFdAdvise == 0:
		return ErrnoNotcapable
	}
	return ErrnoSuccess
}

func fdAllocate(c *call) Errno {
	return c.withFile(rightFdAllocate, func(f *fs.File) error {
		return f.Allocate(int64(c.u64(1)), int64(c.u64(2)))
	})
}
