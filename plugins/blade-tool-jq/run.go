package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

// runner runs a compiled query over the documents and keeps its results.
type runner struct {
	ctx   context.Context
	code  *gojq.Code
	vars  variables
	docs  *documents
	limit int

	results   []json.RawMessage
	size      int // of results
	truncated bool
	halted    bool
}

func (r *runner) all(slurp, nullInput bool) error {
	if slurp {
		list, err := r.docs.slurp()
		if err != nil {
			return err
		}
		r.docs.ready = []any{list}
	}
	if nullInput {
		return r.one(nil)
	}
	for {
		v, ok, err := r.docs.next()
		switch {
		case err != nil || !ok:
			return err
		case len(r.results) == r.limit:
			r.truncated = true // the document could have results
			return nil
		}
		if err := r.one(v); err != nil || r.halted || r.truncated {
			return err
		}
	}
}

// one runs the query over one document.
func (r *runner) one(doc any) error {
	steps := &stepContext{Context: r.ctx, stop: make(chan struct{})}
	iter := r.code.RunWithContext(steps, doc, r.vars.values...)
	for {
		full := len(r.results) == r.limit
		if full {
			steps.left = peekSteps
		}
		v, ok := iter.Next()
		if !ok {
			return nil
		}
		err, failed := v.(error)
		switch {
		case failed && r.ctx.Err() != nil:
			return context.Cause(r.ctx)
		case full:
			r.truncated = !isHalt(err)
			return nil
		case failed:
			return r.failure(err)
		}
		if err := r.add(v); err != nil || r.truncated {
			return err
		}
	}
}

func isHalt(err error) bool {
	var h *gojq.HaltError
	return errors.As(err, &h) && h.Value() == nil
}

// failure is the tool's error for an error of the query; nil for halt.
func (r *runner) failure(err error) error {
	if isHalt(err) {
		r.halted = true
		return nil
	}
	var own *pdk.Error
	if errors.As(err, &own) {
		return own
	}
	details := map[string]any{"results": len(r.results)}
	code := "query_failed"
	var halt *gojq.HaltError
	if errors.As(err, &halt) {
		code = "halt_error"
	}
	var value gojq.ValueError
	if errors.As(err, &value) {
		if b, e := appendJSON(nil, value.Value(), 0); e == nil && len(b) <= 4096 {
			details["value"] = json.RawMessage(b)
		}
	}
	return pdk.Errorf(code, "the query failed after %d results: %s", len(r.results), clip(err.Error())).With(details)
}

// add keeps one result. Where it no longer fits, the result ends before it.
func (r *runner) add(v any) error {
	b, err := appendJSON(nil, v, 0)
	if err == nil && r.size+len(b) > maxOutput {
		err = errTooLarge
	}
	if errors.Is(err, errTooLarge) && len(r.results) > 0 {
		r.truncated = true
		return nil
	}
	if err != nil {
		return err
	}
	r.results, r.size = append(r.results, b), r.size+len(b)
	return nil
}

func (r *runner) result(raw bool) *pdk.Result {
	out := jqOut{Results: r.results, Count: len(r.results), Truncated: r.truncated}
	if out.Results == nil {
		out.Results = []json.RawMessage{}
	}
	summary := fmt.Sprintf("%d results", out.Count)
	if out.Count == 1 {
		summary = "1 result"
	}
	if out.Truncated {
		summary += ", and there are more"
	}
	res := &pdk.Result{Data: out, Display: &abi.Display{Summary: summary}}
	if raw {
		res.Model = rawText(out)
	}
	return res
}

// rawText is one line a result, strings as they are.
func rawText(out jqOut) string {
	lines := make([]string, 0, len(out.Results)+1)
	for _, b := range out.Results {
		var s string
		if b[0] != '"' || json.Unmarshal(b, &s) != nil {
			s = string(b)
		}
		lines = append(lines, s)
	}
	if out.Truncated {
		lines = append(lines, fmt.Sprintf("[more results follow; these are the first %d]", out.Count))
	}
	return strings.Join(lines, "\n")
}

func (d *documents) slurp() ([]any, error) {
	list := []any{}
	for {
		v, ok, err := d.next()
		if err != nil || !ok {
			return list, err
		}
		list = append(list, v)
	}
}

// stepContext is what gojq asks at every step whether it should stop. It asks
// the host only now and then, and can count steps down.
type stepContext struct {
	context.Context
	stop  chan struct{}
	err   error
	steps int
	left  int // 0: no bound
}

var errSteps = errors.New("the steps are used up")

// askEvery is how many steps lie between two questions to the host: some tenths
// of a millisecond.
const askEvery = 1024

func (c *stepContext) Done() <-chan struct{} {
	if c.err != nil {
		return c.stop
	}
	if c.steps++; c.steps%askEvery == 0 {
		c.err = c.Context.Err()
	}
	if c.left > 0 {
		if c.left--; c.left == 0 {
			c.err = errSteps
		}
	}
	if c.err != nil {
		close(c.stop)
	}
	return c.stop
}

func (c *stepContext) Err() error { return c.err }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func clip(s string) string {
	const most = 2000
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
