package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/journal"
	. "github.com/bladehost/bladehost/host/journal/journaltest"
	"github.com/bladehost/bladehost/host/tool"
)

// plain is a native tool.
type plain struct {
	spec abi.ToolSpec
	run  func(context.Context, *tool.Call) (*abi.Result, error)
}

func (p *plain) Spec() *abi.ToolSpec { return &p.spec }
func (p *plain) Execute(ctx context.Context, c *tool.Call) (*abi.Result, error) {
	return p.run(ctx, c)
}

func spec(name string, effect abi.SideEffect) abi.ToolSpec {
	return abi.ToolSpec{
		Name: name, Description: abi.Description{Short: name}, Kind: abi.KindExecute, SideEffect: effect, Interrupt: abi.InterruptCancel,
		Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","default":7}}}`),
	}
}

func newHost(t *testing.T, list ...tool.Tool) *host.Host {
	t.Helper()
	h, err := host.New(host.Options{Tools: list, ArtifactDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	return h
}

func text(s string) func(context.Context, *tool.Call) (*abi.Result, error) {
	return func(context.Context, *tool.Call) (*abi.Result, error) { return abi.Text(s), nil }
}

// recorded makes one call in a session that is recorded, and returns its events
// as a line.
func recorded(t *testing.T, opt host.SessionOptions, c host.Call, list ...tool.Tool) (string, []journal.Event, *abi.Result, error) {
	t.Helper()
	s := memory(t, nil)
	j := openJournal(t, s)
	opt.ID, opt.Lifecycle = "s", j.Recorder(journal.RecorderOptions{RequestID: "r", TurnID: "t"})
	ses, err := newHost(t, list...).NewSession(opt)
	if err != nil {
		t.Fatal(err)
	}
	res, err := ses.Run(t.Context(), c)
	if cerr := ses.Close(t.Context()); cerr != nil {
		t.Error(cerr)
	}
	var b strings.Builder
	events := All(t, s, "s")[1:]
	for _, e := range events {
		var d struct {
			Reason, Decision string
			Error            *journal.ErrorData
			Result           json.RawMessage
		}
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s", strings.TrimPrefix(string(e.Type), "tool_"))
		for _, part := range []string{d.Reason, d.Decision, string(d.Result)} {
			if part != "" {
				fmt.Fprintf(&b, " %s", part)
			}
		}
		if d.Error != nil {
			fmt.Fprintf(&b, " %s", d.Error.Code)
			if d.Error.Retryable != nil {
				fmt.Fprintf(&b, " retryable=%v", *d.Error.Retryable)
			}
		}
		b.WriteString("|")
	}
	if len(j.Attempts()) != 0 {
		t.Errorf("open: %+v", j.Attempts())
	}
	return b.String(), events, res, err
}

func answer(approve bool, err error) tool.ConfirmationHandler {
	return tool.ConfirmFunc(func(context.Context, tool.Confirmation) (tool.ConfirmationAnswer, error) {
		return tool.ConfirmationAnswer{Approved: approve, Reason: "so it is"}, err
	})
}

// LIF-01 LIF-06 LIF-08 LIF-13 LIF-15: what each end of a call leaves in the journal.
func TestRecorder(t *testing.T) {
	ok := &plain{spec: spec("Ok", abi.SideEffectIdempotent), run: text("fine")}
	fails := &plain{spec: spec("Fails", abi.SideEffectPure), run: func(context.Context, *tool.Call) (*abi.Result, error) {
		return nil, &abi.Error{Message: "no", Type: abi.TypeExecution, Code: "my_code"}
	}}
	slow := func(effect abi.SideEffect) *plain {
		return &plain{spec: spec("Slow", effect), run: func(ctx context.Context, _ *tool.Call) (*abi.Result, error) { <-ctx.Done(); return nil, ctx.Err() }}
	}
	panics := &plain{spec: spec("Panics", abi.SideEffectPure), run: func(context.Context, *tool.Call) (*abi.Result, error) { panic("oh") }}
	for _, c := range []struct {
		name string
		opt  host.SessionOptions
		call host.Call
		tool tool.Tool
		want string
	}{
		{"success", host.SessionOptions{Mode: "yolo"}, host.Call{Tool: "Ok"}, ok, `scheduled|started|completed "fine"|`},
		{"allowed", host.SessionOptions{Confirm: answer(true, nil)}, host.Call{Tool: "Ok"}, ok, `scheduled|permission_requested|permission_resolved allow|started|completed "fine"|`},
		{"denied", host.SessionOptions{Confirm: answer(false, nil)}, host.Call{Tool: "Ok"}, ok, `scheduled|permission_requested|permission_resolved deny|cancelled permission_denied|`},
		{"handler fails", host.SessionOptions{Confirm: answer(false, errors.New("gone"))}, host.Call{Tool: "Ok"}, ok, `scheduled|permission_requested|permission_resolved cancel|cancelled permission_cancelled|`},
		{"nobody to ask", host.SessionOptions{}, host.Call{Tool: "Ok"}, ok, `scheduled|failed NO_CONFIRMATION_HANDLER|`},
		{"plan mode", host.SessionOptions{Mode: "plan"}, host.Call{Tool: "Ok"}, ok, `scheduled|failed DENIED_MODE|`},
		{"bad input", host.SessionOptions{Mode: "yolo"}, host.Call{Tool: "Ok", Input: json.RawMessage(`{"n":"x"}`)}, ok, `scheduled|failed TOOL_VALIDATION_ERROR|`},
		{"no JSON", host.SessionOptions{Mode: "yolo"}, host.Call{Tool: "Ok", Arguments: `{`}, ok, ``},
		{"unknown tool", host.SessionOptions{Mode: "yolo"}, host.Call{Tool: "Nope"}, ok, `scheduled|failed TOOL_NOT_FOUND|`},
		{"tool error", host.SessionOptions{Mode: "yolo"}, host.Call{Tool: "Fails"}, fails, `scheduled|started|failed my_code|`},
		{"panic", host.SessionOptions{Mode: "yolo"}, host.Call{Tool: "Panics"}, panics, `scheduled|started|failed TOOL_PANIC|`},
		{"timeout, pure", host.SessionOptions{Mode: "yolo", ToolTimeout: time.Millisecond}, host.Call{Tool: "Slow"}, slow(abi.SideEffectPure), `scheduled|started|failed TOOL_TIMEOUT retryable=true|`},
		{"timeout, non_idempotent", host.SessionOptions{Mode: "yolo", ToolTimeout: time.Millisecond}, host.Call{Tool: "Slow"}, slow(abi.SideEffectNonIdempotent), `scheduled|started|failed TIMEOUT_AFTER_START retryable=false|`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, _, err := recorded(t, c.opt, c.call, c.tool)
			if got != c.want || err != nil {
				t.Errorf("got  %s\nwant %s (%v)", got, c.want, err)
			}
		})
	}
}

// LIF-03 LIF-06: the inputs that are recorded, and the scope.
func TestRecordedInputs(t *testing.T) {
	ok := &plain{spec: spec("Ok", abi.SideEffectIdempotent), run: text("fine")}
	_, events, _, err := recorded(t, host.SessionOptions{Confirm: answer(true, nil)}, host.Call{ID: "c1", Tool: "Ok", Input: json.RawMessage(`{"todos":"[1]"}`), TurnID: "turn-5", ModelAttemptID: "model-5"}, ok)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		`{"toolCallId":"c1","toolName":"Ok","modelInput":{"todos":"[1]"},"input":{"todos":[1]},"sideEffect":"idempotent","interruptBehavior":"cancel"}`,
		`"input":{`, `"decision":"allow","message":"so it is"`, `"n":7`, `{"toolCallId":"c1","toolName":"Ok","result":"fine"}`,
	} {
		if !strings.Contains(string(events[i].Data), want) {
			t.Errorf("%s: %s, want %s", events[i].Type, events[i].Data, want)
		}
		if e := events[i]; e.RequestID != "r" || e.TurnID != "turn-5" || e.ToolAttemptID != events[0].ToolAttemptID || e.CommandID == "" {
			t.Errorf("scope %+v", e)
		}
	}
	if events[0].ModelAttemptID != "model-5" {
		t.Errorf("%+v", events[0])
	}
}

