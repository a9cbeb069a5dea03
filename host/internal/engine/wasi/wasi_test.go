package wasi_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi/wasitest"
)

// grant opens a folder for a test.
func grant(t testing.TB, dir string, opt fs.Options) *fs.Grant {
	t.Helper()
	g, err := fs.Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// goGuest builds a Go program for wasip1.
func goGuest(t testing.TB, src string) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-o", out, "main.go")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GO111MODULE=off")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	bin, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

func TestGoGuest(t *testing.T) {
	bin := goGuest(t, `package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

func check(what string, err error) {
	if err != nil {
		fmt.Println("FAIL", what, err)
		os.Exit(3)
	}
}

func main() {
	dir := os.Args[1]
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
`)
	dir := t.TempDir()
	g := grant(t, dir, fs.Options{AllowSymlinkCreation: true})
	o := wasitest.Run(context.Background(), bin, wasi.Config{
		Args: []string{"guest", dir}, Env: []string{"NAME=value"}, Stdin: bytes.NewReader([]byte("input")),
		Mounts: []wasi.Mount{{Guest: dir, View: g.View(fs.Limits{})}},
	})
	want := "../a.txt hello\nlink L---------\nw d---------\n15 true\n2020-01-02T03:04:05Z\ntrue\ntrue\ntrue\ninput value\n3\n"
	if o.Err != nil || o.Code != 7 || o.Stdout != want || o.Stderr != "" {
		t.Fatal(o)
	}
}
