package tooltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/tool"
)

// definition: valid, complete, and the same over the wire.
func (s *subject) definition() {
	if err := tool.CheckSpec(s.spec); err != nil {
		s.failf("the definition is refused: %v", err)
	}
	if s.spec.SideEffect == "" {
		s.failf("it declares no side effect, so it would count as non_idempotent; say which")
	}
	for range 3 {
		if s.tool.Spec() != s.spec {
			s.failf("Spec is another pointer each time")
			break
		}
	}
	raw, err := strictjson.Encode(s.spec)
	if err != nil {
		s.failf("the definition has no JSON form: %v", err)
		return
	}
	var back abi.ToolSpec
	if err := strictjson.DecodeKnown(raw, &back); err != nil {
		s.failf("the definition cannot be read back: %v", err)
		return
	}
	if again, err := strictjson.Encode(&back); err != nil || !bytes.Equal(raw, again) {
		s.failf("the definition changes over the wire: %s, then %s", raw, again)
	}
}

// schema: it compiles, and the sample and the examples fit it.
func (s *subject) schema() {
	fits, err := compile(s.spec.Parameters)
	if err != nil {
		s.failf("the schema of its parameters does not compile: %v", err)
		return
	}
	if err := fits(s.c.Input); err != nil {
		s.failf("the sample input does not fit the schema: %v", err)
	}
	if s.c.Slow != nil {
		if err := fits(s.c.Slow); err != nil {
			s.failf("the slow input does not fit the schema: %v", err)
		}
	}
	for i, e := range s.spec.Description.Examples {
		if err := fits(e.Params); err != nil {
			s.failf("example %d does not fit the schema: %v", i, err)
		}
	}
	if s.spec.OutputSchema != nil {
		if _, err := compile(s.spec.OutputSchema); err != nil {
			s.failf("the output schema does not compile: %v", err)
		}
	}
}

// compile makes a function that judges a value by a schema.
func compile(raw json.RawMessage) (func(json.RawMessage) error, error) {
	var sch jsonschema.Schema
	if err := json.Unmarshal(raw, &sch); err != nil {
		return nil, err
	}
	r, err := sch.Resolve(&jsonschema.ResolveOptions{})
	if err != nil {
		return nil, err
	}
	return func(value json.RawMessage) error {
		if err := strictjson.Check(value); err != nil {
			return err
		}
		var v any
		if err := json.Unmarshal(value, &v); err != nil {
			return err
		}
		return r.Validate(v)
	}, nil
}

// result: valid and strict, twice in a row, and the input stays as it was.
func (s *subject) result() {
	for range 2 {
		tr, o := s.execute(s.t.Context(), s.c.Input)
		if !s.ended(o) {
			return
		}
		s.sound(o)
		if failed := o.errorOf() != nil; failed != s.c.Fails {
			s.failf("the sample input ended with error %v; failing was expected: %v", o.errorOf(), s.c.Fails)
		}
		if !bytes.Equal(tr.call.Input, s.c.Input) {
			s.failf("it changed its input to %s", tr.call.Input)
		}
		s.fitsOutput(o)
	}
}

func (s *subject) fitsOutput(o outcome) {
	if s.spec.OutputSchema == nil || o.res == nil || o.res.IsError() {
		return
	}
	if o.res.Data == nil {
		s.failf("it declares an output schema, but its result has no data")
	} else if fits, err := compile(s.spec.OutputSchema); err == nil {
		if err := fits(o.res.Data); err != nil {
			s.failf("its data does not fit its output schema: %v", err)
		}
	}
}

// ended reports a call that hung or panicked.
func (s *subject) ended(o outcome) bool {
	s.t.Helper()
	switch {
	case o.hung:
		s.failf("the call did not end within %v", patience)
		return false
	case o.panic != nil:
		s.failf("it panicked: %v", o.panic)
		return false
	}
	return true
}

// sound holds an outcome to what may be published.
func (s *subject) sound(o outcome) {
	s.t.Helper()
	switch {
	case o.err != nil && o.res != nil:
		s.failf("it returned both a result and an error")
		return
	case o.err != nil:
		e := abi.AsError(o.err)
		if !e.Type.Valid() || e.Message == "" {
			s.failf("its error has type %q and message %q", e.Type, e.Message)
		}
		return
	}
	if why := o.res.Valid(); why != "" {
		s.failf("its result cannot be published: %s", why)
		return
	}
	if o.res.Model == nil {
		s.failf("its result has no model")
	}
	parts := map[string]json.RawMessage{"model": o.res.Model, "data": o.res.Data}
	if o.res.Display != nil {
		parts["display.detail"] = o.res.Display.Detail
	}
	if o.res.Error != nil {
		parts["error.details"] = o.res.Error.Details
	}
	for name, p := range parts {
		if p == nil {
			continue
		}
		if err := strictjson.Check(p); err != nil {
			s.failf("%s is %v", name, err)
		}
	}
	if _, err := strictjson.Encode(o.res.Metadata); err != nil {
		s.failf("the metadata has no JSON form: %v", err)
	}
}

