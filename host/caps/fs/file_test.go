package fs

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func open(t testing.TB, d *Dir, path string, o OpenFlags) *File {
	t.Helper()
	f, err := d.OpenFile(path, o)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestQuotas(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		g := mustOpen(t, w.root, opt)
		d := g.View(Limits{MaxFileSize: 100, MaxWritten: 150, MaxEntries: 3}).Root()
		f := open(t, d, "a", OpenFlags{Read: true, Write: true, Create: true})
		_, err := f.Write(make([]byte, 101))
		wantErr(t, "too big at once", err, EFBIG)
		_, err = f.WriteAt(make([]byte, 2), 99)
		wantErr(t, "too far", err, EFBIG)
		_, err = f.WriteAt(make([]byte, 1), 4<<40)
		wantErr(t, "4 TiB", err, EFBIG)
		_, err = f.WriteAt(make([]byte, 1), math.MaxInt64)
		wantErr(t, "overflow", err, EFBIG)
		wantErr(t, "truncate to 4 TiB", f.Truncate(4<<40), EFBIG)
		wantErr(t, "allocate", f.Allocate(0, 101), EFBIG)
		wantErr(t, "allocate overflow", f.Allocate(math.MaxInt64, math.MaxInt64), EFBIG)
		_, err = f.Write(make([]byte, 100))
		must(t, err)
		_, err = f.WriteAt(make([]byte, 51), 0)
		wantErr(t, "written in all", err, EDQUOT)
		_, err = f.WriteAt(make([]byte, 50), 0)
		must(t, err)
		must(t, f.SetFlags(true, false, false))
		_, err = f.Write([]byte("x"))
		wantErr(t, "append beyond the limit", err, EFBIG)

		must(t, d.Mkdir("m", 0))
		must(t, d.Link("a", d, "l"))
		for name, err := range map[string]error{
			"mkdir": d.Mkdir("m2", 0), "link": d.Link("a", d, "l2"), "create": writeTo(d, "c", ""),
		} {
			wantErr(t, name, err, EDQUOT)
		}
		wantErr(t, "a failed mkdir is not counted", d.Mkdir("m", 0), EDQUOT)
		must(t, writeTo(d, "inside.txt", "")) // no new entry
		d.View().Renew()
		must(t, d.Mkdir("m2", 0))
	})
}

func TestSubViewCountsInParent(t *testing.T) {
	w := newWorld(t)
	parent := mustOpen(t, w.root, Options{}).View(Limits{MaxWritten: 10, MaxOpen: 2, MaxFileSize: 8})
	a, b := parent.Sub(Limits{MaxWritten: 8}), parent.Sub(Limits{})
	must(t, writeTo(a.Root(), "a", "12345678"))
	wantErr(t, "own limit", writeTo(a.Root(), "a", "1"), EDQUOT)
	wantErr(t, "parent's limit", writeTo(b.Root(), "b", "123"), EDQUOT)
	wantErr(t, "parent's size", writeTo(b.Root(), "b", "123456789"), EFBIG)
	must(t, writeTo(b.Root(), "b", "12"))
	open(t, a.Root(), "a", OpenFlags{})
	open(t, b.Root(), "a", OpenFlags{})
	_, err := a.Root().OpenFile("a", OpenFlags{})
	wantErr(t, "open", err, EMFILE)
	if u := parent.Usage(); u.Written != 10 || u.Open != 2 || b.Usage().Open != 1 {
		t.Errorf("usage %+v, b %+v", u, b.Usage())
	}
}

// TestDescriptorLimit: 64 by default, and closing gives back.
func TestDescriptorLimit(t *testing.T) {
	w := newWorld(t)
	v := mustOpen(t, w.root, Options{}).View(Limits{})
	var files []*File
	for {
		f, err := v.Root().OpenFile("inside.txt", OpenFlags{Read: true})
		if err != nil {
			wantErr(t, "limit", err, EMFILE)
			break
		}
		files = append(files, f)
	}
	if len(files) != DefaultMaxOpen {
		t.Errorf("%d files", len(files))
	}
	for _, f := range files {
		must(t, f.Close())
		wantErr(t, "second close", f.Close(), EBADF)
	}
	for range 5_000 {
		f, err := v.Root().OpenFile("inside.txt", OpenFlags{})
		must(t, err)
		must(t, f.Close())
	}
}

