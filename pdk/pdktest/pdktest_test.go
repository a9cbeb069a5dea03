package pdktest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/abi/abitest"
	"github.com/bladehost/bladehost/pdk"
)

// The fake host answers yields, results and frames as testdata/abi says.
func TestYieldVectors(t *testing.T) {
	for _, v := range abitest.Yields(t) {
		t.Run(v.Name, func(t *testing.T) {
			if _, got := Judge(v.Tool(), v.Of(t)); got != v.Answer {
				t.Errorf("answer %d, want %d", got, v.Answer)
			}
		})
	}
}

func TestResultVectors(t *testing.T) {
	for _, v := range abitest.Results(t) {
		t.Run(v.Name, func(t *testing.T) {
			r := &run{rets: 1, status: v.Status, result: v.Of(t)}
			abitest.CheckResult(t, v.Result, r.publish())
		})
	}
}

func TestFrameVectors(t *testing.T) {
	for _, v := range abitest.Frames(t) {
		t.Run(v.Name, func(t *testing.T) {
			b, err := hex.DecodeString(v.Hex)
			if err != nil {
				t.Fatal(err)
			}
			h := New(t, plugin(nil))
			h.Service("x-echo.echo", echo)
			r := newRun(h, &h.manifest.Tools[0], nil)
			status, slot, n := abi.UnpackCall(r.Call("x-echo.echo", b))
			if (status == abi.CallInvalid) != v.Error {
				t.Fatalf("status %d", status)
			}
			buf := make([]byte, n)
			r.Take(uint32(slot), buf)
			head, body, err := abi.DecodeFrame(buf)
			if err != nil {
				t.Fatal(err)
			}
			if !v.Error && (!abitest.Equal(t, v.Head, head) || hex.EncodeToString(body) != v.BodyHex) {
				t.Errorf("head %s, body %x", head, body)
			}
		})
	}
}

func echo(_ context.Context, head json.RawMessage, body []byte) (any, []byte, error) {
	return head, body, nil
}

type in struct{}

func plugin(fn func(ctx context.Context, call *pdk.Call) (*pdk.Result, error)) pdk.Plugin {
	return pdk.Plugin{
		Name: "blade-tool-x", Version: "1.0.0", Description: "d",
		Tools: []pdk.Tool{pdk.DefineStream(pdk.Spec{Name: "T", Description: "d", Services: []string{"x-echo"}},
			func(ctx context.Context, _ in, call *pdk.Call) (*pdk.Result, error) { return fn(ctx, call) })},
	}
}

// Slots: an answer lives until a take returns 0, numbers are not given out
// before that, and only so many may wait.
func TestSlots(t *testing.T) {
	h := New(t, plugin(nil))
	h.Service("x-echo.echo", echo)
	r := newRun(h, &h.manifest.Tools[0], []byte("input"))
	buf := make([]byte, 3)
	for i, want := range []string{"inp", "ut", ""} {
		if got := string(buf[:r.Take(0, buf)]); got != want {
			t.Errorf("take %d of the input: %q", i, got)
		}
	}
	seen := map[uint16]bool{}
	for i := range abi.MaxAnswers {
		status, slot, _ := abi.UnpackCall(r.Call("x-echo.echo", abi.EncodeFrame([]byte("{}"), []byte{byte(i)})))
		if status != abi.CallOK || slot == 0 || seen[slot] {
			t.Fatalf("call %d: status %d, slot %d", i, status, slot)
		}
		seen[slot] = true
	}
	if got := r.Call("x-echo.echo", nil); got != abi.PackCall(abi.CallOverLimit, 0, 0) {
		t.Errorf("one answer too many: %#x", got)
	}
	all := make([]byte, 100)
	if n := r.Take(1, all); n != 7 || all[6] != 0 {
		t.Errorf("%d bytes, the last %d", n, all[6])
	}
	if got := r.Call("x-echo.echo", nil); got != abi.PackCall(abi.CallOverLimit, 0, 0) {
		t.Errorf("an answer that was read to its end but not freed does not count: %#x", got)
	}
	for _, slot := range []uint32{1, 1, 999, 1 << 20} { // to its end, freed, unknown, no slot
		if n := r.Take(slot, all); n != 0 {
			t.Errorf("slot %d has %d bytes", slot, n)
		}
	}
	r.Take(2, nil)
	if n := r.Take(2, all); n != 0 {
		t.Errorf("a dropped slot has %d bytes", n)
	}
	if _, slot, _ := abi.UnpackCall(r.Call("x-echo.echo", nil)); slot == 0 || seen[slot] {
		t.Errorf("slot %d", slot)
	}
}