// yields: of the declared kinds and in shape, none after the end.
func (s *subject) yields() {
	tr, o := s.execute(s.t.Context(), s.c.Input)
	if !s.ended(o) {
		return
	}
	s.shapes(tr)
}

func (s *subject) shapes(tr *trial) {
	s.t.Helper()
	for i, y := range tr.yielded() {
		if !s.spec.MayYield(y.Kind) {
			s.failf("yield %d is of kind %q, which the definition does not declare", i, y.Kind)
			continue
		}
		if y.Kind == abi.YieldEffect && y.Effect != nil && !s.spec.MayEffect(y.Effect.Type) {
			s.failf("yield %d has the effect %q, which the definition does not declare", i, y.Effect.Type)
		}
		for _, v := range []*float64{y.Completed, y.Total} {
			if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
				s.failf("yield %d has the number %v", i, *v)
				return
			}
		}
		raw, err := strictjson.Encode(y)
		if err != nil {
			s.failf("yield %d is %v", i, err)
			continue
		}
		if len(raw) > abi.MaxYield {
			s.failf("yield %d has %d bytes, at most %d are allowed", i, len(raw), abi.MaxYield)
		}
		if _, issues := abi.ParseYield(raw); len(issues) > 0 {
			s.failf("yield %d: %s %s", i, issues[0].Pointer, issues[0].Message)
		}
	}
	time.Sleep(grace)
	if n := tr.lateYields(); n > 0 {
		s.failf("it sent %d yields after it had returned", n)
	}
}

// concurrent: the same tool and input from eight goroutines.
func (s *subject) concurrent() {
	const callers = 8
	var wg sync.WaitGroup
	outs := make([]outcome, callers)
	for i := range callers {
		wg.Go(func() {
			if w, ok := s.tool.(tool.Warmer); ok && i == 0 {
				if err := w.Warm(s.t.Context()); err != nil {
					s.failf("warming it failed: %v", err)
				}
			}
			_, outs[i] = s.execute(s.t.Context(), s.c.Input)
		})
	}
	wg.Wait()
	for _, o := range outs {
		if !s.ended(o) {
			return
		}
		s.sound(o)
		if failed := o.errorOf() != nil; failed != s.c.Fails {
			s.failf("among %d callers one ended with error %v", callers, o.errorOf())
		}
	}
}

// badInput: refused by the schema, or an error of the tool.
func (s *subject) badInput() {
	fits, err := compile(s.spec.Parameters)
	if err != nil {
		return // the check of the schema says so
	}
	for _, in := range s.c.Bad {
		_, o := s.execute(s.t.Context(), in)
		if !s.calm(o, in) {
			continue
		}
		s.sound(o)
		if e := o.errorOf(); e == nil && fits(in) == nil {
			s.failf("the input %s fits the schema and the tool took it", clip(in))
		} else if e != nil && !e.Type.Valid() {
			s.failf("the input %s gave an error of type %q", clip(in), e.Type)
		}
	}
}

// anyInput: nothing that is passed in makes it panic, nor its optional parts.
func (s *subject) anyInput() {
	hostile := []json.RawMessage{
		nil, json.RawMessage(`null`), json.RawMessage(`[]`), json.RawMessage(`"x"`), json.RawMessage(`{`), json.RawMessage(`{}`),
		json.RawMessage("{\"\xff\":\"\xff\"}"), json.RawMessage(`{"a":` + strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100) + `}`),
	}
	for _, in := range hostile {
		if _, o := s.execute(s.t.Context(), in); s.calm(o, in) && in == nil {
			s.sound(o)
		}
	}
	hostile = append(hostile, s.c.Input)
	for _, in := range append(hostile, s.c.Bad...) {
		s.optional(in)
	}
}

// optional calls what a tool adds to Tool with an input that nobody checked.
func (s *subject) optional(in json.RawMessage) {
	defer func() {
		if p := recover(); p != nil {
			s.failf("on the input %s an optional part panicked: %v", clip(in), p)
		}
	}()
	if r, ok := s.tool.(tool.BehaviorResolver); ok {
		_, _ = r.ResolveBehavior(bytes.Clone(in)) // any answer will do
		if _, widened := tool.Resolve(s.tool, in); widened > 0 {
			s.failf("on the input %s it makes the call less safe than it declares", clip(in))
		}
	}
	if n, ok := s.tool.(tool.Normalizer); ok {
		if out, err := n.NormalizeInput(bytes.Clone(in)); err == nil && strictjson.Check(in) == nil && strictjson.Check(out) != nil {
			s.failf("it normalised %s to %s, which is not strict JSON", clip(in), clip(out))
		}
	}
	if m, ok := s.tool.(tool.PermissionMatcher); ok {
		a, _ := m.PermissionSignature(bytes.Clone(in))
		if b, _ := m.PermissionSignature(bytes.Clone(in)); a != b {
			s.failf("the signature of %s is %q, then %q", clip(in), a, b)
		}
	}
	if c, ok := s.tool.(tool.Confirmer); ok {
		c.DescribeCall(bytes.Clone(in))
	}
}