func TestReadWriteSeek(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		f := open(t, d, "f", OpenFlags{Read: true, Write: true, Create: true, Exclusive: true})
		n, err := f.Write([]byte("hello world"))
		if n != 11 || err != nil {
			t.Fatal(n, err)
		}
		pos, err := f.Seek(-5, io.SeekCurrent)
		if pos != 6 || err != nil {
			t.Fatal(pos, err)
		}
		b := make([]byte, 10)
		n, err = ignoreEOF(f.Read(b))
		if string(b[:n]) != "world" || err != nil {
			t.Fatal(string(b[:n]), err)
		}
		if n, err = f.Read(b); n != 0 || err != io.EOF {
			t.Fatal("end", n, err)
		}
		if n, err = ignoreEOF(f.ReadAt(b, 6)); string(b[:n]) != "world" || err != nil {
			t.Fatal(string(b[:n]), err)
		}
		if n, err = f.WriteAt([]byte("W"), 6); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if pos, err = f.Seek(2, io.SeekEnd); pos != 13 || err != nil {
			t.Fatal(pos, err)
		}
		_, err = f.Write([]byte("!"))
		must(t, err)
		for what, err := range map[string]error{
			"negative seek":   func() error { _, err := f.Seek(-20, io.SeekCurrent); return err }(),
			"whence":          func() error { _, err := f.Seek(0, 3); return err }(),
			"negative pread":  func() error { _, err := f.ReadAt(b, -1); return err }(),
			"negative pwrite": func() error { _, err := f.WriteAt(b, -1); return err }(),
			"negative size":   f.Truncate(-1),
			"exists":          func() error { _, err := d.OpenFile("f", OpenFlags{Create: true, Exclusive: true}); return err }(),
		} {
			wantErr(t, what, err, EINVAL, EEXIST)
		}
		must(t, f.Sync())
		must(t, f.Datasync())
		if s, _ := readAll(d, "f"); s != "hello World\x00\x00!" {
			t.Errorf("%q", s)
		}
		must(t, f.Truncate(5))
		must(t, f.Allocate(3, 4))
		must(t, f.Allocate(0, 2))
		if st, err := f.Stat(); err != nil || st.Size != 7 {
			t.Error(st, err)
		}
	})
}

func TestAppend(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		f := open(t, d, "f", OpenFlags{Read: true, Write: true, Create: true, Append: true})
		write := func(s string) { _, err := f.Write([]byte(s)); must(t, err) }
		write("ab")
		_, _ = f.Seek(0, io.SeekStart)
		write("cd")
		if pos, _ := f.Seek(0, io.SeekCurrent); pos != 4 {
			t.Errorf("position %d", pos)
		}
		must(t, f.SetFlags(false, true, false))
		_, _ = f.Seek(0, io.SeekStart)
		write("X")
		must(t, f.SetFlags(true, false, true))
		write("ef")
		if s, _ := readAll(d, "f"); s != "Xbcdef" {
			t.Errorf("%q", s)
		}
		if o := f.Flags(); !o.Append || o.Sync || !o.Datasync {
			t.Errorf("%+v", o)
		}
	})
}

