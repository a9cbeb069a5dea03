package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write generated files and scripts anew")

// shared is what all tests of one run of this package use: a cache of compiled
// plugins and the plugins themselves, each built once.
var shared struct {
	dir   string
	once  sync.Once
	paths map[string]string
	err   error
}

// wrapped cleans up after the tests; testscript.Main itself never returns.
type wrapped struct{ m *testing.M }

func (w wrapped) Run() int {
	dir, err := os.MkdirTemp("", "bladehost-cmd-test-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shared.dir = dir
	return w.m.Run()
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == compileVerb || os.Args[1] == pdfVerb) { // a bladehost of a script started it, by the path of the test
		os.Exit(start(os.Args[1:]))
	}
	testscript.Main(wrapped{m}, map[string]func(){
		"bladehost": func() { os.Exit(start(os.Args[1:])) },
	})
}

// plainProgram is bladehost without the race detector, which makes the compiler
// of plugins ten times slower: it is not what is tested here. It is a test binary
// too, so that its cache is the same.
var plainProgram = sync.OnceValues(func() (string, error) {
	program := filepath.Join(shared.dir, "plain", "bladehost")
	out, err := exec.Command("go", "test", "-c", "-o", program, ".").CombinedOutput()
	if err != nil {
		return "", &buildError{string(out), err}
	}
	return program, nil
})

// program is what runs as bladehost in a process of its own.
func program() (string, error) {
	if raceEnabled {
		return plainProgram()
	}
	return exec.LookPath("bladehost") // testscript.Main put the test itself there
}

// root is the top of the repository.
func root(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// plugins are the paths of ready plugins by name: hash and jq, the two real
// ones; conformance, which reaches every part of the ABI; measure, which is small.
func plugins(t testing.TB) map[string]string {
	t.Helper()
	shared.once.Do(func() { shared.paths, shared.err = buildPlugins(root(t)) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.paths
}

func buildPlugins(top string) (map[string]string, error) {
	conformance := filepath.Join(shared.dir, "raw.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", conformance, "./pdk/conformance")
	cmd.Dir = top
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, &buildError{string(out), err}
	}
	bin, err := program()
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for name, source := range map[string]string{ // one after the other: compiling has a time limit, whatever else the machine does
		"hash": filepath.Join(top, "plugins", "blade-tool-hash"), "jq": filepath.Join(top, "plugins", "blade-tool-jq"),
		"conformance": conformance, "measure": filepath.Join(top, "testdata", "wasm", "spec-example.wasm"),
	} {
		paths[name] = filepath.Join(shared.dir, name+".wasm")
		cmd := exec.Command(bin, "build", source, "-o", paths[name])
		cmd.Env = processEnv(buildPlaces())
		if msg, err := cmd.CombinedOutput(); err != nil {
			return nil, &buildError{string(msg), err}
		}
	}
	return paths, nil
}

// buildPlaces is where the plugins are built: with places of their own, for there may be no home folder, and
// with what go is set up with.
func buildPlaces() map[string]string {
	env := map[string]string{}
	for _, k := range []string{"CONFIG", "DATA", "STATE"} {
		env["XDG_"+k+"_HOME"] = filepath.Join(shared.dir, "build", k)
	}
	for _, k := range goSettings() {
		if out, err := exec.Command("go", "env", k).Output(); err == nil { // otherwise the build tells
			env[k] = strings.TrimSpace(string(out))
		}
	}
	return env
}

// goSettings are what a go command of ours takes over from the one that runs the tests.
func goSettings() []string {
	return []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN"}
}

type buildError struct {
	out string
	err error
}

func (e *buildError) Error() string { return "a plugin for the tests does not build: " + e.out }

// processEnv is the environment of bladehost as a process of its own.
func processEnv(env map[string]string) []string {
	out := append(os.Environ(), "GORACE=atexit_sleep_ms=0", "BLADEHOST_HOME=", "XDG_CACHE_HOME="+filepath.Join(shared.dir, "cache"))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	return out
}

// ran is what a command line left behind.
type ran struct {
	code     int
	out, err string
}

// runCLI runs a command line in this process. env overrides the environment;
// the cache of compiled plugins is shared, the other places are only the test's
// when env says so.
func runCLI(ctx context.Context, env map[string]string, stdin string, args ...string) ran {
	var out, msg bytes.Buffer
	a := &app{in: strings.NewReader(stdin), out: &out, err: &msg, getenv: func(k string) string {
		if v, ok := env[k]; ok {
			return v
		}
		switch k {
		case "XDG_CACHE_HOME":
			return filepath.Join(shared.dir, "cache")
		case "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME":
			return filepath.Join(shared.dir, k)
		case "BLADEHOST_HOME":
			return ""
		}
		return os.Getenv(k)
	}}
	code := a.run(ctx, args)
	return ran{code, out.String(), msg.String()}
}

// ownPlaces is an environment with places of the test's own.
func ownPlaces(t testing.TB) map[string]string {
	t.Helper()
	dir := t.TempDir()
	return map[string]string{
		"XDG_CONFIG_HOME": filepath.Join(dir, "config"), "XDG_DATA_HOME": filepath.Join(dir, "data"), "XDG_STATE_HOME": filepath.Join(dir, "state"),
	}
}
