package host

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// kitGuests are the committed conformance guests of the kits for other
// languages: a new kit is one more file.
func kitGuests(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../testdata/wasm/conformance-*.wasm")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conformance guests: %v", err)
	}
	return files
}

// The golden calls of the ABI, with the conformance guest of every kit.
func TestKits(t *testing.T) {
	raw, err := os.ReadFile("../testdata/abi/calls.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range kitGuests(t) {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "conformance-"), ".wasm"), func(t *testing.T) {
			var list []kitVector
			if err := json.Unmarshal(raw, &list); err != nil {
				t.Fatal(err)
			}
			module, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(module) > 150<<10 {
				t.Errorf("the guest has %d bytes; 150 KiB are allowed", len(module))
			}
			logs := &logLines{}
			h := newHost(t, Options{CacheDir: filepath.Join(t.TempDir(), "cache"), Log: slog.New(logs)})
			told, err := h.Describe(t.Context(), module)
			if err != nil {
				t.Fatal(err)
			}
			p, err := h.LoadPlugin(module, PluginOptions{Trust: tool.TrustWorkspace})
			if err != nil {
				t.Fatal(err)
			}
			compareManifest(t, p.Manifest(), told)
			for _, v := range list {
				t.Run(v.Name, func(t *testing.T) { replayKit(t, p, v, logs) })
			}
		})
	}
}

// kitVector is a vector with what a session does not show.
type kitVector struct {
	vector
	Logs []logLine
}

type logLine struct {
	Level int
	Text  string
}

func replayKit(t *testing.T, p *Plugin, v kitVector, logs *logLines) {
	if v.Given.Unvalidated {
		unvalidated(t, p, v.vector)
		return
	}
	s := sessionOn(t, p.host, SessionOptions{Plugins: []Attachment{{Plugin: p}}, Services: map[string]tool.Service{"x-echo": echoService()}, AutoApprove: true})
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	logs.clear()
	replay(t, s, v.vector)
	if lines := logs.list(); !inOrder(lines, v.Logs) {
		t.Errorf("logged %v, want %v in this order", lines, v.Logs)
	}
}

// unvalidated hands an input to the guest that no session would.
func unvalidated(t *testing.T, p *Plugin, v vector) {
	list, err := Attachment{Plugin: p}.entries("")
	if err != nil {
		t.Fatal(err)
	}
	k := slices.IndexFunc(list, func(e *entry) bool { return e.spec.Name == v.Tool })
	r, err := list[k].tool.Execute(t.Context(), tool.NewCall(tool.Config{Name: v.Tool, Input: v.Input}))
	if err != nil {
		t.Fatal(err)
	}
	compareResult(t, r, v)
}

// compareManifest holds what a guest says it is to the manifest that all
// conformance guests have. Descriptions and details of schemas may differ.
func compareManifest(t *testing.T, m *abi.Manifest, told json.RawMessage) {
	t.Helper()
	raw, err := os.ReadFile("../testdata/abi/conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := ParseManifest(raw)
	if err != nil {
		t.Fatal(err)
	}
	if section, err := ParseManifest(told); err != nil || !reflect.DeepEqual(section, m) {
		t.Errorf("blade_describe answers something else than the manifest section (%v)", err)
	}
	if len(m.Tools) != len(want.Tools) || m.Name != want.Name {
		t.Fatalf("%s has %d tools, want %s with %d", m.Name, len(m.Tools), want.Name, len(want.Tools))
	}
	for i := range want.Tools {
		w, g := want.Tools[i], m.Tools[i]
		for _, s := range []*abi.ToolSpec{&w, &g} {
			s.Description, s.Parameters = abi.Description{}, nil
		}
		if !reflect.DeepEqual(g, w) {
			t.Errorf("tool %d is %+v, want %+v", i, g, w)
		}
	}
}

// logLines is a log handler that keeps lines of guests, with the levels of the ABI.
type logLines struct {
	mu    sync.Mutex
	lines []logLine
}

func (l *logLines) Enabled(context.Context, slog.Level) bool { return true }

func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	levels := map[slog.Level]int{slog.LevelDebug - 4: 0, slog.LevelDebug: 1, slog.LevelInfo: 2, slog.LevelWarn: 3, slog.LevelError: 4}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, logLine{levels[r.Level], r.Message})
	return nil
}

func (l *logLines) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logLines) WithGroup(string) slog.Handler      { return l }

func (l *logLines) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = nil
}

