// Command odd is a plugin for the host's tests: its tools try what a guest may
// not do, and do in odd ways what it may.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
	"unsafe"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

//go:wasmimport blade_v1 yield
func rawYield(ptr unsafe.Pointer, n uint32) int32

type none struct{}

func environment(context.Context, none) (map[string]any, error) {
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "error: " + err.Error()
	}
	return map[string]any{"environ": os.Environ(), "args": os.Args, "cwd": cwd, "pid": os.Getpid(), "hostname": hostname()}, nil
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return ""
	}
	return h
}

// reach lists what it could reach without having been lent anything.
func reach(context.Context, none) ([]string, error) {
	out := []string{}
	try := func(what string, err error) {
		if err == nil {
			out = append(out, what)
		}
	}
	c, err := net.DialTimeout("tcp", "127.0.0.1:80", time.Second)
	try("dial", err)
	if err == nil {
		c.Close()
	}
	_, err = net.LookupHost("localhost")
	try("lookup", err)
	try("exec", exec.Command("/bin/true").Run())
	for _, p := range []string{"/", ".", "..", "/etc/passwd", "/proc/self/environ", "/dev/null", "/tmp", "relative.txt"} {
		_, err := os.Stat(p)
		try("stat "+p, err)
		f, err := os.Open(p)
		try("open "+p, err)
		if err == nil {
			f.Close()
		}
	}
	try("create", os.WriteFile("/tmp/odd-was-here", nil, 0o600))
	for fd := 3; fd < 20; fd++ {
		f := os.NewFile(uintptr(fd), "fd")
		_, err := f.Read(make([]byte, 1))
		try(fmt.Sprint("read of descriptor ", fd), err)
	}
	return out, nil
}

type filesIn struct {
	Op string `json:"op"`
	// Where is a path under a name that permission rules do not look for.
	Where string `json:"where"`
	Text  string `json:"text,omitempty"`
}

func files(_ context.Context, in filesIn) (string, error) {
	var out string
	var err error
	switch in.Op {
	case "read":
		var b []byte
		b, err = os.ReadFile(in.Where)
		out = string(b)
	case "write":
		err = os.WriteFile(in.Where, []byte(in.Text), 0o600)
	case "list":
		var list []os.DirEntry
		list, err = os.ReadDir(in.Where)
		for _, e := range list {
			out += e.Name() + " "
		}
	case "link":
		err = os.Symlink(in.Text, in.Where)
	case "rename":
		err = os.Rename(in.Where, in.Text)
	case "remove":
		err = os.Remove(in.Where)
	}
	if err != nil {
		return "", pdk.Errorf("io", "%v", err)
	}
	return out, nil
}

type yieldIn struct {
	Yields   []string `json:"yields"`
	Scribble bool     `json:"scribble,omitempty"`
}

// yields sends texts as they are, and returns the host's answers. Scribble
// overwrites each text as soon as the host has answered.
func yields(_ context.Context, in yieldIn, _ *pdk.Call) (*pdk.Result, error) {
	codes := []int32{}
	buf := make([]byte, 1<<16)
	for _, text := range in.Yields {
		b := append(buf[:0], text...)
		codes = append(codes, rawYield(unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))))
		if in.Scribble {
			for i := range b {
				b[i] = 'X'
			}
		}
	}
	return pdk.Data(codes), nil
}

type floodIn struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Size  int    `json:"size"`
}

// flood sends many yields and counts the host's answers.
func flood(_ context.Context, in floodIn, _ *pdk.Call) (*pdk.Result, error) {
	codes := map[string]int{}
	filler := strings.Repeat("x", in.Size)
	for i := range in.Count {
		text := fmt.Sprintf(`{"kind":"message","content":{"summary":"%d %s"}}`, i, filler)
		if in.Kind == "progress" {
			text = fmt.Sprintf(`{"kind":"progress","message":"%s","completed":%d}`, filler, i)
		}
		b := []byte(text)
		codes[fmt.Sprint(rawYield(unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))))]++
	}
	return pdk.Data(codes), nil
}

type effectsIn struct {
	Effects []abi.Effect `json:"effects"`
	Fail    bool         `json:"fail,omitempty"`
	Name    string       `json:"name,omitempty"`
}

func effects(_ context.Context, in effectsIn, call *pdk.Call) (*pdk.Result, error) {
	answers := []string{}
	for _, e := range in.Effects {
		word := "ok"
		if err := call.Effect(e); err != nil {
			word = string(abi.CodeOf(err))
			if word == "" {
				word = "rejected"
			}
		}
		answers = append(answers, word)
	}
	if in.Fail {
		return nil, pdk.Errorf("told_to", "it was told to fail after %v", answers)
	}
	return pdk.Data(answers), nil
}

type printIn struct {
	Out int `json:"out"`
	Err int `json:"err"`
}

func prints(_ context.Context, in printIn) (string, error) {
	os.Stdout.WriteString(strings.Repeat("o", in.Out))
	os.Stderr.WriteString(strings.Repeat("e", in.Err))
	fmt.Println("a line for nobody")
	return "printed", nil
}

type artifactIn struct {
	Handle string `json:"handle,omitempty"`
	Put    string `json:"put,omitempty"`
	// Leave keeps the stream open.
	Leave bool `json:"leave,omitempty"`
}

func artifact(ctx context.Context, in artifactIn) (map[string]any, error) {
	if in.Put != "" {
		a, err := pdk.PutArtifact(ctx, "../../escape\x00/name", []byte(in.Put))
		if err != nil {
			return nil, err
		}
		return map[string]any{"handle": a.Handle, "sha256": a.SHA256, "bytes": a.Bytes}, nil
	}
	f, size, err := pdk.OpenArtifact(ctx, in.Handle)
	if err != nil {
		return nil, err
	}
	if in.Leave {
		return map[string]any{"bytes": size}, nil
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return nil, err
	}
	return map[string]any{"bytes": size, "read": n, "sha256": hex.EncodeToString(h.Sum(nil))}, nil
}

