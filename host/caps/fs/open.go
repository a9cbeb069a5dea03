package fs

import (
	iofs "io/fs"
	"os"
)

// OpenFlags says how OpenFile opens. The zero value opens an existing file or
// directory without the right to read or write its bytes.
type OpenFlags struct {
	Read, Write bool
	Append      bool // every write goes to the end
	Create      bool // make the file if it is missing
	Exclusive   bool // with Create: EEXIST if it is there
	Truncate    bool
	Directory   bool // ENOTDIR if it is anything else
	NoFollow    bool // ELOOP if the last name is a symbolic link
	// Sync and Datasync flush after every write.
	Sync, Datasync bool
	// Perm is the mode of a file that is made; 0 means 0o666 (the umask applies).
	Perm iofs.FileMode
}

func (o OpenFlags) changes() bool { return o.Write || o.Create || o.Truncate }

// OpenFile opens a regular file or a directory. Anything else fails with
// ErrNotRegular, without blocking.
func (d *Dir) OpenFile(path string, o OpenFlags) (*File, error) {
	p, err := d.at(path, !o.NoFollow && !(o.Create && o.Exclusive))
	if err != nil {
		return nil, err
	}
	defer d.leave(p)
	g := d.v.g
	acc := accRead
	if o.changes() {
		acc = accWrite
		if g.opt.ReadOnly {
			return nil, d.readOnlyOpen(p, o)
		}
	}
	if err := g.judge(d.h, p, acc); err != nil {
		return nil, err
	}
	st, err := p.lstat()
	exists := err == nil
	if err := openable(st, exists, p.slash, o); err != nil {
		return nil, err
	}
	if !exists && !o.Create {
		return nil, fail(err)
	}
	if !d.v.take(cOpen, 1) {
		return nil, EMFILE
	}
	if !exists && !d.v.take(cEntries, 1) {
		d.v.give(cOpen, 1)
		return nil, EDQUOT
	}
	f, err := d.openPlace(p, o)
	if err != nil {
		d.v.give(cOpen, 1)
		if !exists {
			d.v.give(cEntries, 1)
		}
		return nil, err
	}
	return f, nil
}

// readOnlyOpen is the error of a changing open in a read-only grant.
func (d *Dir) readOnlyOpen(p place, o OpenFlags) error {
	if st, err := p.lstat(); err == nil && st.IsDir() && o.Write {
		return EISDIR
	} else if err != nil && !o.Create {
		return fail(err)
	}
	return EROFS
}

// openable judges what is in the place before it is opened, so that a device is not
// even touched.
func openable(st Info, exists, slash bool, o OpenFlags) error {
	switch {
	case !exists:
		if o.Create && slash {
			return EISDIR
		}
		return nil
	case o.Create && o.Exclusive:
		return EEXIST
	case st.Type == TypeSymlink:
		return ELOOP
	case st.IsDir():
		if o.Write || o.Truncate || (o.Create && !o.Directory) {
			return EISDIR
		}
	case st.IsRegular():
		if slash || o.Directory {
			return ENOTDIR
		}
	default:
		return ErrNotRegular
	}
	return nil
}

// openPlace opens and judges again what was really opened.
func (d *Dir) openPlace(p place, o OpenFlags) (*File, error) {
	g := d.v.g
	perm := uint32(o.Perm.Perm())
	if o.Perm == 0 {
		perm = 0o666
	}
	h, err := g.be.open(p, o, perm)
	if err != nil {
		return nil, fail(err)
	}
	st, err := g.be.fstat(h, joinRel(d.h.rel, p.rel()))
	if err == nil {
		err = d.judgeOpened(h, st, p.slash, o)
	}
	if err == nil && o.Truncate {
		err = h.Truncate(0) // only now is it known what was opened
	}
	if err != nil {
		h.Close()
		return nil, fail(err)
	}
	f := &File{v: d.v, f: h, o: o, dir: st.IsDir(), rel: joinRel(d.h.rel, p.rel())}
	if f.dir {
		f.base = Dir{v: d.v, h: &handle{g: g, f: h, rel: joinRel(d.h.rel, p.rel())}}
	}
	return f, nil
}

func (d *Dir) judgeOpened(h *os.File, st Info, slash bool, o OpenFlags) error {
	switch {
	case !st.IsDir() && !st.IsRegular():
		return ErrNotRegular
	case st.IsDir() && o.Write:
		return EISDIR
	case st.IsRegular() && (slash || o.Directory):
		return ENOTDIR
	case d.v.g.opt.RefuseHardLinked && st.IsRegular() && st.Nlink > 1 && (o.Write || o.Truncate):
		return ErrHardLinked
	}
	return d.v.g.allowDev(st.Dev, func() bool { return fileIsSpecial(h) })
}