// A result that is too large for the model is kept as what the model reads, with
// a reference to the artifact; its data is not kept.
func TestRecordedArtifact(t *testing.T) {
	big := &plain{spec: spec("Big", abi.SideEffectPure), run: func(context.Context, *tool.Call) (*abi.Result, error) {
		r := abi.Text(strings.Repeat("x", 5000))
		r.Data = json.RawMessage(`{"secret":"data"}`)
		return r, nil
	}}
	big.spec.MaxResultSize = 500
	_, events, res, err := recorded(t, host.SessionOptions{Mode: "yolo"}, host.Call{Tool: "Big"}, big)
	if err != nil {
		t.Fatal(err)
	}
	var d journal.CompletedData
	if err := json.Unmarshal(events[2].Data, &d); err != nil {
		t.Fatal(err)
	}
	if d.Artifact == nil || d.Artifact.Handle == "" || d.Artifact.Handle != res.Metadata["resultArtifactHandle"] || len(d.Artifact.SHA256) != 64 || d.Artifact.Bytes < 5000 || d.Artifact.Path == "" {
		t.Errorf("%+v", d.Artifact)
	}
	if len(events[2].Data) > 2000 || string(d.Result) != string(res.Model) || strings.Contains(string(events[2].Data), "secret") {
		t.Errorf("%s", events[2].Data)
	}
}