type bigIn struct {
	Count int  `json:"count"`
	JSON  bool `json:"json,omitempty"`
}

func big(_ context.Context, in bigIn) (any, error) {
	if in.JSON {
		return make([]int, in.Count), nil
	}
	return strings.Repeat("ü", in.Count), nil
}

type workIn struct {
	Forever bool `json:"forever,omitempty"`
	Deaf    bool `json:"deaf,omitempty"`
}

var sink int

// work ends at once, waits to be cancelled, or loops and does not listen.
func work(ctx context.Context, in workIn, call *pdk.Call) (*pdk.Result, error) {
	state.Secret = "left by a call of work"
	if err := call.Message("started", nil); err != nil {
		return nil, err
	}
	for in.Deaf {
		sink++
	}
	for in.Forever {
		if err := ctx.Err(); err != nil {
			return nil, pdk.Errorf("cancelled", "%v", err)
		}
	}
	return pdk.Data("worked"), nil
}

// state is what a call could leave behind for the next.
var state struct {
	Count  int
	Secret string
	Kept   [][]byte
}

func remember(_ context.Context, in struct {
	Secret string `json:"secret,omitempty"`
}) (map[string]any, error) {
	out := map[string]any{"count": state.Count, "secret": state.Secret, "kept": len(state.Kept), "tmp": os.Getenv("ODD")}
	state.Count++
	if in.Secret != "" {
		state.Secret = in.Secret
		state.Kept = append(state.Kept, []byte(in.Secret))
		os.Setenv("ODD", in.Secret)
	}
	return out, nil
}

func grow(_ context.Context, in struct {
	MiB int `json:"mib"`
}) (int, error) {
	for range in.MiB {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		state.Kept = append(state.Kept, b)
	}
	return len(state.Kept), nil
}

func info(ctx context.Context, _ none) (*abi.CallInfo, error) { return pdk.Info(ctx) }

type askIn struct {
	Name string          `json:"name"`
	Head json.RawMessage `json:"head,omitempty"`
}

func ask(ctx context.Context, in askIn) (json.RawMessage, error) {
	var head any
	if in.Head != nil {
		head = in.Head
	}
	h, _, err := pdk.CallService(ctx, in.Name, head, nil)
	if err != nil {
		return nil, pdk.Errorf("asked", "%s", abi.CodeOf(err))
	}
	return h, nil
}

// lease says what the call runs under.
func lease(ctx context.Context, _ none) (map[string]any, error) {
	fence, ok, err := pdk.Fence(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"leased": ok, "id": fence.LeaseID, "token": fence.FencingToken, "assert": "owned"}
	if err := pdk.AssertLease(ctx); err != nil {
		out["assert"] = string(abi.CodeOf(err))
	}
	return out, nil
}

func spec(name string) pdk.Spec {
	return pdk.Spec{Name: name, Description: "Does " + name + ".", Kind: pdk.ReadOnly, SideEffect: pdk.Pure, Interrupt: pdk.Cancel}
}

func plugin() pdk.Plugin {
	effectSpec := spec("Effects")
	effectSpec.Effects = []abi.EffectType{abi.EffectContextPatch, abi.EffectRuntimePatch, abi.EffectNewMessages, abi.EffectPermissionUpdates}
	narrow := spec("OneEffect")
	narrow.Effects = []abi.EffectType{abi.EffectContextPatch}
	quiet := spec("Quiet")
	quiet.Yields = []abi.YieldKind{}
	fileSpec := spec("Files")
	fileSpec.Kind, fileSpec.SideEffect = pdk.Write, pdk.NonIdempotent
	leased := spec("Lease")
	leased.RequiresRuntime = true
	judged := fileSpec
	judged.Name, judged.PathParams, judged.LockPaths = "JudgedFiles", []string{"/where"}, []string{"/where"}
	return pdk.Plugin{
		Name: "blade-tool-odd", Version: "1.0.0", Description: "Tries what a guest may not do.",
		Capabilities: abi.Capabilities{
			FS:   &abi.FSRequest{Read: true, Write: true, Why: "to try"},
			HTTP: &abi.HTTPRequest{Hosts: []string{"example.com"}, Why: "to try"},
			Env:  []abi.EnvRequest{{Name: "LISTED", Why: "to try"}, {Name: "LISTED_TOO", Why: "to try"}},
		},
		Config: json.RawMessage(`{"type":"object","properties":{"url":{"type":"string"}}}`),
		Tools: []pdk.Tool{
			pdk.Define(spec("Env"), environment),
			pdk.Define(spec("Reach"), reach),
			pdk.Define(fileSpec, files),
			pdk.Define(judged, files),
			pdk.DefineStream(spec("Yield"), yields),
			pdk.DefineStream(quiet, yields),
			pdk.DefineStream(spec("Flood"), flood),
			pdk.DefineStream(effectSpec, effects),
			pdk.DefineStream(narrow, effects),
			pdk.Define(spec("Print"), prints),
			pdk.Define(spec("Artifact"), artifact),
			pdk.Define(spec("Big"), big),
			pdk.DefineStream(spec("Work"), work),
			pdk.Define(spec("Remember"), remember),
			pdk.Define(spec("Grow"), grow),
			pdk.Define(spec("Info"), info),
			pdk.Define(spec("Ask"), ask),
			pdk.Define(leased, lease),
		},
	}
}

func init() { pdk.Serve(plugin()) }

func main() {}
