package wasi_test

import (
	"context"
	"embed"
	"flag"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/internal/engine/wasi"
	"github.com/bladehost/bladehost/host/internal/engine/wasi/wasitest"
)

//go:embed testdata/*.wasm
var guests embed.FS

var suite = flag.String("suite", "", "checkout of wasi-testsuite for TestWasiSuite")

func guest(t testing.TB, name string) []byte {
	t.Helper()
	b, err := guests.ReadFile("testdata/" + name + ".wasm")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWasiSuite runs a checkout of the public wasi-testsuite:
//
//	go test ./host/internal/engine/wasi -run TestWasiSuite -v -args -suite DIR
func TestWasiSuite(t *testing.T) {
	if *suite == "" {
		t.Skip("needs -args -suite DIR")
	}
	wasitest.RunSuite(t, *suite)
}

// TestRawGuests runs the C guests that call the host functions directly. Each test gets
// an empty folder.
func TestRawGuests(t *testing.T) {
	programs := map[string][]string{
		"fd": {"read_write", "read_only_write_only", "append_and_flags", "rights", "inheriting_rights",
			"truncate_allocate_advise", "times", "renumber", "preopens", "directory_as_file", "readdir", "lots"},
		"path": {"open_flags", "truncation", "interesting", "path_exists", "nofollow", "symlinks", "links", "renames", "removal"},
		"misc": {"clocks", "random", "rest"},
	}
	for prog, tests := range programs {
		bin := guest(t, prog)
		for _, name := range tests {
			t.Run(prog+"/"+name, func(t *testing.T) {
				t.Parallel()
				g := grant(t, t.TempDir(), fs.Options{AllowSymlinkCreation: true})
				v := g.View(fs.Limits{})
				o := wasitest.Run(context.Background(), bin, wasi.Config{
					Args: []string{prog, name}, Mounts: []wasi.Mount{{Guest: "/", View: v}},
				})
				if o.Err != nil || o.Code != 0 {
					t.Error(o)
				}
				if n := v.Usage().Open; n != 0 {
					t.Errorf("%d files stay open", n)
				}
			})
		}
	}
}

func TestRawStdio(t *testing.T) {
	bin := guest(t, "misc")
	run := func(args ...string) wasitest.Outcome {
		g := grant(t, t.TempDir(), fs.Options{})
		return wasitest.Run(context.Background(), bin, wasi.Config{
			Args: append([]string{"misc"}, args...), Env: []string{"a=b", "c d=é f"},
			Stdin: strings.NewReader("input"), Mounts: []wasi.Mount{{Guest: "/", View: g.View(fs.Limits{})}},
		})
	}
	for _, c := range []struct {
		args   []string
		code   uint32
		stderr string
	}{
		{args: []string{"args_environ", "first", `the "2nd"`, ""}},
		{args: []string{"stdio"}, stderr: "err"},
		{args: []string{"poll"}},
		{args: []string{"exit"}, code: 33},
	} {
		if o := run(c.args...); o.Err != nil || o.Code != c.code || o.Stdout != "" || o.Stderr != c.stderr {
			t.Errorf("%v: %s", c.args, o)
		}
	}
}

func TestLibcGuest(t *testing.T) {
	bin := guest(t, "libc")
	for _, name := range []string{"files", "directories", "others"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := grant(t, t.TempDir(), fs.Options{AllowSymlinkCreation: true})
			o := wasitest.Run(context.Background(), bin, wasi.Config{
				Args: []string{"libc", name}, Env: []string{"NAME=value"}, Stdin: strings.NewReader("input\n"),
				Mounts: []wasi.Mount{{Guest: "/w", View: g.View(fs.Limits{})}},
			})
			if o.Err != nil || o.Code != 0 || o.Stdout != "fine\n" {
				t.Error(o)
			}
		})
	}
}
