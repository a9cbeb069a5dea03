package host

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// run is one call on its way through the pipeline. It belongs to the call's
// goroutine, except for cancel and interrupt, which others read after enter.
type run struct {
	s    *Session
	x    *Execution
	call Call
	b    *batch

	// refused is why the session did not take the call in, or nil.
	refused *abi.Error

	ctx       context.Context
	cancel    context.CancelCauseFunc
	interrupt abi.InterruptBehavior

	entry       *entry
	executionID string
	begun       time.Time
	modelInput  json.RawMessage
	input       json.RawMessage
	// doc is the prepared input, decoded; it is only read.
	doc      any
	behavior tool.Behavior
	mode     policy.Mode
	snap     *tool.Snapshot
	// sign is the signature of the input once signature has computed it.
	sign       *policy.Signature
	paths      []string
	decision   policy.Decision
	permission string

	scheduled  bool
	published  bool
	invocation InvocationLifecycle
	started    bool
	ending     bool
	timedOut   bool
	preempted  bool
	denied     bool

	// saying is full while an event of the call is published, so that they keep
	// their order. It is taken before out, and nil where nobody listens.
	saying chan struct{}
	// out guards what the running tool adds to: nothing once over is set.
	out         sync.Mutex
	over        bool
	effects     []abi.Effect
	hostEffects []tool.HostEffect
	messages    []json.RawMessage
	streams     streams
	confirms    pauser
	admission   tool.Admission
	releases    []func()

	// cut is the model content that a limit left, kept the artifact behind it.
	cut  json.RawMessage
	kept *Artifact

	// result ends the call: stages after it are skipped, except those marked
	// always. err fails the run: no stage runs any more.
	result *abi.Result
	err    error
}

// stage is one step of a call.
type stage struct {
	name string
	do   func(*run)
	// always marks stages that run after a result is there.
	always bool
}

// before and after are the stages around the middleware, inside those within.
// This is the whole life of a call.
var (
	before = []stage{
		{"parse", (*run).parse, false},
		{"schedule", (*run).schedule, true},
		{"guard", (*run).guard, false},
	}

	inside = []stage{
		{"early slot", (*run).earlySlot, false},
		{"pre hooks", (*run).preHooks, false},
		{"validate", (*run).validate, false},
		{"tool checks", (*run).toolChecks, false},
		{"rules", (*run).judgeRules, false},
		{"paths", (*run).judgePaths, false},
		{"secrets", (*run).needSecrets, false},
		{"permission hooks", (*run).permissionHooks, false},
		{"handler", (*run).askHandler, false},
		{"mode", (*run).judgeMode, false},
		{"confirm", (*run).confirm, false},
		{"slot", (*run).slot, false},
		{"lock", (*run).lock, false},
		{"place", (*run).place, false},
		{"started", (*run).durableStart, false},
		{"execute", (*run).invoke, false},
		{"owned", (*run).owned, true},
		{"normalise", (*run).normalise, true},
		{"post hooks", (*run).postHooks, true},
		{"limit again", (*run).limit, true},
	}

	after = []stage{
		{"effects", (*run).applyEffects, true},
		{"settle", (*run).settle, true},
		{"publish", (*run).publish, true},
	}
)

// newRun takes a call in; execute must follow.
func (s *Session) newRun(ctx context.Context, c Call, b *batch) *run {
	if c.ID == "" {
		c.ID = newID("call")
	}
	r := &run{s: s, call: c, b: b, begun: now(), executionID: newID("exec"), interrupt: abi.InterruptCancel}
	r.ctx, r.cancel = context.WithCancelCause(context.WithValue(orBackground(ctx), callIDKey{}, c.ID))
	if s.opt.Events != nil {
		r.saying = make(chan struct{}, 1)
	}
	r.x = &Execution{id: c.ID, cancel: r.cancel, queue: newYieldQueue(), done: make(chan struct{})}
	r.refused = s.enter(r)
	return r
}

type callIDKey struct{}

// CallID is the id of the call that a context handed to a handler, a service or
// a hook belongs to, or "".
func CallID(ctx context.Context) string {
	id, _ := ctx.Value(callIDKey{}).(string)
	return id
}

// execute takes the call through all stages.
func (r *run) execute() {
	defer close(r.x.done)
	defer r.cancel(nil)
	if r.refused != nil {
		r.fail(r.refused)
		r.stamp()
		r.finish(r.result, nil)
		return
	}
	defer r.s.exit(r)
	defer r.release()
	if q := r.s.quarantine.Load(); q != nil {
		r.finish(nil, q)
		return
	}
	returned := false
	defer func() {
		if !returned {
			r.cutOff()
		}
	}()
	r.through(before)
	if r.result == nil && r.err == nil {
		r.wrap(func() { r.through(inside) })
	}
	r.end()
	returned = true
}

func (r *run) end() {
	r.ending = true
	r.through(after)
	r.finish(r.result, r.err)
}

