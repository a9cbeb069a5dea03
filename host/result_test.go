package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// giving is a read-only tool with this result, and this limit of what a model reads.
func giving(r *abi.Result, limit int) *fake {
	return fakeTool("Gives", readOnly, func(f *fake) { f.spec.MaxResultSize = limit }, runs(func(context.Context, *tool.Call) (*abi.Result, error) { return r, nil }))
}

// RES-02 RES-03: what the model reads of a result, and that what is for a person is
// not in it.
func TestModelText(t *testing.T) {
	for _, c := range []struct{ model, want string }{
		{`"plain \"text\" <b>\n\u00fc"`, "plain \"text\" <b>\nü"},
		{`{"b":1,"a":[true,null]}`, "{\n  \"b\": 1,\n  \"a\": [\n    true,\n    null\n  ]\n}"},
		{`[]`, "[]"}, {`12.50`, "12.50"}, {`true`, "true"}, {`"{\"looks\":\"like JSON\"}"`, `{"looks":"like JSON"}`},
	} {
		r := abi.Success(in(c.model))
		r.Display = &abi.Display{Summary: "for a person", Detail: in(`{"secret":"detail"}`)}
		out := do(t, session(t, SessionOptions{}, giving(r, 0)), Call{ID: "c7", Tool: "Gives"})
		m := MessageFor("c7", out)
		if m.ToolCallID != "c7" || m.Content != c.want {
			t.Errorf("%s became %+v", c.model, m)
		}
		if strings.Contains(m.Content, "person") || strings.Contains(m.Content, "secret") {
			t.Errorf("the display is in %s", m.Content)
		}
		if b := mustJSON(m); !strings.Contains(string(b), `"tool_call_id":"c7"`) {
			t.Errorf("%s", b)
		}
	}
}

