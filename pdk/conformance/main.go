// Command conformance is the plugin that every kit implements, so that a host
// can check a kit and a kit can check itself: its tools reach every part of the
// ABI, and testdata/abi/calls.json says for each input what it must yield and
// return. This is the one for Go:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags='-s -w' -o conformance.wasm ./pdk/conformance
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

type echoIn struct {
	Value any `json:"value" jsonschema:"Any JSON."`
}

func echo(_ context.Context, in struct {
	Value json.RawMessage `json:"value"`
}) (json.RawMessage, error) {
	return in.Value, nil
}

type explicitIn struct {
	Model    json.RawMessage `json:"model" jsonschema:"What the model reads."`
	Summary  string          `json:"summary,omitempty" jsonschema:"What a person reads."`
	Detail   json.RawMessage `json:"detail,omitempty" jsonschema:"Detail of the display."`
	Data     json.RawMessage `json:"data,omitempty" jsonschema:"What the caller gets."`
	Metadata map[string]any  `json:"metadata,omitempty" jsonschema:"Metadata of the result."`
}

func explicit(_ context.Context, in explicitIn, _ *pdk.Call) (*pdk.Result, error) {
	r := &pdk.Result{Model: in.Model, Metadata: in.Metadata}
	if in.Summary != "" {
		r.Display = &abi.Display{Summary: in.Summary, Detail: in.Detail}
	}
	if in.Data != nil {
		r.Data = in.Data
	}
	return r, nil
}

type failIn struct {
	Message string          `json:"message" jsonschema:"The error's message."`
	Type    string          `json:"type,omitempty" jsonschema:"The error's type."`
	Code    string          `json:"code,omitempty" jsonschema:"The error's code."`
	Details json.RawMessage `json:"details,omitempty" jsonschema:"The error's details."`
}

func fail(_ context.Context, in failIn) (any, error) {
	e := &pdk.Error{Message: in.Message, Type: abi.ErrorType(in.Type), Code: in.Code}
	if in.Details != nil {
		e.Details = in.Details
	}
	return nil, e
}

type streamIn struct {
	Steps int `json:"steps" jsonschema:"How many steps of progress." minimum:"0" maximum:"1000"`
}

// stream yields a progress for each step, then a message, then an effect.
func stream(_ context.Context, in streamIn, call *pdk.Call) (*pdk.Result, error) {
	for i := 1; i <= in.Steps; i++ {
		if err := call.Progress(fmt.Sprintf("step %d", i), float64(i), float64(in.Steps)); err != nil {
			return nil, err
		}
	}
	if err := call.Message("all steps done", map[string]int{"steps": in.Steps}); err != nil {
		return nil, err
	}
	if err := call.ContextPatch("", map[string]any{"steps": in.Steps}); err != nil {
		return nil, err
	}
	return pdk.Data(map[string]int{"steps": in.Steps}), nil
}

type serviceIn struct {
	Name string          `json:"name" jsonschema:"The full name of the service."`
	Head json.RawMessage `json:"head,omitempty" jsonschema:"The head of the request."`
	Body string          `json:"body,omitempty" jsonschema:"The bytes behind it."`
}

type serviceOut struct {
	Head json.RawMessage `json:"head"`
	Body string          `json:"body"`
}

// service calls one service. A failure becomes an error with the host's code in
// lower case and the status in its details.
func service(ctx context.Context, in serviceIn) (serviceOut, error) {
	var head any
	if in.Head != nil {
		head = in.Head
	}
	h, body, err := pdk.CallService(ctx, in.Name, head, []byte(in.Body))
	var failed *pdk.ServiceError
	if errors.As(err, &failed) {
		code := strings.ToLower(string(abi.CodeOf(err)))
		return serviceOut{}, pdk.Errorf(code, "the service failed").With(map[string]int{"status": int(failed.Status)})
	}
	return serviceOut{Head: h, Body: string(body)}, err
}

type parallelIn struct {
	Calls int `json:"calls" jsonschema:"How many calls at once." minimum:"1" maximum:"1000"`
	Size  int `json:"size" jsonschema:"Bytes of each." minimum:"0" maximum:"1048576"`
}

