package fs

import (
	"path"
	"strings"
)

// pair finds two places for an operation that changes both. undo must follow when
// there is no error.
func (d *Dir) pair(from string, toDir *Dir, to string) (a, b place, undo func(), err error) {
	if d.v.g != toDir.v.g {
		return a, b, nil, EXDEV
	}
	if a, err = d.atNoSlash(from); err != nil {
		return a, b, nil, err
	}
	if b, err = toDir.atNoSlash(to); err != nil {
		d.leave(a)
		return a, b, nil, err
	}
	return a, b, func() { toDir.leave(b); d.leave(a) }, nil
}

// Rename moves from to the path to of the directory toDir, replacing a file or an
// empty directory there. Directories of two grants fail with EXDEV. A link that would
// point out of the grant from its new place is not moved (EPERM).
func (d *Dir) Rename(from string, toDir *Dir, to string) error {
	a, b, undo, err := d.pair(from, toDir, to)
	if err != nil {
		return err
	}
	defer undo()
	if a.base == "." || b.base == "." {
		return EBUSY
	}
	if err := d.mayChange(a, accSwitch); err != nil {
		return err
	}
	if err := toDir.mayChange(b, accSwitch); err != nil {
		return err
	}
	st, err := a.lstat()
	switch {
	case err != nil:
		return fail(err)
	case (a.slash || b.slash) && !st.IsDir():
		return ENOTDIR
	}
	if err := d.linksStayInside(a, toDir, b, st.Type); err != nil {
		return err
	}
	return fail(d.v.g.be.rename(a, b))
}

// Link makes the new name to for the regular file from; a link in the last place is
// not followed. Symbolic links can be linked only where making them is allowed.
func (d *Dir) Link(from string, toDir *Dir, to string) error {
	a, b, undo, err := d.pair(from, toDir, to)
	if err != nil {
		return err
	}
	defer undo()
	if err := d.mayChange(a, accWrite); err != nil {
		return err
	}
	if err := toDir.mayChange(b, accSwitch); err != nil {
		return err
	}
	st, err := a.lstat()
	switch {
	case err != nil:
		return fail(err)
	case a.slash && !st.IsDir():
		return ENOTDIR
	case st.Type == TypeSymlink && d.v.g.opt.AllowSymlinkCreation:
		if err := d.linksStayInside(a, toDir, b, st.Type); err != nil {
			return err
		}
	case !st.IsRegular():
		return EPERM
	}
	if b.slash {
		if _, err := b.lstat(); err == nil {
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
// target must stay inside the grant: other programs will follow it. A target may climb
// only at its start ("../x", not "x/../y"), so that reading it as text is enough.
func (d *Dir) Symlink(target, path string) error {
	p, err := d.atNoSlash(path)
	if err != nil {
		return err
	}
	defer d.leave(p)
	if err := d.mayChange(p, accSwitch); err != nil {
		return err
	}
	if st, err := p.lstat(); err == nil {
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
	if !staysInside(rel, target) {
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
	if !insideLexically(rel, target) {
		return "", EPERM
	}
	return target, nil
}

// linkPlace is the resolved path of a link: what a target climbs must be counted from
// where the link really lies.
func (d *Dir) linkPlace(p place) (string, error) {
	dir, err := d.v.g.resolvedDir(d.h, p)
	if err != nil {
		return "", err
	}
	return joinRel(dir, p.base), nil
}

// insideLexically reports whether a link at rel with this target stays in the root
// when read as text.
func insideLexically(rel, target string) bool {
	target = toSlash(target)
	if isAbs(target) || strings.IndexByte(target, 0) >= 0 {
		return false
	}
	depth := strings.Count(cleanRel(rel), "/")
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return false
			}
		default:
			depth++
		}
	}
	return true
}

// staysInside is insideLexically for targets that climb only at their start. With
// "x/.." a link x to a lesser depth would make the text lie.
func staysInside(rel, target string) bool {
	down := false
	for part := range strings.SplitSeq(toSlash(target), "/") {
		switch part {
		case "", ".":
		case "..":
			if down {
				return false
			}
		default:
			down = true
		}
	}
	return insideLexically(rel, target)
}

// maxScan bounds the entries looked at when a directory moves up.
const maxScan = 10_000

// linksStayInside judges a move: a link that climbs may lead outside from a place
// that is less deep. Directories are scanned where guests can make links.
func (d *Dir) linksStayInside(a place, toDir *Dir, b place, t FileType) error {
	if t != TypeSymlink && (t != TypeDir || !d.v.g.opt.AllowSymlinkCreation) {
		return nil
	}
	from, err := d.linkPlace(a)
	if err != nil {
		return err
	}
	to, err := toDir.linkPlace(b)
	if err != nil {
		return err
	}
	if strings.Count(cleanRel(to), "/") >= strings.Count(cleanRel(from), "/") {
		return nil
	}
	if t == TypeSymlink {
		target, err := d.v.g.be.readlink(a)
		if err != nil {
			return fail(err)
		}
		if insideLexically(from, target) && !insideLexically(to, target) {
			return EPERM
		}
		return nil
	}
	left := maxScan
	return d.scanLinks(cleanRel(from), cleanRel(to), &left)
}

// scanLinks looks for links below from that would leave the root from below to.
func (d *Dir) scanLinks(from, to string, left *int) error {
	root := d.v.g.root
	f, err := root.Open(from)
	if err != nil {
		return fail(err)
	}
	list, err := f.ReadDir(*left + 1)
	f.Close()
	if *left -= len(list); *left < 0 {
		return EPERM
	}
	if err != nil && len(list) > 0 {
		return fail(err)
	}
	for _, e := range list {
		a, b := path.Join(from, e.Name()), path.Join(to, e.Name())
		switch typeOf(e.Type()) {
		case TypeDir:
			if err := d.scanLinks(a, b, left); err != nil {
				return err
			}
		case TypeSymlink:
			target, err := root.Readlink(a)
			if err == nil && insideLexically(a, target) && !insideLexically(b, target) {
				return EPERM
			}
		}
	}
	return nil
}