// What a tool says about its result by the names of the host's own is no reason not
// to record it.
func TestMetadataOfATool(t *testing.T) {
	sum := strings.Repeat("a", 64)
	for name, meta := range map[string]map[string]any{
		"an empty handle":    {"resultArtifactHandle": "", "sha256": sum, "bytes": 1},
		"a long handle":      {"resultArtifactHandle": strings.Repeat("h", journal.MaxID+1), "sha256": sum, "bytes": 1},
		"no sum":             {"resultArtifactHandle": "h", "bytes": 1},
		"another sum":        {"resultArtifactHandle": "h", "sha256": "zz", "bytes": 1},
		"a negative size":    {"resultArtifactHandle": "h", "sha256": sum, "bytes": -5},
		"handle of no text":  {"resultArtifactHandle": 7},
		"size of no integer": {"resultArtifactHandle": "h", "bytes": 1.5},
	} {
		t.Run(name, func(t *testing.T) {
			one := &plain{spec: spec("One", abi.SideEffectPure), run: func(context.Context, *tool.Call) (*abi.Result, error) {
				r := abi.Text("x")
				for k, v := range meta {
					r.SetMeta(k, v)
				}
				return r, nil
			}}
			_, events, res, err := recorded(t, host.SessionOptions{Mode: "yolo"}, host.Call{Tool: "One"}, one)
			if err != nil || res.IsError() || len(events) != 3 || events[2].Type != journal.ToolCompleted {
				t.Fatalf("%+v %v %v", res, err, events)
			}
			var d journal.CompletedData
			if err := json.Unmarshal(events[2].Data, &d); err != nil || d.Artifact != nil {
				t.Errorf("%+v %v", d.Artifact, err)
			}
		})
	}
}

// LIF-02 LIF-04 LIF-05 LIF-07 LIF-08: what a store that does not write stops.
func TestRecorderFails(t *testing.T) {
	for _, c := range []struct {
		fail   journal.Type
		ran    bool
		asked  bool
		runErr bool
		want   string
	}{
		{journal.ToolScheduled, false, false, true, ""},
		{journal.PermissionRequested, false, false, false, "tool_scheduled tool_failed"},
		{journal.PermissionResolved, false, true, false, "tool_scheduled permission_requested permission_resolved tool_cancelled"},
		{journal.ToolStarted, false, true, false, "tool_scheduled permission_requested permission_resolved tool_failed"},
		{journal.ToolCompleted, true, true, true, "tool_scheduled permission_requested permission_resolved tool_started"},
	} {
		t.Run(string(c.fail), func(t *testing.T) {
			f := &picky{Store: memory(t, nil), fail: c.fail}
			j := openJournal(t, f)
			ran, asked := false, false
			ok := &plain{spec: spec("Ok", abi.SideEffectPure), run: func(context.Context, *tool.Call) (*abi.Result, error) { ran = true; return abi.Text("x"), nil }}
			ses, err := newHost(t, ok).NewSession(host.SessionOptions{ID: "s", Lifecycle: j.Recorder(journal.RecorderOptions{}), Confirm: tool.ConfirmFunc(func(context.Context, tool.Confirmation) (tool.ConfirmationAnswer, error) {
				asked = true
				return tool.ConfirmationAnswer{Approved: true}, nil
			})})
			if err != nil {
				t.Fatal(err)
			}
			res, err := ses.Run(t.Context(), host.Call{Tool: "Ok"})
			if ran != c.ran || asked != c.asked || (err != nil) != c.runErr || (err == nil && res.Error.Code != abi.CodeLifecycle) {
				t.Errorf("ran %v, asked %v, %+v %v", ran, asked, res, err)
			}
			var got []string
			for _, e := range All(t, f.Store, "s")[1:] {
				got = append(got, string(e.Type))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

// picky refuses, once, events of one type.
type picky struct {
	journal.Store
	fail journal.Type
}

func (p *picky) Append(ctx context.Context, s string, d []journal.Draft, opt journal.AppendOptions) ([]journal.Event, error) {
	if d[0].Type == p.fail {
		p.fail = ""
		return nil, abi.NewError(abi.CodeJournalWrite, "the disk is full")
	}
	return p.Store.Append(ctx, s, d, opt)
}
