package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts of testdata/script are what a person would type. Beside the
// commands of testscript there are
//
//	exits N PROGRAM ARGS…   run a program, which must end with this exit code
//	guest FILE MANIFEST [BODY]   make a plugin by hand, see guest_test.go;
//	                        bare is one without a manifest section
//	fifo FILE, sparse FILE SIZE, damage FILE
//	talk FILE ARGS…         play a conversation with bladehost session ARGS
//
// and the variables HASH, JQ, CONFORMANCE, MEASURE (ready plugins) and ROOT (the
// repository). Each script has installed plugins of its own; compiled plugins
// are shared.
func TestScripts(t *testing.T) {
	p := scriptParams(t)
	p.Dir, p.UpdateScripts = filepath.Join(root(t), "testdata", "script"), *update
	testscript.Run(t, p)
}

// scriptParams is the world that scripts run in.
func scriptParams(t *testing.T) testscript.Params {
	ready := plugins(t)
	schema := readSessionSchema(t)
	return testscript.Params{
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			for name, path := range map[string]string{"HASH": ready["hash"], "JQ": ready["jq"], "CONFORMANCE": ready["conformance"], "MEASURE": ready["measure"], "ROOT": root(t)} {
				e.Setenv(name, path)
			}
			for _, k := range []string{"CONFIG", "DATA", "STATE"} {
				e.Setenv("XDG_"+k+"_HOME", filepath.Join(e.WorkDir, ".places", k))
			}
			e.Setenv("XDG_CACHE_HOME", filepath.Join(shared.dir, "cache"))
			e.Setenv("BLADEHOST_HOME", "")
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			if name := strings.TrimPrefix(filepath.Base(e.WorkDir), "script-"); raceEnabled && slices.Contains([]string{"build", "check", "install", "new", "run_source"}, name) {
				bin, err := plainProgram() // these compile plugins
				if err != nil {
					return err
				}
				e.Setenv("PATH", filepath.Dir(bin)+string(filepath.ListSeparator)+e.Getenv("PATH"))
			}
			for _, k := range goSettings() {
				out, err := exec.Command("go", "env", k).Output()
				if err != nil {
					return err
				}
				e.Setenv(k, string(out[:len(out)-1]))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": scriptExits, "guest": scriptGuest(t), "fifo": scriptFifo, "sparse": scriptSparse, "damage": scriptDamage, "talk": scriptTalk(schema),
		},
	}
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N PROGRAM ARGS…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func scriptGuest(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		g := guest{manifest: []byte(ts.ReadFile(args[1]))}
		for len(g.manifest) > 0 && g.manifest[len(g.manifest)-1] == '\n' {
			g.manifest = g.manifest[:len(g.manifest)-1]
		}
		if len(args) > 2 {
			g.body, g.noSection = args[2], args[2] == "bare"
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), g.module(t), 0o600))
	}
}

func scriptSparse(ts *testscript.TestScript, _ bool, args []string) {
	n, err := parseSize(args[1])
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(f.Truncate(n))
	ts.Check(f.Close())
}

// scriptDamage changes one byte in the middle of a file.
func scriptDamage(ts *testscript.TestScript, _ bool, args []string) {
	list, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, p := range list {
		b, err := os.ReadFile(p)
		ts.Check(err)
		b[len(b)/2] ^= 1
		ts.Check(os.WriteFile(p, b, 0o600))
	}
	if len(list) == 0 {
		ts.Fatalf("no file %s", args[0])
	}
}

func scriptTalk(schema *sessionSchema) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		program, err := exec.LookPath("bladehost")
		ts.Check(err)
		cmd := exec.Command(program, append([]string{"session"}, args[1:]...)...)
		cmd.Dir = ts.MkAbs(".")
		for _, k := range []string{"PATH", "HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "GOCACHE", "GORACE", "WORK"} {
			cmd.Env = append(cmd.Env, k+"="+ts.Getenv(k))
		}
		cmd.Stderr = ts.Stderr()
		tk, err := startTalk(cmd, schema, ts.Logf)
		ts.Check(err)
		if err := tk.play(ts.ReadFile(args[0])); err != nil {
			_ = cmd.Process.Kill()
			ts.Fatalf("%v", err)
		}
		_ = tk.in.Close() // most closed it already
		tk.ended()
		for _, l := range tk.lines {
			_, err := ts.Stdout().Write([]byte(l.text + "\n"))
			ts.Check(err)
		}
	}
}