// RES-05 B17: data reaches the caller byte for byte, whatever it looks like; what is no
// strict JSON does not.
func TestDataIsUnchanged(t *testing.T) {
	for _, data := range []string{
		`{ "b" : 1.0, "a":[ ] }`, `{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"#/$defs/a","$defs":{"a":{"$ref":"#"}}}`,
		`{"status":"error","error":{"message":"not one"}}`, `"<script>&amp;"`, `1234567890123456789`, `1e300`, `null`, `"\u0000"`,
	} {
		r := &abi.Result{Status: abi.StatusSuccess, Model: in(`"m"`), Data: in(data)}
		if out := do(t, session(t, SessionOptions{}, giving(r, 10)), Call{Tool: "Gives"}); string(out.Data) != data || string(out.Model) != `"m"` {
			t.Errorf("%s became %s, model %s", data, out.Data, out.Model)
		}
	}
	for _, bad := range []string{`{"a":1,"a":2}`, `NaN`, `{`, `1 2`, "\"\xff\"", `1e999`, ``} {
		for name, r := range map[string]*abi.Result{
			"data": {Status: abi.StatusSuccess, Model: in(`"m"`), Data: in(bad)}, "model": {Status: abi.StatusSuccess, Model: in(bad)},
			"display": {Status: abi.StatusSuccess, Model: in(`"m"`), Display: &abi.Display{Detail: in(bad)}},
			"details": {Status: abi.StatusError, Model: in(`"m"`), Error: &abi.Error{Message: "m", Type: abi.TypeExecution, Details: in(bad)}},
		} {
			out := do(t, session(t, SessionOptions{}, giving(r, 0)), Call{Tool: "Gives"})
			if out.Error == nil || out.Error.Code != abi.CodeResultNotJSON {
				t.Errorf("%q as %s: %+v", bad, name, out)
			}
		}
	}
	for name, v := range map[string]any{"NaN": math.Inf(1), "a function": func() {}, "a channel": make(chan int), "bad UTF-8": "\xff"} {
		r := abi.Text("x")
		r.SetMeta("k", v)
		out := do(t, session(t, SessionOptions{}, giving(r, 0)), Call{Tool: "Gives"})
		wantCode(t, out, abi.CodeResultNotJSON, abi.TypeExecution)
		if _, err := abi.Marshal(out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// B16: data that does not fit the declared schema is an error that names the place; what fits
// passes as it is.
func TestOutputSchema(t *testing.T) {
	run := func(r *abi.Result) *abi.Result {
		f := giving(r, 0)
		f.spec.OutputSchema = in(`{"type":"object","properties":{"list":{"type":"array","items":{"type":"integer"}}},"required":["list"]}`)
		return do(t, session(t, SessionOptions{}, f), Call{Tool: "Gives"})
	}
	wantOK(t, run(abi.Success(in(`{"list":[1,2]}`))))
	r := run(abi.Success(in(`{"list":[1,"two"]}`)))
	wantCode(t, r, abi.CodeOutputSchema, abi.TypeExecution)
	if !strings.Contains(string(r.Error.Details), `"/list/1"`) || r.Data != nil {
		t.Errorf("%s", r.Error.Details)
	}
	wantCode(t, run(abi.Text("only text")), abi.CodeOutputSchema, abi.TypeExecution)
	if r := run(abi.Failure(&abi.Error{Message: "mine", Type: abi.TypeExecution})); r.Error.Message != "mine" {
		t.Errorf("%+v", r.Error)
	}
}

// RES-06 RES-07 RES-09 RES-15: the limit of what a model reads: at it nothing happens, one
// above it there is a preview with a handle; data stays whole.
func TestLargeResults(t *testing.T) {
	limit := 1000
	str := func(n int, unit string) json.RawMessage { return abi.String(strings.Repeat(unit, n)) }
	for _, c := range []struct {
		name  string
		model json.RawMessage
		units int
		cut   bool
	}{
		{"at the limit", str(1000, "x"), 1000, false}, {"one over", str(1001, "x"), 1001, true},
		{"two bytes a unit, at it", str(1000, "ü"), 1000, false}, {"two bytes a unit, over", str(1001, "ü"), 1001, true},
		{"two units a letter, at it", str(500, "😀"), 1000, false}, {"two units a letter, over", str(501, "😀"), 1002, true},
		{"escapes, at it", str(1000, "\n"), 1000, false}, {"escapes, over", str(1001, "\n"), 1001, true},
		{"JSON at it", in(`[` + strings.Repeat(`1,`, 498) + `12]`), 1000, false}, {"JSON over", in(`[` + strings.Repeat(`1,`, 499) + `12]`), 1002, true},
		{"JSON with spaces that is under without them", in(`[` + strings.Repeat(`1,    `, 300) + `1]`), 603, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := session(t, SessionOptions{ID: "s1"}, giving(abi.Success(c.model), limit))
			r := do(t, s, Call{Tool: "Gives"})
			if !bytes.Equal(r.Data, c.model) {
				t.Error("data was changed")
			}
			if !c.cut {
				if !bytes.Equal(r.Model, c.model) || r.Metadata["resultExternalized"] != nil {
					t.Errorf("it was cut: %.100s %v", r.Model, r.Metadata)
				}
				return
			}
			m := r.Metadata
			path, _ := m["resultArtifactPath"].(string)
			handle, _ := m["resultArtifactHandle"].(string)
			text := r.ModelText()
			if m["resultExternalized"] != true || m["resultSizeLimit"] != limit || m["modelContentOriginalLength"] != c.units || m["resultTruncated"] != nil {
				t.Errorf("metadata %v", m)
			}
			if path == "" || handle == "" || !strings.Contains(text, path) || !strings.Contains(text, handle) || utf16Len(text) > limit {
				t.Errorf("%d units: %.200s", utf16Len(text), text)
			}
			var original string
			if json.Unmarshal(c.model, &original) != nil {
				original = string(c.model)
			}
			if !strings.HasPrefix(text, original[:50]) {
				t.Errorf("no preview: %.100s", text)
			}
			checkArtifact(t, s, r, c.model)
		})
	}
	if r := do(t, session(t, SessionOptions{}, giving(abi.Success(str(3_000_000, "x")), 0)), Call{Tool: "Gives"}); r.Metadata["resultExternalized"] != nil {
		t.Error("a native tool without a limit has one")
	}
}

// checkArtifact holds the artifact of a result to the model content it was made of.
func checkArtifact(t *testing.T, s *Session, r *abi.Result, model json.RawMessage) {
	t.Helper()
	path := r.Metadata["resultArtifactPath"].(string)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	if r.Metadata["sha256"] != hex.EncodeToString(sum[:]) || r.Metadata["bytes"] != len(b) {
		t.Errorf("sha256 %v of %v bytes", r.Metadata["sha256"], r.Metadata["bytes"])
	}
	f, err := s.h.artifacts.open(r.Metadata["resultArtifactHandle"].(string))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Name() != path {
		t.Errorf("the handle leads to %s, the path is %s", f.Name(), path)
	}
	var a map[string]json.RawMessage
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatal(err)
	}
	if len(a) != 4 || !equalJSON(t, a["modelContent"], model) || string(a["toolName"]) != `"Gives"` || string(a["sessionId"]) != `"`+s.ID()+`"` {
		t.Errorf("the artifact has %d members, modelContent %.100s", len(a), a["modelContent"])
	}
}

// RES-10 RES-11: what an artifact file holds, and what it is called.
func TestArtifactFiles(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "state", "artifacts")
	for _, id := range []string{"../../etc", "a/b\\c", "…", "", strings.Repeat("x", 300), "con:\x00\n", "..", "ok.id_1-2"} {
		h := newHost(t, Options{Tools: []tool.Tool{giving(abi.Text(strings.Repeat("y", 5000)), 2000)}, ArtifactDir: dir})
		s := sessionOn(t, h, SessionOptions{ID: id})
		r := do(t, s, Call{Tool: "Gives"})
		path := r.Metadata["resultArtifactPath"].(string)
		if filepath.Dir(path) != dir || !regexp.MustCompile(`^[A-Za-z0-9._-]+$`).MatchString(filepath.Base(path)) || len(filepath.Base(path)) > 255 || strings.HasPrefix(filepath.Base(path), "..") {
			t.Errorf("session %q: %s", id, path)
		}
		fi, err := os.Stat(path)
		if err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", fi.Mode(), err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var a struct{ ToolName, SessionID, ModelContent, CreatedAt string }
		if err := json.Unmarshal(b, &a); err != nil {
			t.Fatal(err)
		}
		if made, err := time.Parse(time.RFC3339Nano, a.CreatedAt); err != nil || time.Since(made) > time.Minute || a.ToolName != "Gives" || a.SessionID != s.ID() || len(a.ModelContent) != 5000 {
			t.Errorf("%.200s %v", b, err)
		}
	}
	fi, err := os.Stat(dir)
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", fi, err)
	}
	if list, _ := os.ReadDir(base); len(list) != 1 {
		t.Errorf("it wrote elsewhere: %v", list)
	}
}