func TestOpenRules(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		must(t, os.Symlink("inside.txt", filepath.Join(w.root, "lk")))
		must(t, os.Symlink("d", filepath.Join(w.root, "ld")))
		must(t, os.Symlink("loop", filepath.Join(w.root, "loop")))
		must(t, os.Symlink("nowhere", filepath.Join(w.root, "dang")))
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		for _, c := range []struct {
			path string
			o    OpenFlags
			want []Errno
		}{
			{"inside.txt", OpenFlags{}, nil},
			{"inside.txt/", OpenFlags{}, []Errno{ENOTDIR}},
			{"inside.txt///", OpenFlags{}, []Errno{ENOTDIR}},
			{"inside.txt/.", OpenFlags{}, []Errno{ENOTDIR}},
			{"inside.txt/x", OpenFlags{}, []Errno{ENOTDIR}},
			{"inside.txt", OpenFlags{Directory: true}, []Errno{ENOTDIR}},
			{"d", OpenFlags{}, nil},
			{"d/", OpenFlags{}, nil},
			{"d///", OpenFlags{Directory: true}, nil},
			{".", OpenFlags{}, nil},
			{"./", OpenFlags{}, nil},
			{"d/..", OpenFlags{}, nil},
			{"d/../d/.", OpenFlags{}, nil},
			{"d", OpenFlags{Write: true}, []Errno{EISDIR}},
			{"d", OpenFlags{Truncate: true}, []Errno{EISDIR}},
			{"d", OpenFlags{Create: true}, []Errno{EISDIR}},
			{"d", OpenFlags{Create: true, Exclusive: true}, []Errno{EEXIST}},
			{"d", OpenFlags{Directory: true, Read: true, Write: true}, []Errno{EISDIR}},
			{"lk", OpenFlags{NoFollow: true}, []Errno{ELOOP}},
			{"lk", OpenFlags{NoFollow: true, Directory: true}, []Errno{ELOOP, ENOTDIR}},
			{"lk", OpenFlags{}, nil},
			{"lk/", OpenFlags{}, []Errno{ENOTDIR}},
			{"ld", OpenFlags{NoFollow: true}, []Errno{ELOOP}},
			{"ld/", OpenFlags{NoFollow: true}, nil},
			{"ld", OpenFlags{Directory: true}, nil},
			{"ld/f.txt", OpenFlags{NoFollow: true}, nil},
			{"loop", OpenFlags{}, []Errno{ELOOP}},
			{"loop/x", OpenFlags{}, []Errno{ELOOP}},
			{"loop", OpenFlags{NoFollow: true}, []Errno{ELOOP}},
			{"dang", OpenFlags{}, []Errno{ENOENT}},
			{"dang", OpenFlags{NoFollow: true}, []Errno{ELOOP}},
			{"dang", OpenFlags{Create: true, Exclusive: true}, []Errno{EEXIST}},
			{"none", OpenFlags{}, []Errno{ENOENT}},
			{"none/x", OpenFlags{Create: true}, []Errno{ENOENT}},
			{"none/", OpenFlags{Create: true}, []Errno{EISDIR, ENOENT}},
			{string(bytes.Repeat([]byte("x"), 5000)), OpenFlags{}, []Errno{ENAMETOOLONG}},
			{string(bytes.Repeat([]byte("y"), 300)), OpenFlags{}, []Errno{ENAMETOOLONG}},
		} {
			name := fmt.Sprintf("%.20s %+v", c.path, c.o)
			f, err := d.OpenFile(c.path, c.o)
			if c.want == nil {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				} else {
					f.Close()
				}
				continue
			}
			if err == nil {
				f.Close()
				t.Errorf("%s: opened", name)
				continue
			}
			wantErr(t, name, err, c.want...)
		}
	})
}

func TestAccessModes(t *testing.T) {
	w := newWorld(t)
	d := mustOpen(t, w.root, Options{}).View(Limits{}).Root()
	b := make([]byte, 4)
	f := open(t, d, "inside.txt", OpenFlags{Truncate: true})
	if st, _ := f.Stat(); st.Size != 0 {
		t.Error("truncate without write")
	}
	_, err := f.Read(b)
	wantErr(t, "read without the right", err, EBADF)
	f = open(t, d, "inside.txt", OpenFlags{Write: true})
	_, err = f.Read(b)
	wantErr(t, "read a write-only file", err, EBADF)
	f = open(t, d, "d", OpenFlags{Read: true})
	_, err = f.Read(b)
	wantErr(t, "read a directory", err, EISDIR)
	_, err = f.Write(b)
	wantErr(t, "write a directory", err, EISDIR)
	_, err = f.Seek(0, 0)
	wantErr(t, "seek a directory", err, EISDIR)
	wantErr(t, "resize a directory", f.Truncate(0), EINVAL)
	must(t, f.Sync())
}

func TestReadDirCookies(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		dir := filepath.Join(w.root, "many")
		must(t, os.Mkdir(dir, 0o755))
		const count = 700
		for i := range count {
			put(t, filepath.Join(dir, fmt.Sprintf("file-%03d", i)), "")
		}
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		f := open(t, d, "many", OpenFlags{Directory: true})
		all, err := f.ReadDir(0, 10_000)
		must(t, err)
		if len(all) != count+2 || all[0].Name != "." || all[1].Name != ".." {
			t.Fatalf("%d entries, first %v", len(all), all[:2])
		}
		all = append([]DirEntry(nil), all...)
		st, err := f.Stat()
		must(t, err)
		if all[0].Ino != st.Ino || all[1].Ino != st.Ino {
			t.Errorf("inode of . is %d, of .. %d, want %d", all[0].Ino, all[1].Ino, st.Ino)
		}
		for i, e := range all { // each cookie continues where it says
			rest, err := f.ReadDir(e.Next, 1)
			must(t, err)
			if i+1 < len(all) && (len(rest) != 1 || rest[0] != all[i+1]) {
				t.Fatalf("after %d: %v", i, rest)
			}
			if i+1 == len(all) && len(rest) != 0 {
				t.Fatalf("after the end: %v", rest)
			}
		}
		e := all[5]
		if st, err := d.Stat("many/" + e.Name); err != nil || st.Ino != e.Ino || e.Type != TypeRegular {
			t.Errorf("%+v is %+v, %v", e, st, err)
		}
		put(t, filepath.Join(dir, "new"), "")
		again, err := f.ReadDir(0, 10_000)
		if err != nil || len(again) != count+3 {
			t.Errorf("after a change: %d, %v", len(again), err)
		}
		fresh := open(t, d, "many", OpenFlags{Directory: true})
		if list, err := fresh.ReadDir(2, 1); err != nil || len(list) != 1 || list[0].Name == "." || list[0].Name == ".." {
			t.Errorf("a first cookie that is not 0: %v, %v", list, err)
		}
		_, err = f.ReadDir(1<<40, 1)
		wantErr(t, "unknown cookie", err, EINVAL)
		_, err = f.ReadDir(math.MaxUint64, 1)
		wantErr(t, "huge cookie", err, EINVAL)
	})
}