// calm reports whether an input that nobody checked ended without a panic, in the
// host or in a guest.
func (s *subject) calm(o outcome, in json.RawMessage) bool {
	s.t.Helper()
	if o.hung || o.panic != nil {
		s.failf("on the input %s it hung (%v) or panicked: %v", clip(in), o.hung, o.panic)
		return false
	}
	if e := o.errorOf(); e != nil && (e.Code == abi.CodeToolPanic || e.Code == abi.CodeGuestTrap) {
		s.failf("on the input %s it crashed: %s", clip(in), e.Message)
		return false
	}
	return true
}

// cancelledBefore: a context that has ended already.
func (s *subject) cancelledBefore() {
	ctx, cancel := context.WithCancelCause(s.t.Context())
	cancel(&tool.CancelError{Reason: abi.CancelRequest})
	tr := s.call(ctx, s.c.Input, nil)
	tr.start(s.tool)
	if o := tr.wait(s.c.Cleanup); o.hung {
		s.failf("with a context that had ended it ran for more than %v", s.c.Cleanup)
	} else if s.ended(o) {
		s.sound(o)
	}
}

// cancel: a running call ends in time, three times in a row, and then is silent.
func (s *subject) cancel() {
	if s.c.Slow == nil {
		return
	}
	for _, reason := range []abi.Cancel{abi.CancelRequest, abi.CancelSteering, abi.CancelDeadline} {
		ctx, cancel := context.WithCancelCause(s.t.Context())
		tr := s.call(ctx, s.c.Slow, nil)
		tr.start(s.tool)
		select {
		case <-tr.first:
		case <-time.After(grace):
		case o := <-tr.done:
			cancel(nil)
			s.failf("the slow input ended by itself: %+v, %v", o.res, o.err)
			return
		}
		cancel(&tool.CancelError{Reason: reason})
		o := tr.wait(s.c.Cleanup)
		if o.hung {
			s.failf("cancelled (%s), it still ran after %v", reason, s.c.Cleanup)
			return
		}
		if s.ended(o) {
			s.sound(o)
			s.shapes(tr)
		}
	}
	if _, o := s.execute(s.t.Context(), s.c.Input); s.ended(o) && (o.errorOf() != nil) != s.c.Fails {
		s.failf("after cancelled calls the sample input ends with %v", o.errorOf())
	}
}

// readerGone: nobody wants the yields any more.
func (s *subject) readerGone() {
	input := s.c.Input
	if s.c.Slow != nil {
		input = s.c.Slow
	}
	ctx, cancel := context.WithCancelCause(s.t.Context())
	defer cancel(nil)
	gone := &tool.CancelError{Reason: abi.CancelConsumer}
	tr := s.call(ctx, input, gone)
	tr.start(s.tool)
	select {
	case <-tr.first:
		cancel(gone)
	case <-time.After(grace):
		cancel(gone)
	case o := <-tr.done:
		tr.done <- o
	}
	if o := tr.wait(s.c.Cleanup); o.hung {
		s.failf("its reader was gone, and it still ran after %v", s.c.Cleanup)
	} else if s.ended(o) {
		s.sound(o)
	}
}

// context: nothing of a call is used after it, and the next one has its own.
func (s *subject) context() {
	ctx, cancel := context.WithCancelCause(s.t.Context())
	watched := &watchedContext{Context: ctx}
	tr, o := s.execute(watched, s.c.Input)
	if !s.ended(o) {
		cancel(nil)
		return
	}
	time.Sleep(grace) // what ends with the call has ended now
	watched.over.Store(true)
	cancel(errors.New("the call is over"))
	if _, again := s.execute(s.t.Context(), s.c.Input); s.ended(again) && (again.errorOf() != nil) != s.c.Fails {
		s.failf("the end of an earlier call's context ended a later call: %v", again.errorOf())
	}
	time.Sleep(grace)
	if n := watched.uses.Load(); n > 0 {
		s.failf("it used the context of a call that was over, %d times", n)
	}
	if n := tr.lateYields(); n > 0 {
		s.failf("it sent %d yields after it had returned", n)
	}
}

// watchedContext counts what is asked of it once the call is over.
type watchedContext struct {
	context.Context
	over atomic.Bool
	uses atomic.Int64
}

func (c *watchedContext) use() {
	if c.over.Load() {
		c.uses.Add(1)
	}
}

// Deadline is the embedded context's.
func (c *watchedContext) Deadline() (time.Time, bool) { c.use(); return c.Context.Deadline() }

// Done is the embedded context's.
func (c *watchedContext) Done() <-chan struct{} { c.use(); return c.Context.Done() }

// Err is the embedded context's.
func (c *watchedContext) Err() error { c.use(); return c.Context.Err() }

// Value is the embedded context's. The key by which the context package finds its
// own kind is not counted: it is asked for by contexts that just end.
func (c *watchedContext) Value(key any) any {
	if t := reflect.TypeOf(key); t == nil || t.PkgPath() != "" || t.Kind() != reflect.Pointer {
		c.use()
	}
	return c.Context.Value(key)
}

func clip(b []byte) string {
	const most = 120
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(b)
}