// cutOff ends a call whose own goroutine is ended by something that it called,
// which cannot be stopped. Its end is not tried twice.
func (r *run) cutOff() {
	e := errGoexit()
	e.Message = "a callback of the call of " + clip(r.canonical()) + ": " + e.Message
	r.s.h.log.Error("a callback ended the goroutine of its call", "tool", r.canonical(), "call", r.call.ID)
	r.finish(nil, e)
	if !r.ending {
		r.fail(e)
		r.end()
	}
}

func (r *run) finish(res *abi.Result, err error) {
	r.x.queue.end()
	if err != nil {
		res = nil
	}
	r.x.result, r.x.err = res, err
}

func (r *run) through(list []stage) {
	for i := range list {
		if st := &list[i]; r.err == nil && (r.result == nil || st.always) {
			r.pass(st)
		}
	}
}

// pass runs one stage; a panic in it, which would be a fault of this package,
// ends the call and not the process.
func (r *run) pass(st *stage) {
	defer func() {
		if p := recover(); p != nil {
			r.s.h.log.Error("a stage panicked", "stage", st.name, "panic", p)
			r.fail(abi.NewError(abi.CodeToolPanic, "the stage %q failed: %v", st.name, p))
		}
	}()
	st.do(r)
}

// canonical is the tool's own name, or the one the model used where there is no
// such tool.
func (r *run) canonical() string {
	if r.entry != nil {
		return r.entry.spec.Name
	}
	return r.call.Tool
}

// fail ends the call with an error result.
func (r *run) fail(e *abi.Error) { r.result = abi.Failure(e) }

// failWith ends the call with the result of an error: of a cancellation if it is
// one, else of the error itself.
func (r *run) failWith(err error, code abi.Code, what string) {
	var c *tool.CancelError
	if errors.As(err, &c) || (r.ctx.Err() != nil && errors.Is(err, context.Cause(r.ctx))) {
		r.cancelled()
		return
	}
	if abi.CodeOf(err) != "" {
		r.fail(abi.AsError(err))
		return
	}
	r.fail(abi.NewError(code, "%s: %v", what, err).Because(err))
}

// stopped ends the call if its context has ended, and says whether it did.
func (r *run) stopped() bool {
	if r.ctx.Err() == nil {
		return false
	}
	r.cancelled()
	return true
}

var cancelCodes = map[abi.Cancel]abi.Code{
	abi.CancelRequest: abi.CodeAborted, abi.CancelSteering: abi.CodeSteering, abi.CancelDeadline: abi.CodeAborted,
	abi.CancelShutdown: abi.CodeShutdown, abi.CancelLease: abi.CodeLeaseLost, abi.CancelConsumer: abi.CodeConsumer,
}

// cancelled ends the call with the result of its cancellation.
func (r *run) cancelled() {
	cause := context.Cause(r.ctx)
	var c *tool.CancelError
	text := "the request was cancelled"
	if errors.As(cause, &c) {
		text = c.Error()
		if c.Detail == string(abi.CodeCascade) {
			r.fail(abi.NewError(abi.CodeCascade, "another call of the same batch failed"))
			return
		}
	}
	why := tool.Reason(r.ctx)
	code := cancelCodes[why]
	e := abi.NewError(code, "%s", text)
	if r.started && r.preempted && r.behavior.SideEffect == abi.SideEffectNonIdempotent && why != abi.CancelSteering {
		e = abi.NewError(abi.CodePreempted, "%s; the tool was running, and what it did is not known", text).With(map[string]any{"reason": code, "retryable": false})
	}
	r.fail(e)
}

// refresh resolves the behaviour of the input as it is now.
func (r *run) refresh() {
	b, widened := r.resolve()
	if widened > 0 {
		r.s.widened.Add(int64(widened))
		r.s.h.log.Warn("a tool tried to make a call less safe than it declares; that is ignored", "tool", r.canonical())
	}
	r.behavior = r.enforce(b)
}

// resolve asks the tool on a goroutine of its own, where it has code to ask.
func (r *run) resolve() (b tool.Behavior, widened int) {
	if _, ok := r.entry.tool.(tool.BehaviorResolver); !ok {
		return tool.Resolve(r.entry.tool, r.input)
	}
	_, err := guarded(func() (struct{}, error) {
		b, widened = tool.Resolve(r.entry.tool, r.input)
		return struct{}{}, nil
	})
	if err != nil {
		return r.entry.static, 0
	}
	return b, widened
}

// enforce believes a guest's read-only claim only if what it is lent cannot write.
func (r *run) enforce(b tool.Behavior) tool.Behavior {
	w, ok := r.entry.tool.(tool.LentWriter)
	if !ok || !w.LentCanWrite() || !(b.ReadOnly || b.Kind == abi.KindReadOnly) {
		return b
	}
	b.ReadOnly, b.ConcurrencySafe, b.Kind = false, false, abi.KindExecute
	return b
}