func TestNamespace(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		opt.AllowSymlinkCreation = true
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		must(t, d.Mkdir("e", 0))
		must(t, d.Mkdir("e2/", 0))
		must(t, writeTo(d, "g", "g"))
		must(t, d.Symlink("e", "le"))
		for _, c := range []struct {
			what string
			err  error
			want []Errno
		}{
			{"mkdir exists", d.Mkdir("e", 0), []Errno{EEXIST}},
			{"mkdir dot", d.Mkdir(".", 0), []Errno{EEXIST}},
			{"unlink dir", d.Unlink("e"), []Errno{EISDIR}},
			{"unlink dir slash", d.Unlink("e/"), []Errno{EISDIR}},
			{"unlink file slash", d.Unlink("g/"), []Errno{ENOTDIR}},
			{"unlink none", d.Unlink("none"), []Errno{ENOENT}},
			{"rmdir file", d.Rmdir("g"), []Errno{ENOTDIR}},
			{"rmdir file slash", d.Rmdir("g/"), []Errno{ENOTDIR}},
			{"rmdir not empty", d.Rmdir("d"), []Errno{ENOTEMPTY}},
			{"rmdir dot", d.Rmdir("."), []Errno{EINVAL}},
			{"rmdir link", d.Rmdir("le"), []Errno{ENOTDIR}},
			{"rename file over dir", d.Rename("g", d, "e"), []Errno{EISDIR}},
			{"rename dir over file", d.Rename("e", d, "g"), []Errno{ENOTDIR}},
			{"rename dir over full dir", d.Rename("e", d, "d"), []Errno{ENOTEMPTY, EEXIST}},
			{"rename dir into itself", d.Rename("d", d, "d/x"), []Errno{EINVAL, EEXIST, ENOENT}},
			{"rename file slash", d.Rename("g/", d, "h"), []Errno{ENOTDIR}},
			{"rename file to slash", d.Rename("g", d, "h/"), []Errno{ENOTDIR}},
			{"rename none", d.Rename("none", d, "h"), []Errno{ENOENT}},
			{"link exists", d.Link("g", d, "inside.txt"), []Errno{EEXIST}},
			{"link itself", d.Link("g", d, "g"), []Errno{EEXIST}},
			{"link to dir", d.Link("g", d, "e"), []Errno{EEXIST}},
			{"link dir", d.Link("e", d, "h"), []Errno{EPERM}},
			{"link to slash", d.Link("g", d, "h/"), []Errno{ENOENT}},
			{"symlink slash", d.Symlink("x", "h/"), []Errno{ENOENT}},
			{"symlink dir slash", d.Symlink("x", "e/"), []Errno{EEXIST}},
			{"symlink file slash", d.Symlink("x", "g/"), []Errno{ENOTDIR}},
			{"symlink exists", d.Symlink("x", "g"), []Errno{EEXIST}},
			{"symlink empty", d.Symlink("", "h"), []Errno{EPERM, ENOENT}},
			{"readlink file", func() error { _, err := d.Readlink("g"); return err }(), []Errno{EINVAL}},
			{"stat file slash", func() error { _, err := d.Stat("g/"); return err }(), []Errno{ENOTDIR}},
		} {
			if c.err == nil {
				t.Errorf("%s: succeeded", c.what)
				continue
			}
			wantErr(t, c.what, c.err, c.want...)
		}
		must(t, d.Rename("e/", d, "e3/"))
		must(t, d.Rename("e3", d, "e2")) // over an empty directory
		must(t, d.Rename("g", d, "inside.txt"))
		must(t, d.Rename("inside.txt", d, "inside.txt"))
		must(t, d.Rmdir("e2/"))
		must(t, d.Unlink("le"))
	})
}

