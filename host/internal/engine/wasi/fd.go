package wasi

import "github.com/bladehost/bladehost/host/caps/fs"

const (
	fdflagAppend   = 1
	fdflagDsync    = 2
	fdflagNonblock = 4
	fdflagRsync    = 8
	fdflagSync     = 16
	allFdflags     = 31

	typeUnknown   = 0
	typeDirectory = 3
	typeRegular   = 4
	typeSymlink   = 7

	fdstatSize   = 24
	filestatSize = 64
)

func fileType(t fs.FileType) byte {
	switch t {
	case fs.TypeDir:
		return typeDirectory
	case fs.TypeRegular:
		return typeRegular
	case fs.TypeSymlink:
		return typeSymlink
	}
	return typeUnknown
}

func fdClose(c *call) Errno {
	d, e := c.s.get(c.u32(0))
	if e != 0 {
		return e
	}
	return c.s.closeDesc(d)
}

// fdRenumber moves a descriptor over another open one, which is closed.
func fdRenumber(c *call) Errno {
	from, e := c.s.get(c.u32(0))
	if e != 0 {
		return e
	}
	to, e := c.s.get(c.u32(1))
	if e != 0 {
		return e
	}
	if from == to {
		return ErrnoSuccess
	}
	c.s.closeDesc(to)
	*to, *from = *from, desc{}
	to.preopen = false
	return ErrnoSuccess
}

func (d *desc) flags() uint16 {
	var fl uint16
	if d.file != nil {
		o := d.file.Flags()
		for _, x := range [...]struct {
			on bool
			f  uint16
		}{{o.Append, fdflagAppend}, {o.Datasync, fdflagDsync}, {o.Sync, fdflagSync}} {
			if x.on {
				fl |= x.f
			}
		}
	}
	if d.nonblock {
		fl |= fdflagNonblock
	}
	if d.rsync {
		fl |= fdflagRsync
	}
	return fl
}

func fdFdstatGet(c *call) Errno {
	d, e := c.s.get(c.u32(0))
	if e != 0 {
		return e
	}
	b, e := c.out(1, fdstatSize)
	if e != 0 {
		return e
	}
	clear(b)
	switch d.kind {
	case kindDir:
		b[0] = typeDirectory
	case kindFile:
		b[0] = typeRegular
	}
	put16(b[2:], d.flags())
	put64(b[8:], uint64(d.rights))
	put64(b[16:], uint64(d.inherit))
	return ErrnoSuccess
}

func fdFdstatSetFlags(c *call) Errno {
	fl := uint16(c.u32(1))
	d, e := c.s.need(c.u32(0), rightFdFdstatSetFlags)
	if e != 0 {
		return e
	}
	if fl&^allFdflags != 0 {
		return ErrnoInval
	}
	if d.kind == kindFile {
		f, e := c.s.fileOf(d)
		if e != 0 {
			return e
		}
		err := f.SetFlags(fl&fdflagAppend != 0, fl&(fdflagSync|fdflagRsync) != 0, fl&fdflagDsync != 0)
		if err != nil {
			return errnoOf(err)
		}
	}
	d.nonblock, d.rsync = fl&fdflagNonblock != 0, fl&fdflagRsync != 0
	return ErrnoSuccess
}

// fdFdstatSetRights can only take rights away.
func fdFdstatSetRights(c *call) Errno {
	d, e := c.s.get(c.u32(0))
	if e != 0 {
		return e
	}
	base, inherit := rights(c.u64(1)), rights(c.u64(2))
	if base&^d.rights != 0 || inherit&^d.inherit != 0 {
		return ErrnoNotcapable
	}
	d.rights, d.inherit = base, inherit
	return ErrnoSuccess
}

func putFilestat(b []byte, st fs.Info) {
	clear(b)
	put64(b, st.Dev)
	put64(b[8:], st.Ino)
	b[16] = fileType(st.Type)
	put64(b[24:], st.Nlink)
	put64(b[32:], uint64(st.Size))
	put64(b[40:], uint64(st.Atim))
	put64(b[48:], uint64(st.Mtim))
	put64(b[56:], uint64(st.Ctim))
}

