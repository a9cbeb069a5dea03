package fs

import "io"

// keepEntries bounds how many entries of a directory are remembered for going back.
const keepEntries = 16 << 10

// listing is the part of a directory that was read: entries first, first+1, … of the
// stream that started at the last rewind.
type listing struct {
	entries []DirEntry
	first   uint64
	end     bool
	raw     dirReader
}

// ReadDir returns up to n entries from cookie on; none means the end. Cookie 0 starts
// again and sees the directory as it is now; any other must be the Next of an entry
// returned since. The first two entries are "." and "..". Names that the grant
// denies are left out.
func (f *File) ReadDir(cookie uint64, n int) ([]DirEntry, error) {
	if err := f.begin(); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	if !f.dir {
		return nil, ENOTDIR
	}
	if n <= 0 {
		return nil, EINVAL
	}
	if cookie == 0 || cookie < f.list.first || f.list.raw == nil {
		if err := f.rewind(); err != nil {
			return nil, fail(err)
		}
	}
	for !f.list.end && cookie+uint64(n) > f.list.first+uint64(len(f.list.entries)) {
		if err := f.readMore(cookie); err != nil {
			return nil, fail(err)
		}
	}
	have := f.list.first + uint64(len(f.list.entries))
	if cookie > have || cookie < f.list.first {
		return nil, EINVAL
	}
	out := f.list.entries[cookie-f.list.first:]
	return out[:min(n, len(out))], nil
}

// rewind starts the stream again with "." and "..", which both show the directory
// itself, so that nothing is told about the parent.
func (f *File) rewind() error {
	st, err := f.v.g.be.fstat(f.f, f.rel)
	if err != nil {
		return err
	}
	if _, err := f.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	f.list = listing{raw: f.list.raw}
	if f.list.raw == nil {
		f.list.raw = f.v.g.be.dirReader()
	}
	f.add(DirEntry{Name: ".", Ino: st.Ino, Type: TypeDir})
	f.add(DirEntry{Name: "..", Ino: st.Ino, Type: TypeDir})
	return nil
}

func (f *File) add(e DirEntry) {
	e.Next = f.list.first + uint64(len(f.list.entries)) + 1
	f.list.entries = append(f.list.entries, e)
}

// readMore reads the next batch. Entries before cookie are forgotten when there are
// too many.
func (f *File) readMore(cookie uint64) error {
	if len(f.list.entries) > keepEntries {
		drop := min(cookie-f.list.first, uint64(len(f.list.entries)))
		f.list.entries = append([]DirEntry(nil), f.list.entries[drop:]...)
		f.list.first += drop
	}
	batch, err := f.list.raw.next(f.f)
	if err != nil {
		return err
	}
	if len(batch) == 0 {
		f.list.end = true
		return nil
	}
	denied, err := f.denied()
	if err != nil {
		return err
	}
	for _, e := range batch {
		if e.Name == "." || e.Name == ".." || denied(e.Name) {
			continue
		}
		if e.Ino == 0 || e.Type == TypeOther {
			p := place{fd: int(f.f.Fd()), base: e.Name, h: f.base.h}
			if st, err := f.v.g.be.lstat(p); err == nil {
				e.Ino, e.Type = st.Ino, st.Type
			}
		}
		f.add(e)
	}
	return nil
}

// denied returns a test for names that must not be listed.
func (f *File) denied() (func(string) bool, error) {
	r := f.v.g.rules
	if len(r.deny) == 0 {
		return func(string) bool { return false }, nil
	}
	dir, err := f.v.g.resolvedDir(f.base.h, place{fd: int(f.f.Fd()), base: "."})
	if err != nil {
		return nil, err
	}
	return func(name string) bool { return r.check(joinRel(dir, name), accRead) != nil }, nil
}
