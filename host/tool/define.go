package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

// Options is what a definition may add to a name, a description and a function.
// The zero value of each field is the conservative default of abi.ToolSpec.
// There is no interrupt behaviour: a public definition always blocks.
type Options struct {
	Aliases     []string
	DisplayName string
	// Description replaces the string that Define was given, where one string is
	// not enough.
	Description *abi.Description
	// Parameters is the JSON Schema of the input; nil means it is inferred from In.
	Parameters      json.RawMessage
	OutputSchema    json.RawMessage
	Kind            abi.Kind
	SideEffect      abi.SideEffect
	Destructive     bool
	Narrow          []abi.Narrowing
	Services        []string
	RequiresRuntime bool
	Exposure        *abi.Exposure
	Group           abi.Group
	PermissionKey   []string
	PathParams      []string
	LockPaths       []string
	MaxResultSize   int
	TimeoutMs       int64
	Strict          bool
	Cascade         bool
	Verify          bool
	// Effects is for DefineStream: the effects the tool may yield.
	Effects []abi.EffectType
}

func (o Options) spec(name, description string) abi.ToolSpec {
	d := abi.Description{Short: description}
	if o.Description != nil {
		d = *o.Description
	}
	return abi.ToolSpec{
		Name: name, Description: d, Aliases: o.Aliases, DisplayName: o.DisplayName,
		Parameters: o.Parameters, OutputSchema: o.OutputSchema, Kind: o.Kind, SideEffect: o.SideEffect,
		Destructive: o.Destructive, Narrow: o.Narrow, Services: o.Services, RequiresRuntime: o.RequiresRuntime,
		Exposure: o.Exposure, Group: o.Group, PermissionKey: o.PermissionKey, PathParams: o.PathParams,
		LockPaths: o.LockPaths, MaxResultSize: o.MaxResultSize, TimeoutMs: o.TimeoutMs, Strict: o.Strict,
		Cascade: o.Cascade, Verify: o.Verify, Effects: o.Effects,
	}
}

// Define makes a tool from a plain function. What the function returns becomes
// both model and data of a success, whatever its shape; its error becomes an
// error result. The schema is inferred from In, a struct (field names from json
// tags, descriptions from jsonschema tags; a field without omitempty is
// required), unless Options give one. FromContext(ctx) is the call's context.
// At most one Options is taken. The error names every field that is wrong.
func Define[In, Out any](name, description string, fn func(context.Context, In) (Out, error), opts ...Options) (Tool, error) {
	if fn == nil {
		return nil, noFunction(name)
	}
	spec, err := defineSpec[In](name, description, opts)
	if err != nil {
		return nil, err
	}
	none := []abi.YieldKind{}
	spec.Yields = &none
	return &defined[In]{spec: spec, run: func(ctx context.Context, in In, call *Call) (*abi.Result, error) {
		out, err := fn(WithContext(ctx, &call.Context), in)
		if err != nil {
			return nil, err
		}
		return fromValue(out)
	}}, nil
}

// DefineStream makes a tool from a function that can yield and decides itself
// what model, display and data are.
func DefineStream[In any](name, description string, fn func(context.Context, In, *Call) (*abi.Result, error), opts ...Options) (Tool, error) {
	if fn == nil {
		return nil, noFunction(name)
	}
	spec, err := defineSpec[In](name, description, opts)
	if err != nil {
		return nil, err
	}
	return &defined[In]{spec: spec, run: fn}, nil
}

func noFunction(name string) error {
	return abi.NewError(abi.CodeDefinition, "tool %q: its function is nil", name)
}

type defined[In any] struct {
	spec *abi.ToolSpec
	run  func(context.Context, In, *Call) (*abi.Result, error)
}

func (d *defined[In]) Spec() *abi.ToolSpec { return d.spec }

func (d *defined[In]) Execute(ctx context.Context, call *Call) (*abi.Result, error) {
	var in In
	if err := strictjson.Decode(call.Input, &in); err != nil {
		return nil, abi.NewError(abi.CodeValidation, "the input of %s does not fit its Go type: %v", d.spec.Name, err)
	}
	return d.run(ctx, in, call)
}

func fromValue(v any) (*abi.Result, error) {
	raw, err := strictjson.Encode(v)
	if err != nil {
		return nil, abi.NewError(abi.CodeResultNotJSON, "the tool returned a value without a JSON form: %v", err)
	}
	return abi.Success(raw), nil
}

func defineSpec[In any](name, description string, opts []Options) (*abi.ToolSpec, error) {
	var o Options
	switch len(opts) {
	case 0:
	case 1:
		o = opts[0]
	default:
		return nil, abi.NewError(abi.CodeDefinition, "tool %q: %d Options were given, at most one is taken", name, len(opts))
	}
	spec := o.spec(name, description)
	if spec.Parameters == nil {
		raw, err := InferSchema[In]()
		if err != nil {
			return nil, abi.NewError(abi.CodeDefinition, "tool %q: no schema can be inferred from %s: %v; give Options.Parameters", name, reflect.TypeFor[In](), err).Because(err)
		}
		spec.Parameters = raw
	}
	if err := CheckSpec(&spec); err != nil {
		return nil, err
	}
	return &spec, nil
}

// InferSchema is the JSON Schema of a Go struct type.
func InferSchema[T any]() (json.RawMessage, error) {
	t := reflect.TypeFor[T]()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return nil, fmt.Errorf("%s is not a struct", t)
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{})
	if err != nil {
		return nil, err
	}
	return abi.Marshal(s)
}
