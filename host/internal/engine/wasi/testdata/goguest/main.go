// Command goguest is built for wasip1 by the tests: an ordinary program ("use") and a
// hostile one ("escape") in a mounted folder.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if os.Args[1] == "use" {
		use(os.Args[2])
	} else {
		escape(os.Args[2])
	}
}

func check(what string, err error) {
	if err != nil {
		fmt.Println("FAIL", what, err)
		os.Exit(3)
	}
}

// use does what ordinary programs do.
func use(dir string) {
	check("write", os.WriteFile(dir+"/a.txt", []byte("hello"), 0o644))
	b, err := os.ReadFile(dir + "/a.txt")
	check("read", err)
	if string(b) != "hello" {
		check("content", errors.New(string(b)))
	}
	check("mkdir", os.MkdirAll(dir+"/x/y/z", 0o755))
	check("symlink", os.Symlink("../a.txt", dir+"/x/link"))
	b, err = os.ReadFile(dir + "/x/link")
	check("readlink", err)
	l, err := os.Readlink(dir + "/x/link")
	check("readlink", err)
	fmt.Println(l, string(b))
	check("rename", os.Rename(dir+"/x/y", dir+"/x/w"))
	ents, err := os.ReadDir(dir + "/x")
	check("readdir", err)
	for _, e := range ents {
		fmt.Println(e.Name(), e.Type())
	}
	f, err := os.OpenFile(dir+"/log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check("append", err)
	for range 3 {
		_, err = f.WriteString("line\n")
		check("append", err)
	}
	check("close", f.Close())
	st, err := os.Stat(dir + "/log")
	check("stat", err)
	fmt.Println(st.Size(), st.Mode().IsRegular())
	when := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	check("chtimes", os.Chtimes(dir+"/log", when, when))
	st, _ = os.Stat(dir + "/log")
	fmt.Println(st.ModTime().UTC().Format(time.RFC3339))
	check("truncate", os.Truncate(dir+"/log", 2))
	t0 := time.Now()
	time.Sleep(20 * time.Millisecond)
	fmt.Println(time.Since(t0) >= 19*time.Millisecond)
	_, err = os.Stat(dir + "/none")
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	_, err = os.ReadFile(dir + "/../secret")
	fmt.Println(err != nil)
	check("remove", os.RemoveAll(dir+"/x"))
	in, err := io.ReadAll(os.Stdin)
	check("stdin", err)
	fmt.Println(string(in), os.Getenv("NAME"))
	n := 0
	check("walk", filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error { n++; return err }))
	fmt.Println(n)
	os.Exit(7)
}

func try(name string, f func() error) {
	if err := f(); err == nil {
		fmt.Println("OUT", name)
	} else {
		fmt.Println("ERR", name)
	}
}

// escape tries to leave the folder with what the os package offers. It prints OUT for
// each attempt that worked.
func escape(w string) {
	p := func(n string) string { return w + "/" + n }
	raw := func(n string) string { return w + "/./" + n } // os does not clean this away
	read := func(path string) func() error {
		return func() error { _, err := os.ReadFile(path); return err }
	}
	try("dotdot", read(p("../secret/secret.txt")))
	try("dotdot inside", read(raw("d/../../secret/secret.txt")))
	try("absolute", read("/etc/passwd"))
	try("planted relative link", read(p("rel")))
	try("planted absolute link", read(p("abs")))
	try("planted directory link", read(p("reldir/secret.txt")))
	try("list planted", func() error { _, err := os.ReadDir(p("reldir")); return err })
	try("list planted with slash", func() error { _, err := os.ReadDir(p("evil/")); return err })
	try("list parent", func() error { _, err := os.ReadDir(raw("..")); return err })
	try("stat outside", func() error { _, err := os.Stat(p("rel")); return err })
	try("readlink outside", func() error { _, err := os.Readlink(p("abs")); return err })
	try("make absolute link", func() error { return os.Symlink("/etc/passwd", p("l1")) })
	try("make relative link out", func() error { return os.Symlink("../secret/secret.txt", p("l2")) })
	try("make link up", func() error { return os.Symlink("..", p("up")) })
	try("read through up", read(p("up/secret/secret.txt")))
	try("create outside", func() error { return os.WriteFile(p("reldir/new"), nil, 0o600) })
	try("create through dangling", func() error { return os.WriteFile(p("dangling"), nil, 0o600) })
	try("mkdir outside", func() error { return os.Mkdir(p("reldir/m"), 0o700) })
	try("rename into", func() error { return os.Rename(p("inside.txt"), p("reldir/i")) })
	try("rename out of", func() error { return os.Rename(p("reldir/secret.txt"), p("got")) })
	try("hard link out of", func() error { return os.Link(p("reldir/secret.txt"), p("hard")) })
	try("delete outside", func() error { return os.Remove(p("reldir/secret.txt")) })
	try("truncate outside", func() error { return os.Truncate(p("rel"), 0) })
	try("times outside", func() error { return os.Chtimes(p("rel"), time.Now(), time.Now()) })
	try("open read-write with create", func() error { _, err := os.OpenFile(p("abs"), os.O_RDWR|os.O_CREATE, 0o600); return err })
	try("fifo", read(p("fifo")))
	try("4 TiB", func() error { return os.Truncate(p("inside.txt"), 4<<40) })
	try("write at 4 TiB", func() error {
		f, err := os.OpenFile(p("inside.txt"), os.O_RDWR, 0)
		if err != nil {
			return nil
		}
		_, err = f.WriteAt([]byte("x"), 4<<40)
		return err
	})
	try("5000 descriptors", func() error {
		for range 5000 {
			if _, err := os.Open(p("inside.txt")); err != nil {
				return err
			}
		}
		return nil
	})
}