// recorder is a testing.TB that fails quietly.
type recorder struct {
	testing.TB
	failed []string
}

func (r *recorder) Helper()      {}
func (r *recorder) Failed() bool { return len(r.failed) > 0 }
func (r *recorder) FailNow()     { panic(r) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.FailNow()
}

// fails runs fn and returns what it reports.
func fails(t *testing.T, fn func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(r) {
				panic(p)
			}
		}()
		fn(r)
	}()
	return strings.Join(r.failed, "\n")
}

func TestReports(t *testing.T) {
	ok := func(context.Context, *pdk.Call) (*pdk.Result, error) { return pdk.Data(5), nil }
	for _, c := range []struct {
		name string
		fn   func(t testing.TB)
		says string
	}{
		{"a manifest that is not valid", func(t testing.TB) {
			p := plugin(ok)
			p.Name = "x"
			New(t, p)
		}, "/name"},
		{"a tool that is not there", func(t testing.TB) { New(t, plugin(ok)).Run("Nope", in{}) }, `no tool "Nope"`},
		{"an input without a JSON form", func(t testing.TB) { New(t, plugin(ok)).Run("T", func() {}) }, "no JSON form"},
		{"data that does not fit", func(t testing.TB) { New(t, plugin(ok)).Run("T", in{}).Data(new(string)) }, "cannot unmarshal"},
		{"a success that should be an error", func(t testing.TB) { New(t, plugin(ok)).Run("T", in{}).WantCode("x") }, "succeeded with 5"},
		{"another error", func(t testing.TB) {
			New(t, plugin(func(context.Context, *pdk.Call) (*pdk.Result, error) { return nil, pdk.Errorf("y", "m") })).Run("T", in{}).WantCode("x")
		}, `failed with "y"`},
		{"an error that should be data", func(t testing.TB) {
			New(t, plugin(func(context.Context, *pdk.Call) (*pdk.Result, error) { return nil, pdk.Errorf("y", "m") })).Run("T", in{}).Data(new(int))
		}, "T failed: m (y)"},
		{"a plugin that cannot describe itself", func(t testing.TB) {
			p := plugin(ok)
			p.Tools = append(p.Tools, pdk.Define(pdk.Spec{Name: "C"}, func(context.Context, chan int) (int, error) { return 0, nil }))
			New(t, p)
		}, "no JSON form"},
		{"the host during warm-up", func(t testing.TB) {
			p := plugin(ok)
			r := &run{host: &Host{t: t, plugin: p}, phase: phaseWarm}
			defer func() {
				if s, ok := recover().(string); ok {
					t.Errorf("%s", s)
				}
			}()
			r.Yield(nil)
		}, "yield was called in blade_warm"},
		{"a second result", func(t testing.TB) {
			r := newRun(New(t, plugin(ok)), &abi.ToolSpec{}, nil)
			r.Ret(0, []byte("1"))
			r.Ret(0, []byte("2"))
			r.Take(0, nil)
			t.Errorf("%s, first %s", strings.Join(r.violations, ", "), r.result)
		}, "ret was called twice, take was called after ret, first 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fails(t, c.fn); !strings.Contains(got, c.says) {
				t.Errorf("it reports %q, want %q", got, c.says)
			}
		})
	}
}

// FuzzStrict: what is strict is JSON, and survives being read and written.
func FuzzStrict(f *testing.F) {
	for _, v := range abitest.Yields(f) {
		f.Add(v.Of(f))
	}
	f.Add([]byte(`"\\\ud83d\ude00\\ud800"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if strict(b) != nil {
			return
		}
		if !json.Valid(b) {
			t.Fatal("strict, but no JSON")
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		out, err := abi.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := strict(out); err != nil && !strings.Contains(err.Error(), "range") {
			t.Fatalf("%q became %q: %v", b, out, err)
		}
	})
}
