package fs

import iofs "io/fs"

// Dir is a directory from which paths start. Paths are relative and slash separated
// and cannot leave the directory; ".." and links inside are followed. A path that
// ends in a slash must name a directory.
type Dir struct {
	v *View
	h *handle
}

// View is the view that the directory counts in.
func (d *Dir) View() *View { return d.v }

// at starts an operation: it checks that the grant stands and finds the place.
// leave must follow when there is no error.
func (d *Dir) at(path string, follow bool) (place, error) {
	if err := d.v.g.enter(); err != nil {
		return place{}, err
	}
	p, err := d.h.locate(path, follow)
	if err != nil {
		d.v.g.leave()
		return place{}, err
	}
	return p, nil
}

func (d *Dir) leave(p place) {
	p.done()
	d.v.g.leave()
}

// change is at for operations that change the place.
func (d *Dir) change(path string, a access) (place, error) {
	p, err := d.at(path, false)
	if err != nil {
		return p, err
	}
	if d.v.g.opt.ReadOnly {
		err = EROFS
	} else {
		err = d.v.g.judge(d.h, p, a)
	}
	if err != nil {
		d.leave(p)
	}
	return p, err
}

// Stat describes what path leads to, following links.
func (d *Dir) Stat(path string) (Info, error) { return d.stat(path, true) }

// Lstat describes the last name of path itself, a link too.
func (d *Dir) Lstat(path string) (Info, error) { return d.stat(path, false) }

func (d *Dir) stat(path string, follow bool) (Info, error) {
	p, err := d.at(path, follow)
	if err != nil {
		return Info{}, err
	}
	defer d.leave(p)
	if err := d.v.g.judge(d.h, p, accRead); err != nil {
		return Info{}, err
	}
	st, err := d.v.g.be.lstat(p)
	switch {
	case err != nil:
		return Info{}, fail(err)
	case p.slash && !st.IsDir():
		return Info{}, ENOTDIR
	case follow && st.Type == TypeSymlink:
		return Info{}, ELOOP
	}
	return st, nil
}

// Mkdir makes a directory. perm 0 means 0o777; the umask applies.
func (d *Dir) Mkdir(path string, perm iofs.FileMode) error {
	p, err := d.atNoSlash(path)
	if err != nil {
		return err
	}
	defer d.leave(p)
	if d.v.g.opt.ReadOnly {
		return EROFS
	}
	if err := d.v.g.judge(d.h, p, accMake); err != nil {
		return err
	}
	if perm == 0 {
		perm = 0o777
	}
	if !d.v.take(cEntries, 1) {
		return EDQUOT
	}
	err = d.v.g.be.mkdir(p, uint32(perm.Perm()))
	if err != nil {
		d.v.give(cEntries, 1)
	}
	return fail(err)
}

// atNoSlash is at, but a trailing slash does not make a link in the last place be
// followed: names that are about to be made or moved are taken as they are.
func (d *Dir) atNoSlash(path string) (place, error) {
	t := trimSlash(path)
	p, err := d.at(t, false)
	p.slash = p.slash || len(t) < len(path)
	return p, err
}

func trimSlash(p string) string {
	for len(p) > 1 && p[len(p)-1] == '/' {
		p = p[:len(p)-1]
	}
	return p
}

// Unlink removes a name that is not a directory; a directory fails with EISDIR.
func (d *Dir) Unlink(path string) error {
	p, err := d.atNoSlash(path)
	if err != nil {
		return err
	}
	defer d.leave(p)
	if err := d.mayChange(p, accSwitch); err != nil {
		return err
	}
	st, err := d.v.g.be.lstat(p)
	switch {
	case err != nil:
		return fail(err)
	case st.IsDir():
		return EISDIR
	case p.slash:
		return ENOTDIR
	}
	return fail(d.v.g.be.unlink(p))
}

// Rmdir removes an empty directory; anything else fails with ENOTDIR.
func (d *Dir) Rmdir(path string) error {
	p, err := d.atNoSlash(path)
	if err != nil {
		return err
	}
	defer d.leave(p)
	if p.base == "." {
		return EINVAL
	}
	if err := d.mayChange(p, accSwitch); err != nil {
		return err
	}
	st, err := d.v.g.be.lstat(p)
	switch {
	case err != nil:
		return fail(err)
	case !st.IsDir():
		return ENOTDIR
	}
	return fail(d.v.g.be.rmdir(p))
}

func (d *Dir) mayChange(p place, a access) error {
	if d.v.g.opt.ReadOnly {
		return EROFS
	}
	return d.v.g.judge(d.h, p, a)
}