func TestTimes(t *testing.T) {
	w := newWorld(t)
	must(t, os.Symlink("inside.txt", filepath.Join(w.root, "lk")))
	d := mustOpen(t, w.root, Options{}).View(Limits{}).Root()
	const a, m = 1_500_000_000_123_456_789, 1_600_000_000_987_654_321
	f := open(t, d, "inside.txt", OpenFlags{Read: true})
	st := func() Info { i, err := f.Stat(); must(t, err); return i }
	must(t, f.SetTimes(TimeSet{Set: true, Ns: a}, TimeSet{Set: true, Ns: m}))
	if i := st(); runtime.GOOS == "linux" && (i.Atim != a || i.Mtim != m) {
		t.Errorf("%+v", i)
	}
	must(t, d.SetTimes("lk", true, TimeSet{}, TimeSet{Set: true, Ns: m - 100}))
	if i := st(); i.Mtim != m-100 || (runtime.GOOS == "linux" && i.Atim != a) {
		t.Errorf("%+v", i)
	}
	before, err := d.Lstat("lk")
	must(t, err)
	must(t, d.SetTimes("lk", false, TimeSet{}, TimeSet{Set: true, Ns: before.Mtim - 200}))
	if i, _ := d.Lstat("lk"); i.Mtim != before.Mtim-200 {
		t.Errorf("the link's own time: %+v", i)
	}
	if i := st(); i.Mtim != m-100 {
		t.Errorf("the link's target changed: %+v", i)
	}
	must(t, d.SetTimes("inside.txt", true, TimeSet{Now: true}, TimeSet{Now: true}))
	if i := st(); i.Mtim < m || i.ModTime().IsZero() {
		t.Errorf("now: %+v", i)
	}
}

func TestWriteAtomic(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		path := filepath.Join(w.root, "d", "f.txt")
		must(t, os.Chmod(path, 0o640))
		text := func(s string) func(io.Writer) error {
			return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
		}
		must(t, d.WriteAtomic("d/f.txt", 0o777, text("new")))
		st, err := os.Stat(path)
		must(t, err)
		if b, _ := os.ReadFile(path); string(b) != "new" || st.Mode().Perm() != 0o640 {
			t.Errorf("%q %v", b, st.Mode())
		}
		wantErr(t, "failing writer", d.WriteAtomic("d/f.txt", 0, func(w io.Writer) error {
			_, _ = io.WriteString(w, "half")
			return EIO
		}), EIO)
		wantErr(t, "directory", d.WriteAtomic("d", 0, text("")), EISDIR)
		wantErr(t, "slash", d.WriteAtomic("x/", 0, text("")), EISDIR, ENOENT)
		must(t, d.WriteAtomic("n.txt", 0o600, text("n")))
		if st, _ := os.Stat(filepath.Join(w.root, "n.txt")); st.Mode().Perm() != 0o600 {
			t.Errorf("mode of a new file %v", st.Mode())
		}
		list, err := os.ReadDir(filepath.Join(w.root, "d"))
		if err != nil || len(list) != 1 {
			t.Errorf("left behind: %v", list)
		}
		if _, err := d.ReadFile("d/f.txt", 2); ErrnoOf(err) != EFBIG {
			t.Errorf("limit: %v", err)
		}
	})
}

// TestSubDirectory: paths that start from an open directory cannot leave it, and the
// directory is the same after it was renamed.
func TestSubDirectory(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		must(t, os.MkdirAll(filepath.Join(w.root, "d", "sub"), 0o755))
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		f := open(t, d, "d", OpenFlags{Directory: true})
		sub, err := f.Dir()
		must(t, err)
		_, err = sub.Stat("../inside.txt")
		wantErr(t, "above", err, ErrEscape)
		_, err = sub.Stat("sub/../../inside.txt")
		wantErr(t, "above later", err, ErrEscape)
		must(t, writeTo(sub, "sub/x", "x"))
		must(t, sub.Rename("sub/x", d, "x"))
		must(t, d.Link("x", sub, "sub/y"))
		if opt.portable {
			return
		}
		must(t, d.Rename("d", d, "moved"))
		must(t, writeTo(sub, "after", "1"))
		must(t, writeTo(sub, "sub/after", "1"))
		if s, err := readAll(d, "moved/sub/after"); err != nil || s != "1" {
			t.Errorf("%q %v", s, err)
		}
		_, err = open(t, d, "x", OpenFlags{}).Dir()
		wantErr(t, "a file is no directory", err, ENOTDIR)
	})
}