func (l *logLines) list() []logLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// inOrder says whether got has want in it, other lines between.
func inOrder(got, want []logLine) bool {
	for _, g := range got {
		if len(want) > 0 && g == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// The small guests: by hand and in AssemblyScript.
func TestSmallGuests(t *testing.T) {
	h := newHost(t, Options{})
	var list []Attachment
	guest := func(file string) *Session {
		module, err := os.ReadFile(filepath.Join("../testdata/wasm", file))
		if err != nil {
			t.Fatal(err)
		}
		p, err := h.LoadPlugin(module, PluginOptions{Trust: tool.TrustWorkspace})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, Attachment{Plugin: p})
		return sessionOn(t, h, SessionOptions{Plugins: list[len(list)-1:]})
	}
	long := `{"a":"` + strings.Repeat("é", 200_000) + `"}`
	for _, c := range []struct{ file, tool, input, data string }{
		{"noop.wasm", "Noop", `{}`, `null`},
		{"echo.wasm", "Echo", `{}`, `{}`},
		{"echo.wasm", "Echo", long, long},
		{"echo-as.wasm", "Echo", `{"a":"é😀\"\n"}`, `{"a":"é😀\"\n"}`},
		{"echo-as.wasm", "Echo", long, long},
		{"echo-as.wasm", "Count", `{"n":0}`, `{"counted":0}`},
	} {
		r := do(t, guest(c.file), Call{Tool: c.tool, Input: in(c.input)})
		if r.IsError() || !reflect.DeepEqual(decoded(t, r.Data), decoded(t, in(c.data))) {
			t.Errorf("%s %s %.100s: %.100s %+v", c.file, c.tool, c.input, r.Data, r.Error)
		}
	}
	s := guest("echo-as.wasm")
	x := s.Start(t.Context(), Call{Tool: "Count", Input: in(`{"n":3}`)})
	var got []string
	for y := range x.Yields() {
		got = append(got, y.Content.Summary)
	}
	if r, err := x.Result(); err != nil || string(r.Data) != `{"counted":3}` || strings.Join(got, " ") != "1 2 3" {
		t.Errorf("%v %+v %v", got, r, err)
	}
	// A throw is an error with its own words, and the next call knows nothing of it.
	r := do(t, s, Call{Tool: "Throw", Input: in(`{}`)})
	if r.Error == nil || r.Error.Code != "panic" || r.Error.Message != `the tool panicked: thrown "on" purpose` {
		t.Errorf("%+v", r.Error)
	}
	wantOK(t, do(t, s, Call{Tool: "Count", Input: in(`{"n":1}`)}))
}

// recipe is how a committed guest is made of its source, in a folder of the
// project. OUT is the file to write, TMP a folder of one build, TOP the project.
type recipe struct {
	file, dir string
	cmd       []string
	env       []string
	// made is the file that the command writes, where it is not OUT.
	made string
}

func guestRecipes() []recipe {
	// Not a plain -Oz, which runs a wasm-opt that is on the PATH and makes other bytes.
	clang := func(file, source string, flags ...string) recipe {
		cmd := append([]string{"clang-19"}, flags...)
		return recipe{file: file, cmd: append(cmd, "-Xclang", "-Oz", "-s", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", "pdk/c", source, "-o", "OUT")}
	}
	cargo := func(file, made string, more ...string) recipe {
		cmd := append([]string{"/usr/bin/cargo", "build", "--offline", "--release", "--target", "wasm32-unknown-unknown"}, more...)
		// Not the first cargo on the PATH: it may have no standard library for wasm.
		env := []string{"RUSTC=/usr/bin/rustc", "PATH=/usr/bin:" + os.Getenv("PATH"), "CARGO_TARGET_DIR=TMP", "RUSTFLAGS=--remap-path-prefix=TOP/=", "RUSTUP_TOOLCHAIN="}
		return recipe{file: file, dir: "pdk/rust", cmd: cmd, env: env, made: "TMP/wasm32-unknown-unknown/release/" + made}
	}
	wat := func(name string) recipe {
		return recipe{file: name + ".wasm", cmd: []string{"wat2wasm", "testdata/wasm/" + name + ".wat", "-o", "OUT"}}
	}
	return []recipe{
		wat("noop"), wat("echo"),
		{file: "echo-as.wasm", dir: "testdata/wasm", cmd: []string{"asc", "as/echo.ts", "-O3", "--shrinkLevel", "2", "--runtime", "incremental", "--use", "abort=as/blade/bladeAbort", "-o", "OUT"}},
		clang("conformance-c.wasm", "pdk/c/conformance/conformance.c", "--target=wasm32-wasi", "--sysroot=/usr", "-mexec-model=reactor"),
		clang("json-c.wasm", "pdk/c/examples/rewrite.c", "--target=wasm32", "-nostdlib", "-ffreestanding", "-Wl,--no-entry"),
		cargo("conformance-rust.wasm", "blade_conformance.wasm", "-p", "blade-conformance"),
		cargo("json-rust.wasm", "examples/rewrite.wasm", "--example", "rewrite"),
	}
}

// With BLADEHOST_REBUILD=1 the committed guests are built anew, each whose
// compiler is there; they must be what is committed. Another version of a
// compiler may make other bytes. With BLADEHOST_REBUILD=write they are written.
func TestGuestSources(t *testing.T) {
	mode := os.Getenv("BLADEHOST_REBUILD")
	if mode == "" {
		t.Skip("BLADEHOST_REBUILD is not set")
	}
	h := newHost(t, Options{})
	for _, r := range guestRecipes() {
		t.Run(r.file, func(t *testing.T) {
			if _, err := exec.LookPath(r.cmd[0]); err != nil {
				t.Skipf("%s is not installed", r.cmd[0])
			}
			built := signed(t, h, r.build(t))
			file := filepath.Join("../testdata/wasm", r.file)
			if mode == "write" {
				if err := os.WriteFile(file, built, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			have, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(have, built) {
				t.Errorf("%s has %d bytes and is not what its source makes (%d bytes); BLADEHOST_REBUILD=write go test ./host -run GuestSources writes it", r.file, len(have), len(built))
			}
		})
	}
}

func (r recipe) build(t *testing.T) []byte {
	t.Helper()
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	if r.made == "" {
		r.made = "TMP/out.wasm"
	}
	fill := strings.NewReplacer("OUT", r.made, "TOP", top)
	last := strings.NewReplacer("TMP", tmp)
	place := func(s string) string { return last.Replace(fill.Replace(s)) }
	var args []string
	for _, a := range r.cmd[1:] {
		args = append(args, place(a))
	}
	cmd := exec.Command(r.cmd[0], args...)
	cmd.Dir, cmd.Env = filepath.Join(top, r.dir), os.Environ()
	for _, e := range r.env {
		cmd.Env = append(cmd.Env, place(e))
	}
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, msg)
	}
	b, err := os.ReadFile(place(r.made))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