// Rename moves from to the path to of the directory toDir, replacing a file or an
// empty directory there. Directories of two grants fail with EXDEV.
func (d *Dir) Rename(from string, toDir *Dir, to string) error {
	if d.v.g != toDir.v.g {
		return EXDEV
	}
	a, err := d.atNoSlash(from)
	if err != nil {
		return err
	}
	defer d.leave(a)
	b, err := toDir.atNoSlash(to)
	if err != nil {
		return err
	}
	defer toDir.leave(b)
	if a.base == "." || b.base == "." {
		return EBUSY
	}
	if err := d.mayChange(a, accSwitch); err != nil {
		return err
	}
	if err := toDir.mayChange(b, accSwitch); err != nil {
		return err
	}
	st, err := d.v.g.be.lstat(a)
	if err != nil {
		return fail(err)
	}
	if (a.slash || b.slash) && !st.IsDir() {
		return ENOTDIR
	}
	return fail(d.v.g.be.rename(a, b))
}

// Link makes the new name to for the regular file from; a link in the last place is
// not followed. Symbolic links can be linked only where making them is allowed.
func (d *Dir) Link(from string, toDir *Dir, to string) error {
	if d.v.g != toDir.v.g {
		return EXDEV
	}
	a, err := d.atNoSlash(from)
	if err != nil {
		return err
	}
	defer d.leave(a)
	b, err := toDir.atNoSlash(to)
	if err != nil {
		return err
	}
	defer toDir.leave(b)
	if err := d.mayChange(a, accWrite); err != nil {
		return err
	}
	if err := toDir.mayChange(b, accSwitch); err != nil {
		return err
	}
	st, err := d.v.g.be.lstat(a)
	switch {
	case err != nil:
		return fail(err)
	case st.Type == TypeSymlink && d.v.g.opt.AllowSymlinkCreation:
	case !st.IsRegular():
		return EPERM
	case a.slash:
		return ENOTDIR
	}
	if b.slash {
		if _, err := d.v.g.be.lstat(b); err == nil {
			return EEXIST
		}
		return ENOENT
	}
	if !toDir.v.take(cEntries, 1) {
		return EDQUOT
	}
	if err = d.v.g.be.link(a, b); err != nil {
		toDir.v.give(cEntries, 1)
	}
	return fail(err)
}

// Symlink makes a symbolic link at path. It must be allowed by the grant, and the
// target, read as text, must stay inside the grant: other programs will follow it.
func (d *Dir) Symlink(target, path string) error {
	p, err := d.atNoSlash(path)
	if err != nil {
		return err
	}
	defer d.leave(p)
	if err := d.mayChange(p, accSwitch); err != nil {
		return err
	}
	if st, err := d.v.g.be.lstat(p); err == nil {
		if p.slash && !st.IsDir() {
			return ENOTDIR
		}
		return EEXIST
	} else if p.slash {
		return ENOENT
	}
	if !d.v.g.opt.AllowSymlinkCreation || target == "" {
		return EPERM
	}
	if len(target) > maxPath {
		return ENAMETOOLONG
	}
	rel, err := d.linkPlace(p)
	if err != nil {
		return err
	}
	if !insideLexically(rel, toSlash(target)) {
		return EPERM
	}
	if !d.v.take(cEntries, 1) {
		return EDQUOT
	}
	if err = d.v.g.be.symlink(target, p); err != nil {
		d.v.give(cEntries, 1)
	}
	return fail(err)
}

// linkPlace is the resolved path of a link: "a/../../x" in a linked directory must
// be counted from where the link really lies.
func (d *Dir) linkPlace(p place) (string, error) {
	dir, err := d.v.g.resolvedDir(d.h, p)
	if err != nil {
		return "", err
	}
	return joinRel(dir, p.base), nil
}

// Readlink returns the target of a link. A target outside of the grant is EPERM,
// because it would tell about the host.
func (d *Dir) Readlink(path string) (string, error) {
	p, err := d.at(path, false)
	if err != nil {
		return "", err
	}
	defer d.leave(p)
	if err := d.v.g.judge(d.h, p, accRead); err != nil {
		return "", err
	}
	if p.slash || p.base == "." {
		return "", EINVAL
	}
	target, err := d.v.g.be.readlink(p)
	if err != nil {
		return "", fail(err)
	}
	rel, err := d.linkPlace(p)
	if err != nil {
		return "", err
	}
	if !insideLexically(rel, toSlash(target)) {
		return "", EPERM
	}
	return target, nil
}

// SetTimes sets the time stamps of a path; follow says whether a link in the last
// place is followed or changed itself.
func (d *Dir) SetTimes(path string, follow bool, atim, mtim TimeSet) error {
	p, err := d.at(path, follow)
	if err != nil {
		return err
	}
	defer d.leave(p)
	if err := d.mayChange(p, accWrite); err != nil {
		return err
	}
	st, err := d.v.g.be.lstat(p)
	switch {
	case err != nil:
		return fail(err)
	case p.slash && !st.IsDir():
		return ENOTDIR
	case st.Type == TypeOther:
		return ErrNotRegular
	}
	if atim.omit() && mtim.omit() {
		return nil
	}
	return fail(d.v.g.be.setTimes(p, atim, mtim))
}

// Truncate sets the size of the file at path, following links.
func (d *Dir) Truncate(path string, size int64) error {
	f, err := d.OpenFile(path, OpenFlags{Write: true})
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
}