// RES-12: artifacts of the same moment never collide.
func TestArtifactsDoNotCollide(t *testing.T) {
	h := newHost(t, Options{Tools: []tool.Tool{giving(abi.Text(strings.Repeat("y", 5000)), 2000)}, Concurrency: Concurrency{ReadOnly: 100}})
	s := sessionOn(t, h, SessionOptions{ID: "same"})
	var mu sync.Mutex
	paths, handles := map[any]bool{}, map[any]bool{}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			r := do(t, s, Call{Tool: "Gives"})
			mu.Lock()
			defer mu.Unlock()
			paths[r.Metadata["resultArtifactPath"]], handles[r.Metadata["resultArtifactHandle"]] = true, true
		})
	}
	wg.Wait()
	if len(paths) != 100 || len(handles) != 100 {
		t.Errorf("%d paths, %d handles", len(paths), len(handles))
	}
}

// RES-08: when the artifact cannot be written, the model is cut to the limit and told
// how much is missing.
func TestTruncation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit, n int
		unit     string
		suffix   string
	}{{100, 150, "x", "\n\n...[truncated 50 chars]"}, {100, 150, "😀", "\n\n...[truncated 200 chars]"}, {10, 150, "x", ""}, {27, 150, "x", ""}} {
		h := newHost(t, Options{Tools: []tool.Tool{giving(abi.Text(strings.Repeat(c.unit, c.n)), c.limit)}, ArtifactDir: filepath.Join(file, "below")})
		r := do(t, sessionOn(t, h, SessionOptions{}), Call{Tool: "Gives"})
		text := r.ModelText()
		if got := utf16Len(text); got > c.limit || got < c.limit-1 || !strings.HasSuffix(text, c.suffix) || !strings.HasPrefix(text, c.unit) {
			t.Errorf("limit %d: %d units, %q", c.limit, got, text)
		}
		if m := r.Metadata; m["resultTruncated"] != true || m["resultExternalized"] != nil || m["resultSizeLimit"] != c.limit || m["modelContentOriginalLength"] != c.n*utf16Len(c.unit) {
			t.Errorf("%v", m)
		}
	}
}

