package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
)

// HookEvent names a moment that hooks are called at.
type HookEvent string

// Hook events. UserPromptSubmit and TaskCompleted are the agent loop's to fire
// (Session.FireHooks); the session fires the others.
const (
	HookSessionStart      HookEvent = "SessionStart"
	HookUserPrompt        HookEvent = "UserPromptSubmit"
	HookPreToolUse        HookEvent = "PreToolUse"
	HookPermissionRequest HookEvent = "PermissionRequest"
	HookPostToolUse       HookEvent = "PostToolUse"
	HookPostToolFailure   HookEvent = "PostToolUseFailure"
	HookTaskCompleted     HookEvent = "TaskCompleted"
	HookSessionEnd        HookEvent = "SessionEnd"
)

var hookEvents = []HookEvent{
	HookSessionStart, HookUserPrompt, HookPreToolUse, HookPermissionRequest,
	HookPostToolUse, HookPostToolFailure, HookTaskCompleted, HookSessionEnd,
}

// HookAction is what a hook wants.
type HookAction string

// Hook actions; the zero value is HookContinue.
const (
	HookContinue HookAction = "continue"
	// HookSkip ends the call with success: Reason becomes the model content.
	HookSkip HookAction = "skip"
	// HookAbort ends the call with an error.
	HookAbort HookAction = "abort"
)

// HookInput is what a hook gets: a copy.
type HookInput struct {
	Event      HookEvent       `json:"event"`
	SessionID  string          `json:"sessionId"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	ToolName   string          `json:"toolName,omitempty"`
	ToolInput  json.RawMessage `json:"toolInput,omitempty"`
	ToolOutput json.RawMessage `json:"toolOutput,omitempty"`
	Error      *abi.Error      `json:"error,omitempty"`
}

// HookOutput is what a hook answers. ModifiedInput is merged into the input
// (PreToolUse, PermissionRequest), ModifiedOutput replaces the model content
// (PostToolUse) but neither display nor data.
type HookOutput struct {
	Action         HookAction      `json:"action,omitempty"`
	ModifiedInput  json.RawMessage `json:"modifiedInput,omitempty"`
	ModifiedOutput json.RawMessage `json:"modifiedOutput,omitempty"`
	Reason         string          `json:"reason,omitempty"`
	// Confirm demands a confirmation of the call (PreToolUse).
	Confirm bool `json:"confirm,omitempty"`
}

// Hook is a callback for one event. It stops when ctx ends; while one that ran
// out of time has not, no later hooks are called and the session cannot close.
type Hook struct {
	Event HookEvent
	// Tools restricts it to tools by canonical name; nil does not restrict.
	Tools []string
	Run   func(ctx context.Context, in HookInput) (HookOutput, error)
}

// merged is the outcome of all hooks of one event.
type merged struct {
	HookOutput
	ran bool
}

// fire calls the hooks of an event in order, each with the original input, and
// then merges their answers until the first that skips or aborts. They share one
// budget.
func (s *Session) fire(ctx context.Context, in HookInput, budget time.Duration) (merged, error) {
	hooks := s.hooksFor(in.Event, in.ToolName)
	if len(hooks) == 0 {
		return merged{}, nil
	}
	if s.pendingHooks.Load() > 0 {
		return merged{}, abi.NewError(abi.CodeHookPending, "a hook that ran out of time still runs, so no other hook is called")
	}
	ctx, cancel := context.WithTimeoutCause(orBackground(ctx), budget, errHookTime)
	defer cancel()
	in.SessionID = s.opt.ID
	var outs []HookOutput
	for _, h := range hooks {
		own := in
		own.ToolInput, own.ToolOutput, own.Error = cloneRaw(in.ToolInput), cloneRaw(in.ToolOutput), ownError(in.Error)
		out, err := await(ctx, &s.pendingHooks, func() (HookOutput, error) { return h.Run(ctx, own) })
		if err != nil {
			return merged{}, hookError(ctx, in.Event, err)
		}
		outs = append(outs, out)
	}
	return mergeHooks(in, outs)
}

func mergeHooks(in HookInput, outs []HookOutput) (merged, error) {
	m := merged{ran: true}
	for _, o := range outs {
		if o.ModifiedInput != nil {
			base := m.ModifiedInput
			if base == nil {
				base = json.RawMessage("{}")
			}
			next, err := policy.MergeInput(base, o.ModifiedInput)
			if err != nil {
				return m, abi.NewError(abi.CodeHookFailed, "a %s hook: %v", in.Event, err)
			}
			m.ModifiedInput = next
		}
		if o.ModifiedOutput != nil {
			m.ModifiedOutput = o.ModifiedOutput
		}
		m.Confirm = m.Confirm || o.Confirm
		if o.Reason != "" {
			m.Reason = o.Reason
		}
		switch o.Action {
		case "", HookContinue:
		case HookSkip, HookAbort:
			m.Action, m.Reason = o.Action, o.Reason
			return m, nil
		default:
			return m, abi.NewError(abi.CodeHookFailed, "a %s hook answered with the action %q; continue, skip and abort are known", in.Event, clip(string(o.Action)))
		}
	}
	return m, nil
}

func hookError(ctx context.Context, ev HookEvent, err error) error {
	if context.Cause(ctx) == errHookTime {
		return abi.NewError(abi.CodeHookTimeout, "the hooks of %s took too long", ev)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return abi.NewError(abi.CodeHookFailed, "a %s hook failed: %v", ev, err).Because(err)
}

// FireHooks calls the hooks of an event that belongs to the agent loop.
func (s *Session) FireHooks(ctx context.Context, in HookInput) (HookOutput, error) {
	m, err := s.fire(ctx, in, s.opt.HookTimeout)
	return m.HookOutput, err
}

func (s *Session) hooksFor(ev HookEvent, toolName string) []Hook {
	var out []Hook
	for _, h := range s.opt.Hooks {
		if h.Event == ev && (h.Tools == nil || contains(h.Tools, toolName)) {
			out = append(out, h)
		}
	}
	return out
}
