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
	if err := d.h.enter(); err != nil {
		return place{}, err
	}
	p, err := d.h.locate(path, follow)
	if err != nil {
		d.h.leave()
		return place{}, err
	}
	return p, nil
}

func (d *Dir) leave(p place) {
	p.done()
	d.h.leave()
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
	st, err := p.lstat()
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
	st, err := p.lstat()
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
	st, err := p.lstat()
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

// MayMake is ErrDenied where the protected names would keep a file from being put at path once the folders
// above it are made, so that none need be made in vain. What of path exists is resolved, the rest is text.
// It is a look ahead only: the operations themselves are judged again.
func (d *Dir) MayMake(path string) error { return d.lookAhead(path, accSwitch) }

// MayLook is as MayMake for reading.
func (d *Dir) MayLook(path string) error { return d.lookAhead(path, accRead) }

func (d *Dir) lookAhead(path string, a access) error {
	rest := ""
	for {
		p, err := d.at(path, false)
		dir, base, _ := splitLast(path)
		if ErrnoOf(err) == ENOENT && dir != "" {
			path, rest = dir, cleanRel(base+"/"+rest)
			continue
		}
		if err != nil {
			return err
		}
		defer d.leave(p) // the loop ends here
		rel, err := d.v.g.resolvedDir(d.h, p)
		if err != nil {
			return err
		}
		if rel = joinRel(rel, p.base); rest != "" {
			rel = joinRel(rel, rest)
		}
		return d.v.g.rules.check(rel, a)
	}
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
	st, err := p.lstat()
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