// parallel calls the echo service from many goroutines at once and checks that
// each gets its own answer.
func parallel(ctx context.Context, in parallelIn) (map[string]int, error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		right int
	)
	for i := range in.Calls {
		wg.Go(func() {
			head, body := fmt.Sprintf(`{"n":%d}`, i), bytes.Repeat([]byte{byte(i)}, in.Size)
			gotHead, gotBody, err := pdk.CallService(ctx, "x-echo.echo", json.RawMessage(head), body)
			if err == nil && string(gotHead) == head && bytes.Equal(gotBody, body) {
				mu.Lock()
				right++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return map[string]int{"calls": in.Calls, "right": right}, nil
}

type none struct{}

type contextOut struct {
	Tool    string `json:"tool"`
	Session bool   `json:"session"`
	Call    bool   `json:"call"`
	Mode    bool   `json:"mode"`
	Roots   int    `json:"roots"`
}

// callContext says which parts of the call's context are there.
func callContext(ctx context.Context, _ none) (contextOut, error) {
	info, err := pdk.Info(ctx)
	if err != nil {
		return contextOut{}, err
	}
	return contextOut{info.Tool, info.SessionID != "", info.CallID != "", info.Mode != "", len(info.Roots)}, nil
}

type cancelledIn struct {
	Sleep bool `json:"sleep,omitempty" jsonschema:"Sleep instead of working."`
}

// cancelled yields once and then works, or sleeps, until it is told to stop.
func cancelled(ctx context.Context, in cancelledIn, call *pdk.Call) (*pdk.Result, error) {
	if err := call.Message("started", nil); err != nil {
		return nil, err
	}
	if in.Sleep {
		derived, stop := context.WithCancel(ctx)
		defer stop()
		<-derived.Done()
		return nil, stopped(derived)
	}
	for ctx.Err() == nil {
	}
	return nil, stopped(ctx)
}

func stopped(ctx context.Context) error {
	reason := abi.CancelNone
	var c *pdk.CancelError
	if errors.As(context.Cause(ctx), &c) {
		reason = c.Reason
	}
	return pdk.Errorf("cancelled", "stopped as told").With(map[string]int{"reason": int(reason)})
}

// deadline says whether there is one that is still to come.
func deadline(ctx context.Context, _ none) (map[string]bool, error) {
	_, ok := ctx.Deadline()
	return map[string]bool{"deadline": ok && ctx.Err() == nil}, nil
}

type panicIn struct {
	Message string `json:"message" jsonschema:"What to panic with."`
}

func panics(_ context.Context, in panicIn) (any, error) { panic(in.Message) }

type logIn struct {
	Lines []logLine `json:"lines" jsonschema:"What to log."`
}

type logLine struct {
	Level int    `json:"level" jsonschema:"0 trace to 4 error."`
	Text  string `json:"text" jsonschema:"The line."`
}

func logs(ctx context.Context, in logIn) (any, error) {
	for _, l := range in.Lines {
		pdk.Log(ctx, abi.LogLevel(l.Level), l.Text)
	}
	return nil, nil
}

type largeIn struct {
	Text  string `json:"text" jsonschema:"A long text."`
	Count int    `json:"count" jsonschema:"Length of the answer's text." minimum:"0"`
}

type largeOut struct {
	Received int    `json:"received"`
	Text     string `json:"text"`
}

func large(_ context.Context, in largeIn) (largeOut, error) {
	return largeOut{len(in.Text), strings.Repeat("x", in.Count)}, nil
}

func spec(name, description string) pdk.Spec {
	return pdk.Spec{Name: name, Description: description, Kind: pdk.ReadOnly, SideEffect: pdk.Pure, Interrupt: pdk.Cancel}
}

func withEcho(s pdk.Spec) pdk.Spec {
	s.Services = []string{"x-echo"}
	return s
}

func plugin() pdk.Plugin {
	echoSpec := spec("Echo", "Returns its value.")
	echoSpec.Input = pdk.MustSchema[echoIn]()
	streamSpec := spec("Stream", "Yields progress, a message and an effect.")
	streamSpec.Effects = []abi.EffectType{abi.EffectContextPatch}
	return pdk.Plugin{
		Name: "blade-tool-conformance", Version: "1.0.0", License: "Apache-2.0",
		Description: "Reaches every part of the ABI.",
		Tools: []pdk.Tool{
			pdk.Define(echoSpec, echo),
			pdk.DefineStream(spec("Explicit", "Returns an explicit result."), explicit),
			pdk.Define(spec("Fail", "Returns an error."), fail),
			pdk.DefineStream(streamSpec, stream),
			pdk.Define(withEcho(spec("Service", "Calls one service.")), service),
			pdk.Define(withEcho(spec("Parallel", "Calls the echo service many times at once.")), parallel),
			pdk.Define(spec("Context", "Says what it knows about the call."), callContext),
			pdk.DefineStream(spec("Cancelled", "Works or sleeps until it is cancelled."), cancelled),
			pdk.Define(spec("Deadline", "Says whether there is a deadline."), deadline),
			pdk.Define(spec("Panic", "Panics."), panics),
			pdk.Define(spec("Log", "Logs lines."), logs),
			pdk.Define(spec("Large", "Takes and returns a long text."), large),
		},
	}
}

func init() { pdk.Serve(plugin()) }

func main() {}