// RES-18 RES-07: a preview that is longer than a small limit is not externalised once more:
// the handle leads to the whole result.
func TestSmallLimit(t *testing.T) {
	model := abi.String(strings.Repeat("y", 5000))
	s := session(t, SessionOptions{}, giving(abi.Success(model), 20))
	r := do(t, s, Call{Tool: "Gives"})
	if r.Metadata["modelContentOriginalLength"] != 5000 {
		t.Errorf("%v", r.Metadata)
	}
	checkArtifact(t, s, r, model)
	// A hook that makes it large again does not lose the first artifact.
	s = session(t, SessionOptions{Hooks: []Hook{{Event: HookPostToolUse, Run: func(context.Context, HookInput) (HookOutput, error) {
		return HookOutput{ModifiedOutput: abi.String(strings.Repeat("z", 3000))}, nil
	}}}}, giving(abi.Success(model), 1000))
	r = do(t, s, Call{Tool: "Gives"})
	checkArtifact(t, s, r, model)
	if !strings.HasPrefix(r.ModelText(), "zzz") || utf16Len(r.ModelText()) > 1000 {
		t.Errorf("%.100s", r.Model)
	}
}

// RES-13: a model never reads nothing.
func TestEmptyResults(t *testing.T) {
	for _, r := range []*abi.Result{
		{Status: abi.StatusSuccess}, {Status: abi.StatusSuccess, Model: in(`""`)}, {Status: abi.StatusSuccess, Model: in(`null`)}, {Status: abi.StatusSuccess, Model: in(" null\n"), Data: in(`null`)},
	} {
		out := do(t, session(t, SessionOptions{}, giving(r, 10)), Call{Tool: "Gives"})
		if out.ModelText() != completed {
			t.Errorf("%q became %q", r.Model, out.ModelText())
		}
		if string(out.Data) != string(r.Data) {
			t.Errorf("data became %s", out.Data)
		}
	}
	for _, m := range []string{`false`, `0`, `[]`, `{}`, `" "`} {
		if out := do(t, session(t, SessionOptions{}, giving(abi.Success(in(m)), 0)), Call{Tool: "Gives"}); string(out.Model) != m {
			t.Errorf("%s became %s", m, out.Model)
		}
	}
}

