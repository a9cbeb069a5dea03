package wasi

import (
	"github.com/bladehost/bladehost/host/caps/fs"
)

const (
	lookupFollow = 1

	oflagCreat     = 1
	oflagDirectory = 2
	oflagExcl      = 4
	oflagTrunc     = 8
)

// dirPath returns the directory in parameter 0 with the path at parameter i.
func (c *call) dirPath(i int, r rights) (*desc, string, Errno) {
	d, e := c.s.dirOf(c.u32(0), r)
	if e != 0 {
		return nil, "", e
	}
	p, e := c.path(i)
	return d, p, e
}

func pathOpen(c *call) Errno {
	oflags, fdflags := c.u32(4)&0xffff, c.u32(7)&0xffff
	base, inherit := rights(c.u64(5)), rights(c.u64(6))
	if c.u32(1)&^lookupFollow != 0 || oflags&^15 != 0 || fdflags&^allFdflags != 0 {
		return ErrnoInval
	}
	need := rightPathOpen
	if oflags&oflagCreat != 0 {
		need |= rightPathCreateFile
	}
	if oflags&oflagTrunc != 0 {
		need |= rightPathFilestatSetSize
	}
	d, p, e := c.dirPath(2, need)
	if e != 0 {
		return e
	}
	if oflags&(oflagCreat|oflagDirectory) == oflagCreat|oflagDirectory {
		return ErrnoInval
	}
	// Rights that the directory does not pass on are left out, but not silently the two
	// that every open is about.
	if base&^d.inherit&(rightFdRead|rightFdWrite) != 0 {
		return ErrnoNotcapable
	}
	out, e := c.out(8, 4)
	if e != 0 {
		return e
	}
	f, err := c.open(d, p, oflags, fdflags, base)
	if err != nil {
		return errnoOf(err)
	}
	nd := desc{
		kind: kindFile, file: f, path: d.guestPath(p), rights: base & d.inherit & fileRights,
		inherit: inherit & d.inherit, nonblock: fdflags&fdflagNonblock != 0, rsync: fdflags&fdflagRsync != 0,
	}
	if dir, err := f.Dir(); err == nil {
		nd.kind, nd.dir, nd.rights = kindDir, dir, base&d.inherit&dirRights
	}
	put32(out, c.s.add(nd))
	return ErrnoSuccess
}

func (c *call) open(d *desc, p string, oflags, fdflags uint32, base rights) (*fs.File, error) {
	o := fs.OpenFlags{
		Read:      base&rightFdRead != 0,
		Write:     base&rightFdWrite != 0,
		Append:    fdflags&fdflagAppend != 0,
		Create:    oflags&oflagCreat != 0,
		Exclusive: oflags&oflagExcl != 0,
		Truncate:  oflags&oflagTrunc != 0,
		Directory: oflags&oflagDirectory != 0,
		NoFollow:  c.u32(1)&lookupFollow == 0,
		Sync:      fdflags&(fdflagSync|fdflagRsync) != 0,
		Datasync:  fdflags&fdflagDsync != 0,
	}
	switch {
	case o.Create:
		c.s.effect("create", d.guestPath(p))
	case o.Truncate:
		c.s.effect("truncate", d.guestPath(p))
	case o.Write:
		c.s.effect("write", d.guestPath(p))
	}
	return d.dir.OpenFile(p, o)
}

func pathCreateDirectory(c *call) Errno {
	d, p, e := c.dirPath(1, rightPathCreateDirectory)
	if e != 0 {
		return e
	}
	c.s.effect("mkdir", d.guestPath(p))
	return errnoOf(d.dir.Mkdir(p, 0))
}

func pathFilestatGet(c *call) Errno {
	if c.u32(1)&^lookupFollow != 0 {
		return ErrnoInval
	}
	d, p, e := c.dirPath(2, rightPathFilestatGet)
	if e != 0 {
		return e
	}
	b, e := c.out(4, filestatSize)
	if e != 0 {
		return e
	}
	stat := d.dir.Lstat
	if c.u32(1)&lookupFollow != 0 {
		stat = d.dir.Stat
	}
	st, err := stat(p)
	if err != nil {
		return errnoOf(err)
	}
	putFilestat(b, st)
	return ErrnoSuccess
}

func pathFilestatSetTimes(c *call) Errno {
	if c.u32(1)&^lookupFollow != 0 {
		return ErrnoInval
	}
	d, p, e := c.dirPath(2, rightPathFilestatSetTimes)
	if e != 0 {
		return e
	}
	a, m, e := timeSets(c.u64(4), c.u64(5), c.u32(6)&0xffff)
	if e != 0 {
		return e
	}
	c.s.effect("times", d.guestPath(p))
	return errnoOf(d.dir.SetTimes(p, c.u32(1)&lookupFollow != 0, a, m))
}

// pair returns two directories with a path each.
func (c *call) pair(path1, fd2, path2 int, r1, r2 rights) (d1, d2 *desc, p1, p2 string, e Errno) {
	if d1, p1, e = c.dirPath(path1, r1); e != 0 {
		return
	}
	if d2, e = c.s.dirOf(c.u32(fd2), r2); e != 0 {
		return
	}
	p2, e = c.path(path2)
	return
}

// pathLink never follows a link; asking for it is INVAL.
func pathLink(c *call) Errno {
	if c.u32(1) != 0 {
		return ErrnoInval
	}
	d1, d2, p1, p2, e := c.pair(2, 4, 5, rightPathLinkSource, rightPathLinkTarget)
	if e != 0 {
		return e
	}
	c.s.effect("link", d2.guestPath(p2))
	return errnoOf(d1.dir.Link(p1, d2.dir, p2))
}

func pathRename(c *call) Errno {
	d1, d2, p1, p2, e := c.pair(1, 3, 4, rightPathRenameSource, rightPathRenameTarget)
	if e != 0 {
		return e
	}
	c.s.effect("rename", d1.guestPath(p1))
	c.s.effect("rename", d2.guestPath(p2))
	return errnoOf(d1.dir.Rename(p1, d2.dir, p2))
}

func pathReadlink(c *call) Errno {
	d, p, e := c.dirPath(1, rightPathReadlink)
	if e != 0 {
		return e
	}
	buf, e := c.out(3, c.u32(4))
	if e != 0 {
		return e
	}
	used, e := c.out(5, 4)
	if e != 0 {
		return e
	}
	target, err := d.dir.Readlink(p)
	if err != nil {
		return errnoOf(err)
	}
	put32(used, uint32(copy(buf, target)))
	return ErrnoSuccess
}

func pathRemoveDirectory(c *call) Errno {
	d, p, e := c.dirPath(1, rightPathRemoveDirectory)
	if e != 0 {
		return e
	}
	c.s.effect("rmdir", d.guestPath(p))
	return errnoOf(d.dir.Rmdir(p))
}

func pathUnlinkFile(c *call) Errno {
	d, p, e := c.dirPath(1, rightPathUnlinkFile)
	if e != 0 {
		return e
	}
	c.s.effect("unlink", d.guestPath(p))
	return errnoOf(d.dir.Unlink(p))
}

func pathSymlink(c *call) Errno {
	target, e := c.path(0)
	if e != 0 {
		return e
	}
	d, e := c.s.dirOf(c.u32(2), rightPathSymlink)
	if e != 0 {
		return e
	}
	p, e := c.path(3)
	if e != 0 {
		return e
	}
	c.s.effect("symlink", d.guestPath(p))
	return errnoOf(d.dir.Symlink(target, p))
}
