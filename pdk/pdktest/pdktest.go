// Package pdktest runs the tools of a plugin natively, in an ordinary unit test,
// on a fake host that checks what a real one checks: the manifest, the shape and
// the limits of yields and results, slots, and the state machine of a call.
// Permissions, schemas and isolation are not there: the tool sees the machine's
// own files.
//
//	func TestGreet(t *testing.T) {
//		out := pdktest.New(t, plugin).Run("Greet", map[string]any{"name": "Ada"})
//		var text string
//		out.Data(&text)
//		…
//	}
//
// A Host is not safe for concurrent use; the tool it runs may use goroutines.
package pdktest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

// Host is a fake host with one plugin on it.
type Host struct {
	// Info is the answer of call.context. Tool is filled in by Run; Mount and
	// TempDir set Roots and Cwd.
	Info abi.CallInfo
	// Timeout is the deadline of each call; 0 means none.
	Timeout time.Duration
	// OnYield is called for each yield that was accepted; a reason other than
	// abi.CancelNone cancels the call.
	OnYield func(abi.Yield) abi.Cancel
	// CancelAfter cancels the call at the n-th time it asks whether it is
	// cancelled, with CancelReason (abi.CancelRequest when 0); 0 means never.
	CancelAfter  int
	CancelReason abi.Cancel

	t        testing.TB
	plugin   pdk.Plugin
	manifest *abi.Manifest
	services map[string]Service
}

// Service answers calls of one name. An *abi.Error decides the status by its
// code; any other error is a failure of the service.
type Service func(ctx context.Context, head json.RawMessage, body []byte) (answer any, rest []byte, err error)

// New puts a plugin on a fake host. It fails the test if the plugin's manifest
// is not valid.
func New(t testing.TB, p pdk.Plugin) *Host {
	t.Helper()
	h := &Host{t: t, plugin: p, services: map[string]Service{}}
	h.Info = abi.CallInfo{SessionID: "session-1", CallID: "call-1", Mode: "default", Roots: []string{}}
	h.services[abi.CallContext] = func(context.Context, json.RawMessage, []byte) (any, []byte, error) {
		return h.Info, nil, nil
	}
	h.manifest = h.describe()
	return h
}

// describe runs blade_describe and reads the manifest back.
func (h *Host) describe() *abi.Manifest {
	h.t.Helper()
	r := &run{host: h, phase: phaseDescribe}
	pdk.NewGuest(h.plugin, r).Describe()
	if r.status != abi.RetData {
		h.t.Fatalf("pdktest: the plugin does not describe itself: %s", r.result)
	}
	if err := strict(r.result); err != nil {
		h.t.Fatalf("pdktest: the manifest is not strict JSON: %v", err)
	}
	var m abi.Manifest
	if err := json.Unmarshal(r.result, &m); err != nil {
		h.t.Fatalf("pdktest: the manifest: %v", err)
	}
	for _, i := range m.Validate() {
		h.t.Errorf("pdktest: the manifest, at %s: %s", i.Pointer, i.Message)
	}
	if h.t.Failed() {
		h.t.FailNow()
	}
	r.phase = phaseWarm
	pdk.NewGuest(h.plugin, r).Warm()
	return &m
}

// Manifest is what the plugin says about itself.
func (h *Host) Manifest() *abi.Manifest { return h.manifest }

// Service lends a service to the plugin, under its full name: x-echo.echo,
// memoryManager.read, http.request. The host's own services and x- services are
// there only when they are set here; call.context always is.
func (h *Host) Service(name string, s Service) { h.services[name] = s }

// Mount grants a folder. The first one becomes the call's folder.
func (h *Host) Mount(dir string) {
	h.Info.Roots = append(h.Info.Roots, dir)
	if h.Info.Cwd == "" {
		h.Info.Cwd = dir
	}
}

// TempDir makes a folder, grants it and returns its path.
func (h *Host) TempDir() string {
	h.t.Helper()
	dir := h.t.TempDir()
	h.Mount(dir)
	return dir
}

// Run calls a tool. Input is any value whose JSON is an object, or a
// json.RawMessage. It is not validated by the tool's schema.
func (h *Host) Run(tool string, input any) *Outcome {
	h.t.Helper()
	raw, ok := input.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = abi.Marshal(input); err != nil {
			h.t.Fatalf("pdktest: the input has no JSON form: %v", err)
		}
	}
	for i := range h.manifest.Tools {
		if h.manifest.Tools[i].Name == tool {
			return h.execute(i, raw)
		}
	}
	h.t.Fatalf("pdktest: the plugin has no tool %q", tool)
	return nil
}

func (h *Host) execute(tool int, input []byte) *Outcome {
	h.t.Helper()
	spec := &h.manifest.Tools[tool]
	h.Info.Tool = spec.Name
	r := newRun(h, spec, input)
	pdk.NewGuest(h.plugin, r).Execute(tool, len(input))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = phaseOver
	for _, v := range r.violations {
		h.t.Errorf("pdktest: %s broke a rule of the ABI: %s", spec.Name, v)
	}
	out := &Outcome{t: h.t, tool: spec.Name, Yields: r.yields, Logs: r.logs, Status: r.status, Returned: r.result}
	if r.rets == 0 {
		h.t.Errorf("pdktest: %s returned without a result", spec.Name)
	}
	out.Result = r.publish()
	return out
}

// Line is one line of the tool's log.
type Line struct {
	Level abi.LogLevel
	Text  string
}

// Outcome is what a call left behind.
type Outcome struct {
	// Result is what a host would publish.
	Result *abi.Result
	// Yields are those that were accepted, in order.
	Yields []abi.Yield
	Logs   []Line
	// Status and Returned are what the tool handed to ret.
	Status   int32
	Returned json.RawMessage

	t    testing.TB
	tool string
}

// Data reads the data of a success into a value; it fails the test for an error
// result, or where the value does not fit.
func (o *Outcome) Data(into any) {
	o.t.Helper()
	if o.Result.IsError() {
		o.t.Fatalf("%s failed: %s (%s)", o.tool, o.Result.Error.Message, o.Result.Error.Code)
	}
	if err := json.Unmarshal(o.Result.Data, into); err != nil {
		o.t.Fatalf("the data of %s: %v: %s", o.tool, err, o.Result.Data)
	}
}

// Err is the error of the result, or nil.
func (o *Outcome) Err() *abi.Error { return o.Result.Error }

// WantCode fails the test unless the call failed with this code.
func (o *Outcome) WantCode(code string) {
	o.t.Helper()
	switch {
	case !o.Result.IsError():
		o.t.Fatalf("%s succeeded with %s; want the error %s", o.tool, o.Result.Model, code)
	case string(o.Result.Error.Code) != code:
		o.t.Fatalf("%s failed with %q (%s); want %q", o.tool, o.Result.Error.Code, o.Result.Error.Message, code)
	}
}

// statusOf is the status a host answers with for an error of a service.
func statusOf(err error) (abi.CallStatus, *abi.Error) {
	var e *abi.Error
	if !errors.As(err, &e) {
		return abi.CallFailed, &abi.Error{Message: err.Error(), Type: abi.TypeExecution, Code: abi.CodeServiceFailed}
	}
	switch e.Code {
	case abi.CodeUnknownService:
		return abi.CallUnknown, e
	case abi.CodeNotDeclared:
		return abi.CallNotDeclared, e
	case abi.CodeNotGranted:
		return abi.CallNotGranted, e
	case abi.CodeRequest:
		return abi.CallInvalid, e
	case abi.CodeServiceLimit:
		return abi.CallOverLimit, e
	}
	return abi.CallFailed, e
}
