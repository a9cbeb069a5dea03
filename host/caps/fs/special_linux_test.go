package fs

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSpecialFiles: FIFOs, devices and sockets are refused at once, whatever the
// flags; through links too.
func TestSpecialFiles(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		fifo := filepath.Join(w.root, "fifo")
		must(t, unix.Mkfifo(fifo, 0o666))
		must(t, os.Symlink("fifo", filepath.Join(w.root, "fifo-link")))
		must(t, unix.Mknod(filepath.Join(w.root, "sock"), unix.S_IFSOCK|0o600, 0)) // listening would bound the path
		list := []string{"fifo", "fifo-link", "sock"}
		if err := unix.Mknod(filepath.Join(w.root, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err == nil {
			list = append(list, "null")
		}
		d := mustOpen(t, w.root, opt).View(Limits{}).Root()
		for _, name := range list {
			for _, o := range []OpenFlags{{}, {Read: true}, {Write: true}, {Read: true, Write: true, Create: true}, {Truncate: true}, {Append: true, Write: true}} {
				done := make(chan error, 1)
				go func() { // ends with the open; waited for below
					_, err := d.OpenFile(name, o)
					done <- err
				}()
				select {
				case err := <-done:
					wantErr(t, name, err, ErrNotRegular)
				case <-time.After(10 * time.Second):
					t.Fatalf("open of %s blocks", name)
				}
			}
			wantErr(t, "truncate "+name, d.Truncate(name, 0), ErrNotRegular)
			wantErr(t, "link "+name, d.Link(name, d, "hard"), EPERM)
			wantErr(t, "atomic write "+name, d.WriteAtomic(name, 0, nil), ErrNotRegular, ELOOP)
			if st, err := d.Stat(name); err != nil || st.Type != TypeOther {
				t.Errorf("stat %s: %+v %v", name, st, err)
			}
		}
		must(t, d.Unlink("fifo")) // removing one is fine
	})
}

// TestFIFORace swaps a regular file for a FIFO: the check after the open must hold, and
// nothing may block.
func TestFIFORace(t *testing.T) {
	w := newWorld(t)
	fifo := filepath.Join(w.root, "fifo")
	must(t, unix.Mkfifo(fifo, 0o666))
	d := mustOpen(t, w.root, Options{}).View(Limits{}).Root()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // waited for through stopped
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = unix.Renameat2(unix.AT_FDCWD, fifo, unix.AT_FDCWD, filepath.Join(w.root, "inside.txt"), unix.RENAME_EXCHANGE)
		}
	}()
	for range 5_000 {
		f, err := d.OpenFile("inside.txt", OpenFlags{Read: true})
		if err != nil {
			wantErr(t, "open", err, ErrNotRegular)
			continue
		}
		if st, err := f.Stat(); err != nil || !st.IsRegular() {
			t.Fatalf("opened %+v, %v", st, err)
		}
		f.Close()
	}
	close(stop)
	<-stopped
}

func TestPseudoFileSystems(t *testing.T) {
	for _, dir := range []string{"/proc", "/proc/self", "/proc/self/fd", "/sys", "/dev", "/dev/pts"} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		g, err := Open(dir, Options{})
		if err == nil {
			g.Close()
		}
		wantErr(t, dir, err, ErrNotRegular)
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("no /proc")
	}
	d := mustOpen(t, "/", Options{ReadOnly: true}).View(Limits{}).Root()
	for _, p := range []string{"proc/self/status", "proc", "proc/1/environ"} {
		_, err := d.OpenFile(p, OpenFlags{Read: true})
		wantErr(t, p, err, ErrNotRegular, EACCES, ENOENT)
	}
	for _, p := range []string{"proc/self/root/etc/passwd", "proc/self/cwd/x", "dev/stdin"} {
		if _, err := d.OpenFile(p, OpenFlags{Read: true}); err == nil {
			t.Errorf("%s can be opened", p)
		}
	}
}

// TestDescriptors: nothing stays open after all kinds of failures.
func TestDescriptors(t *testing.T) {
	w := newWorld(t)
	w.plant(t)
	g := mustOpen(t, w.root, Options{AllowSymlinkCreation: true, Deny: []string{"no"}})
	v := g.View(Limits{})
	d := v.Root()
	round := func() {
		_, _ = readAll(d, "rel")
		_, _ = readAll(d, "d/f.txt")
		_, _ = readAll(d, "d/none")
		_, _ = readAll(d, "no/x")
		_ = d.Rename("d/f.txt", d, "d/g.txt")
		_ = d.Rename("d/g.txt", d, "reldir/f.txt")
		_ = d.Rename("d/g.txt", d, "d/f.txt")
		_ = d.Link("d/f.txt", d, "d/none/x")
		_ = d.WriteAtomic("d/f.txt", 0, func(io.Writer) error { return EIO })
		_ = d.MkdirAll("x/y/z", 0)
		f, err := d.OpenFile("x/y", OpenFlags{Directory: true})
		must(t, err)
		sub, _ := f.Dir()
		_ = sub.Mkdir("z/w", 0)
		_, _ = sub.Stat("z/w/..")
		_, _ = f.ReadDir(0, 10)
		must(t, f.Close())
	}
	round()
	before := countFDs(t)
	for range 50 {
		round()
	}
	if now := countFDs(t); now > before {
		t.Errorf("%d descriptors, %d before", now, before)
	}
	if u := v.Usage(); u.Open != 0 {
		t.Errorf("usage says %d open", u.Open)
	}
}

func countFDs(t testing.TB) int {
	t.Helper()
	l, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(l)
}

// TestTreeSpecialFiles: a tree refuses what is no file at once, also where it has taken a file's place, and leaves
// nothing open.
func TestTreeSpecialFiles(t *testing.T) {
	eachBackend(t, func(t *testing.T, opt Options) {
		w := newWorld(t)
		w.plant(t)
		must(t, unix.Mkfifo(filepath.Join(w.root, "fifo"), 0o666))
		v := mustOpen(t, w.root, opt).View(Limits{})
		tr := treeOf(t, v.Root(), ".")
		before := 0
		for i := range 50 {
			if i == 1 { // behind what is opened once
				before = countFDs(t)
			}
			_, err := readTree(tr, "fifo")
			wantErr(t, "fifo", err, ErrNotRegular)
			for _, p := range []string{"inside.txt", "d", "rel", "reldir/secret.txt", "none", "d/none"} {
				_, _ = readTree(tr, p)
				if f, err := tr.Folder(p); err == nil {
					_, _ = f.List(nil)
					_, _ = f.Lstat("f.txt")
					f.Close()
				}
			}
		}
		if now := countFDs(t); now > before {
			t.Errorf("%d descriptors, %d before", now, before)
		}
		if u := v.Usage(); u.Open != 1 {
			t.Errorf("usage says %d open", u.Open)
		}
	})
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("no /proc")
	}
	tr := treeOf(t, mustOpen(t, "/", Options{ReadOnly: true}).View(Limits{}).Root(), ".")
	_, err := readTree(tr, "proc/self/status") // self is a link
	wantErr(t, "proc", err, ErrNotRegular, ELOOP, EACCES)
	_, err = readTree(tr, "proc/version")
	wantErr(t, "proc", err, ErrNotRegular)
	_, err = tr.Folder("proc")
	wantErr(t, "proc", err, ErrNotRegular)
}