// RES-14: whatever became of a call, its metadata names the execution, the tool and the
// time, and a tool cannot write them.
func TestMetadata(t *testing.T) {
	r := abi.Text("x")
	for _, k := range []string{"executionId", "toolName", "timestamp"} {
		r.SetMeta(k, "mine")
	}
	mine := func(context.Context, MiddlewareCall, Next) (*abi.Result, error) { return r, nil }
	gives := giving(r, 0)
	gives.spec.Aliases = []string{"Alias"}
	tools := []tool.Tool{gives, fakeTool("Asks"), fakeTool("Panics", readOnly, runs(func(context.Context, *tool.Call) (*abi.Result, error) { panic("x") }))}
	for name, opt := range map[string]SessionOptions{"plain": {}, "middleware": {Middleware: []Middleware{mine}}} {
		s := session(t, opt, tools...)
		ids := map[any]bool{}
		for _, c := range []Call{{Tool: "Gives", ID: "twice"}, {Tool: "Gives", ID: "twice"}, {Tool: "Alias"}, {Tool: "Asks"}, {Tool: "Panics"}, {Tool: "Nope"}, {Tool: "Gives", Arguments: `[]`}} {
			before := time.Now().UnixMilli()
			m := do(t, s, c).Metadata
			id, _ := m["executionId"].(string)
			at, _ := m["timestamp"].(int64)
			want := c.Tool
			if want == "Alias" {
				want = "Gives"
			}
			if !strings.HasPrefix(id, "exec-") || ids[id] || m["toolName"] != want || at < before || at > time.Now().UnixMilli() {
				t.Errorf("%s, %+v: %v", name, c, m)
			}
			ids[id] = true
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m := do(t, s, Call{Tool: "Gives"}).Metadata; m["executionId"] == nil {
			t.Errorf("after the close: %v", m)
		}
	}
}

// RES-16: nothing larger than the hard cap is handed on.
func TestHardCap(t *testing.T) {
	s := session(t, SessionOptions{}, giving(abi.Text(strings.Repeat("x", 2*abi.MaxResult)), 100))
	r := do(t, s, Call{Tool: "Gives"})
	wantCode(t, r, abi.CodeResultTooBig, abi.TypeExecution)
	if len(r.Model) > 1000 {
		t.Error("the model is large all the same")
	}
	h := newHost(t, Options{})
	for n, code := range map[int32]abi.Code{abi.MaxResult: abi.CodeResultNotJSON, abi.MaxResult + 1: abi.CodeResultTooBig} {
		m := returns(0, nil)
		m.pages, m.execute = 300, slices.Concat(i32(0), i32(0), i32(n), []byte{0x10, 0})
		wantCode(t, do(t, sessionOn(t, h, SessionOptions{Plugins: []Attachment{{Plugin: tinyPlugin(t, h, m)}}}), Call{Tool: "Tiny"}), code, abi.TypeExecution)
	}
	// A plugin without a limit of its own has the default one.
	g := oddSession(t, SessionOptions{}, tool.TrustWorkspace, Grants{})
	for input, cut := range map[string]bool{`{"count":100000}`: false, `{"count":100001}`: true, `{"count":49999,"json":true}`: false, `{"count":50000,"json":true}`: true} {
		r := do(t, g, Call{Tool: "Big", Input: in(input)})
		if r.IsError() || (r.Metadata["resultExternalized"] == true) != cut || len(r.Data) < 90000 {
			t.Errorf("%s: %+v %v", input, r.Error, r.Metadata)
		}
	}
}

// What a middleware answers is held to the same as what a tool does, and it may give the
// same answer again.
func TestMiddlewareResults(t *testing.T) {
	run := func(m Middleware) *abi.Result {
		return do(t, session(t, SessionOptions{Middleware: []Middleware{m}}, giving(abi.Text("core"), 2000)), Call{Tool: "Gives"})
	}
	changed := func(change func(*abi.Result)) Middleware {
		return func(_ context.Context, _ MiddlewareCall, next Next) (*abi.Result, error) {
			r := next(nil)
			change(r)
			return r, nil
		}
	}
	for name, change := range map[string]func(*abi.Result){
		"model": func(r *abi.Result) { r.Model = in(`{`) }, "data": func(r *abi.Result) { r.Data = in(`1 2`) }, "metadata": func(r *abi.Result) { r.SetMeta("f", math.NaN()) },
	} {
		if r := run(changed(change)); r.Error == nil || r.Error.Code != abi.CodeMiddleware {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := run(changed(func(r *abi.Result) { r.Model = nil })); r.ModelText() != completed {
		t.Errorf("no model: %s", r.Model)
	}
	if r := run(changed(func(r *abi.Result) { r.Model = abi.String(strings.Repeat("x", 5000)) })); r.Metadata["resultExternalized"] != true || len(r.Model) > 2100 {
		t.Errorf("a large one: %d bytes", len(r.Model))
	}
	if r := run(func(context.Context, MiddlewareCall, Next) (*abi.Result, error) { return abi.Success(in(`NaN`)), nil }); r.Error == nil || r.Error.Code != abi.CodeMiddleware {
		t.Errorf("an answer that is no JSON: %+v", r)
	}
	// One that returns before the rest of the call ended gets its result; one that begins the
	// rest after it had returned gets nowhere.
	r := run(func(_ context.Context, _ MiddlewareCall, next Next) (*abi.Result, error) {
		begun := make(chan struct{})
		go func() { close(begun); next(nil) }()
		<-begun
		time.Sleep(time.Millisecond)
		return abi.Text("early"), nil
	})
	if r.ModelText() != "core" && r.ModelText() != "early" {
		t.Errorf("%s", r.Model)
	}
	late := make(chan *abi.Result, 1)
	wait := make(chan struct{})
	if r := run(func(_ context.Context, _ MiddlewareCall, next Next) (*abi.Result, error) {
		go func() { <-wait; late <- next(nil) }()
		return abi.Text("mine"), nil
	}); r.ModelText() != "mine" {
		t.Errorf("%s", r.Model)
	}
	close(wait)
	if r := <-late; r.Error == nil || r.Error.Code != abi.CodeMiddleware {
		t.Errorf("a late next: %+v", r)
	}
	cached := abi.Text("cached")
	s := session(t, SessionOptions{Middleware: []Middleware{func(context.Context, MiddlewareCall, Next) (*abi.Result, error) { return cached, nil }}}, giving(abi.Text("core"), 0))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { wantOK(t, do(t, s, Call{Tool: "Gives"})) })
	}
	wg.Wait()
	if cached.Metadata != nil {
		t.Errorf("the middleware's own result got %v", cached.Metadata)
	}
}

// TMO-07 LIF-09: a middleware, a hook or an observer that writes into what it is shown
// changes neither a failure nor what is published.
func TestShownResultsAreCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spoilError := func(e *abi.Error) {
			if e != nil {
				e.Type, e.Code, e.Message = abi.TypeExecution, "other", "fine"
				clear(e.Details)
			}
		}
		spoil := func(r *abi.Result) {
			spoilError(r.Error)
			clear(r.Model)
			clear(r.Data)
			clear(r.Metadata)
			if r.Display != nil {
				r.Display.Summary = "X"
			}
		}
		opt := SessionOptions{Mode: policy.ModeYolo, ToolTimeout: time.Second, KeepPayloads: true, Lifecycle: spoiler{spoil},
			Hooks: []Hook{{Event: HookPostToolFailure, Run: func(_ context.Context, in HookInput) (HookOutput, error) {
				spoilError(in.Error)
				return HookOutput{}, nil
			}}, {Event: HookPostToolFailure, Run: func(_ context.Context, in HookInput) (HookOutput, error) {
				if in.Error.Code == "other" {
					t.Error("a hook saw what another wrote")
				}
				return HookOutput{}, errors.New("no")
			}}}}
		good := abi.Success(in(`"good"`))
		good.Display = &abi.Display{Summary: "shown"}
		typed := func(context.Context, *tool.Call) (*abi.Result, error) {
			return nil, (&abi.Error{Message: "mine", Type: abi.TypeNetwork, Code: "down"}).With("d")
		}
		tools := []tool.Tool{fakeTool("Slow", obeys), giving(good, 0), fakeTool("Typed", runs(typed))}
		slow := func(s *Session) {
			t.Helper()
			r := do(t, s, Call{Tool: "Slow"})
			wantCode(t, r, abi.CodeTimeoutRan, abi.TypeTimeout)
			if !strings.Contains(r.ModelText(), "did not end") || !strings.Contains(string(r.Error.Details), "retryable") {
				t.Errorf("%s %s", r.Model, r.Error.Details)
			}
		}
		s := session(t, opt, tools...)
		slow(s)
		r := do(t, s, Call{Tool: "Typed"})
		wantCode(t, r, "down", abi.TypeNetwork)
		if string(r.Error.Details) != `"d"` {
			t.Errorf("%s", r.Error.Details)
		}
		r = do(t, s, Call{Tool: "Gives"})
		if string(r.Model) != `"good"` || string(r.Data) != `"good"` || r.Display.Summary != "shown" || r.Metadata["executionId"] == nil {
			t.Errorf("%+v", r)
		}
		clear(r.Model) // the caller's own
		for _, e := range s.History() {
			if e.ToolName == "Gives" && string(e.Result.Model) != `"good"` {
				t.Errorf("the history has %s", e.Result.Model)
			}
		}
		opt.Middleware = []Middleware{func(_ context.Context, _ MiddlewareCall, next Next) (*abi.Result, error) {
			r := next(nil)
			spoilError(r.Error)
			return r, nil
		}}
		slow(session(t, opt, tools...))
	})
}

// spoiler is a Lifecycle that writes into the results it is told of.
type spoiler struct{ spoil func(*abi.Result) }

func (s spoiler) OnToolScheduled(context.Context, ToolScheduled) (InvocationLifecycle, error) {
	return nil, nil
}

func (s spoiler) OnToolSettled(_ context.Context, e ToolSettled) error {
	s.spoil(e.Result)
	return nil
}
