package pdk

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/bladehost/bladehost/abi"
)

// Tool is one tool of a plugin. Define and DefineStream make it.
type Tool struct {
	spec   Spec
	yields bool
	infer  func() (json.RawMessage, error)
	run    func(ctx context.Context, input []byte, call *Call) (*Result, error)
	warm   func()
}

// Define makes a tool of a function from parameters to JSON data. The data
// becomes both what the model reads and what the caller gets, whatever its
// shape. It cannot yield; DefineStream can.
func Define[In, Out any](spec Spec, fn func(ctx context.Context, in In) (Out, error)) Tool {
	return Tool{
		spec:  spec,
		infer: SchemaOf[In],
		run: func(ctx context.Context, input []byte, _ *Call) (*Result, error) {
			in, err := decode[In](input)
			if err != nil {
				return nil, err
			}
			out, err := fn(ctx, in)
			if err != nil {
				return nil, err
			}
			return &Result{Data: out}, nil
		},
		warm: func() { warmType[In](); warmType[Out]() },
	}
}

// DefineStream makes a tool that may send progress, messages and effects
// through call while it runs, and return a result with parts for the model, the
// caller and a person.
func DefineStream[In any](spec Spec, fn func(ctx context.Context, in In, call *Call) (*Result, error)) Tool {
	return Tool{
		spec:   spec,
		yields: true,
		infer:  SchemaOf[In],
		run: func(ctx context.Context, input []byte, call *Call) (*Result, error) {
			in, err := decode[In](input)
			if err != nil {
				return nil, err
			}
			return fn(ctx, in, call)
		},
		warm: func() { warmType[In](); warmType[abi.Yield]() },
	}
}

// Name is the tool's name.
func (t Tool) Name() string { return t.spec.Name }

func decode[In any](input []byte) (In, error) {
	var in In
	if len(input) == 0 {
		input = []byte("{}")
	}
	if err := unmarshal(input, &in); err != nil {
		var zero In
		return zero, Invalid("bad_input", "the input does not fit: %w", err)
	}
	return in, nil
}

func (t *Tool) abiSpec() (abi.ToolSpec, error) {
	s := t.spec
	out := abi.ToolSpec{
		Name: s.Name, Aliases: s.Aliases, DisplayName: s.DisplayName,
		Description: abi.Description{Short: s.Description, Long: s.Long, UsageNotes: s.UsageNotes, Examples: s.Examples, Important: s.Important},
		Parameters:  s.Input, OutputSchema: s.Output,
		Kind: s.Kind, SideEffect: s.SideEffect, Interrupt: s.Interrupt, Destructive: s.Destructive,
		Narrow: s.Narrow, Services: s.Services, RequiresRuntime: s.RequiresRuntime, Exposure: s.Exposure,
		PermissionKey: s.PermissionKey, PathParams: s.PathParams, LockPaths: s.LockPaths,
		MaxResultSize: s.MaxResultSize, TimeoutMs: s.Timeout.Milliseconds(),
		Effects: s.Effects, Verify: s.Verify,
	}
	switch {
	case !t.yields:
		out.Yields = &[]abi.YieldKind{}
	case s.Yields != nil:
		out.Yields = &s.Yields
	}
	if out.Parameters == nil {
		schema, err := t.infer()
		if err != nil {
			return out, fmt.Errorf("parameters of %s: %w", s.Name, err)
		}
		out.Parameters = schema
	}
	return out, nil
}