func fdFilestatGet(c *call) Errno {
	d, e := c.s.need(c.u32(0), rightFdFilestatGet)
	if e != 0 {
		return e
	}
	b, e := c.out(1, filestatSize)
	if e != 0 {
		return e
	}
	if d.stdio() {
		clear(b)
		put64(b[24:], 1)
		return ErrnoSuccess
	}
	if s := c.s; d.file == nil && s.phase != Init {
		st, err := d.dir.Stat(".")
		if err != nil {
			return errnoOf(err)
		}
		putFilestat(b, st)
		return ErrnoSuccess
	}
	f, e := c.s.fileOf(d)
	if e != 0 {
		return e
	}
	st, err := f.Stat()
	if err != nil {
		return errnoOf(err)
	}
	putFilestat(b, st)
	return ErrnoSuccess
}

func fdFilestatSetSize(c *call) Errno {
	return c.withFile(rightFdFilestatSetSize, func(f *fs.File) error { return f.Truncate(int64(c.u64(1))) })
}

const (
	fstAtim    = 1
	fstAtimNow = 2
	fstMtim    = 4
	fstMtimNow = 8
)

// timeSets reads two times and their flags.
func timeSets(atim, mtim uint64, flags uint32) (a, m fs.TimeSet, e Errno) {
	if flags&^15 != 0 || flags&(fstAtim|fstAtimNow) == fstAtim|fstAtimNow ||
		flags&(fstMtim|fstMtimNow) == fstMtim|fstMtimNow {
		return a, m, ErrnoInval
	}
	a = fs.TimeSet{Set: flags&fstAtim != 0, Now: flags&fstAtimNow != 0, Ns: int64(atim)}
	m = fs.TimeSet{Set: flags&fstMtim != 0, Now: flags&fstMtimNow != 0, Ns: int64(mtim)}
	if (a.Set && a.Ns < 0) || (m.Set && m.Ns < 0) {
		return a, m, ErrnoOverflow
	}
	return a, m, ErrnoSuccess
}

func fdFilestatSetTimes(c *call) Errno {
	a, m, e := timeSets(c.u64(1), c.u64(2), c.u32(3)&0xffff)
	if e != 0 {
		return e
	}
	d, e := c.s.need(c.u32(0), rightFdFilestatSetTimes)
	if e != 0 {
		return e
	}
	f, e := c.s.fileOf(d)
	if e != 0 {
		return e
	}
	c.s.effect("times", d.path)
	return errnoOf(f.SetTimes(a, m))
}

func fdPrestatGet(c *call) Errno {
	d, e := c.s.get(c.u32(0))
	if e != 0 {
		return e
	}
	if !d.preopen {
		return ErrnoBadf
	}
	b, e := c.out(1, 8)
	if e != 0 {
		return e
	}
	clear(b)
	put32(b[4:], uint32(len(d.path)))
	return ErrnoSuccess
}

func fdPrestatDirName(c *call) Errno {
	d, e := c.s.get(c.u32(0))
	if e != 0 {
		return e
	}
	if !d.preopen {
		return ErrnoBadf
	}
	if c.u32(2) < uint32(len(d.path)) {
		return ErrnoNametoolong
	}
	b, e := c.out(1, uint32(len(d.path)))
	if e != 0 {
		return e
	}
	copy(b, d.path)
	return ErrnoSuccess
}

const direntSize = 24

// fdReaddir fills the buffer with entries; the last one may be cut off, which tells
// the guest that there is more.
func fdReaddir(c *call) Errno {
	d, e := c.s.get(c.u32(0))
	switch {
	case e != 0:
		return e
	case d.kind != kindDir:
		return ErrnoNotdir
	case d.rights&rightFdReaddir == 0:
		return ErrnoNotcapable
	}
	buf, e := c.out(1, c.u32(2))
	if e != 0 {
		return e
	}
	used, e := c.out(4, 4)
	if e != 0 {
		return e
	}
	f, e := c.s.fileOf(d)
	if e != 0 {
		return e
	}
	n, cookie := 0, c.u64(3)
	for n < len(buf) {
		list, err := f.ReadDir(cookie, min((len(buf)-n)/direntSize+1, 512))
		if err != nil {
			return errnoOf(err)
		}
		if len(list) == 0 {
			break
		}
		for _, ent := range list {
			n += putDirent(buf[n:], ent)
			cookie = ent.Next
		}
		if c.ctx.Err() != nil {
			break
		}
	}
	put32(used, uint32(n))
	return ErrnoSuccess
}

// putDirent writes as much of an entry as fits.
func putDirent(b []byte, ent fs.DirEntry) int {
	var h [direntSize]byte
	put64(h[:], ent.Next)
	put64(h[8:], ent.Ino)
	put32(h[16:], uint32(len(ent.Name)))
	h[20] = fileType(ent.Type)
	n := copy(b, h[:])
	return n + copy(b[n:], ent.Name)
}
