package fs

import "golang.org/x/sys/unix"

func hasRawTree(g *Grant) bool {
	_, own := g.be.(posixBackend)
	return own && !g.noOpenat2.Load()
}

// place is a path as the grant knows it. No link is in it, or the kernel refuses it: so what the rules
// say of the text holds for the file.
func (t *Tree) place(path string) (string, error) {
	full := t.at
	if path != "" {
		full = joinRel(t.at, path)
	}
	if g := t.d.v.g; len(g.rules.deny) > 0 {
		return full, g.rules.check(full, accRead)
	}
	return full, nil
}

// rawOpen opens a file or folder in one call and looks at what was opened. done is false where there is no such
// call. The caller has entered the grant and closes.
func (t *Tree) rawOpen(path string, flags uint64) (fd int, st Info, done bool, err error) {
	g := t.d.v.g
	full, err := t.place(path)
	if err != nil {
		return noFD, st, true, err
	}
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NOCTTY | flags,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	err = retry(func() (err error) {
		fd, err = unix.Openat2(int(g.top.Fd()), full, &how)
		return err
	})
	switch err {
	case nil:
	case unix.EXDEV:
		return noFD, st, true, ErrEscape
	case unix.ENOSYS, unix.EPERM, unix.EINVAL, unix.E2BIG, unix.EAGAIN: // no such call, or a lost race: the long way says
		return noFD, st, false, nil
	default:
		return noFD, st, true, fail(err)
	}
	var raw unix.Stat_t
	if err = retry(func() error { return unix.Fstat(fd, &raw) }); err == nil {
		st = infoOf(&raw)
		err = g.allowDev(st.Dev, func() bool { return fdIsSpecial(fd) })
	}
	if err != nil {
		closeFD(fd)
		return noFD, st, true, fail(err)
	}
	return fd, st, true, nil
}

func (t *Tree) rawRead(path string, buf []byte) (n int, all, done bool, err error) {
	if err := t.d.h.enter(); err != nil {
		return 0, false, true, err
	}
	defer t.d.h.leave()
	if !t.d.v.take(cOpen, 1) {
		return 0, false, true, EMFILE
	}
	defer t.d.v.give(cOpen, 1)
	fd, st, done, err := t.rawOpen(path, 0)
	if err != nil || !done {
		return 0, false, done, err
	}
	defer closeFD(fd)
	switch {
	case st.IsDir():
		return 0, false, true, EISDIR
	case !st.IsRegular():
		return 0, false, true, ErrNotRegular
	}
	for n < len(buf) {
		var m int
		err := retry(func() (err error) {
			m, err = unix.Read(fd, buf[n:])
			return err
		})
		if err != nil {
			return n, false, true, fail(err)
		}
		if m <= 0 {
			return n, true, true, nil
		}
		n += m
	}
	return n, false, true, nil
}

func (t *Tree) rawFolder(path string) (f *Folder, done bool, err error) {
	if err := t.d.h.enter(); err != nil {
		return nil, true, err
	}
	defer t.d.h.leave()
	if !t.d.v.take(cOpen, 1) {
		return nil, true, EMFILE
	}
	fd, _, done, err := t.rawOpen(path, unix.O_DIRECTORY)
	if err != nil || !done {
		t.d.v.give(cOpen, 1)
		return nil, done, err
	}
	return &Folder{t: t, path: path, fd: fd}, true, nil
}

func (f *Folder) rawList(list []DirEntry) ([]DirEntry, error) {
	t := f.t
	if err := t.d.h.enter(); err != nil {
		return list, err
	}
	defer t.d.h.leave()
	here, err := t.place(f.path)
	if err != nil {
		return list, err
	}
	rules := t.d.v.g.rules
	var buf [8 << 10]byte
	for {
		var n int
		err := retry(func() (err error) {
			n, err = unix.Getdents(f.fd, buf[:])
			return err
		})
		if err != nil || n <= 0 {
			return list, fail(err)
		}
		from := len(list)
		list = appendDirents(list, buf[:n])
		kept := list[:from]
		for _, e := range list[from:] {
			if e.Name == "." || e.Name == ".." || (len(rules.deny) > 0 && rules.check(joinRel(here, e.Name), accRead) != nil) {
				continue
			}
			if e.Type == TypeOther { // or the file system does not say
				if st, err := (posixBackend{}).lstat(place{fd: f.fd, base: e.Name}); err == nil {
					e.Type = st.Type
				}
			}
			kept = append(kept, e)
		}
		list = kept
	}
}

func (f *Folder) rawLstat(name string) (Info, error) {
	if err := f.t.d.h.enter(); err != nil {
		return Info{}, err
	}
	defer f.t.d.h.leave()
	if _, err := f.t.place(joinRel(f.path, name)); err != nil {
		return Info{}, err
	}
	st, err := (posixBackend{}).lstat(place{fd: f.fd, base: name})
	return st, fail(err)
}
