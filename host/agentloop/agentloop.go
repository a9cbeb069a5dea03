// Package agentloop is the contract of agent loops that know four kinds of
// tools: read, write, run and verify. It is a thin layer over package tool: a
// definition has an input schema and a handler, Run validates and then calls the
// handler, and Tool makes the same definition a tool of a bladehost session,
// without losing its kind.
//
// Remote tools (RemoteToolSpec, through a tool gateway) and tools of registered
// MCP servers (McpToolSpec) are declared here; who runs them comes later.
package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/schema"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/tool"
)

// Kind is what a tool does, for the rules that decide whether a loop goes on.
type Kind string

// Kinds. The zero value means KindRun.
const (
	KindRead   Kind = "read"
	KindWrite  Kind = "write"
	KindRun    Kind = "run"
	KindVerify Kind = "verify"
)

// Valid reports whether k is one of the four kinds.
func (k Kind) Valid() bool {
	return k == KindRead || k == KindWrite || k == KindRun || k == KindVerify
}

// Blade is the kind of the same tool in a session. Nothing else follows from it:
// a read tool is not pure by its kind.
func (k Kind) Blade() abi.Kind {
	switch k {
	case KindRead:
		return abi.KindReadOnly
	case KindWrite:
		return abi.KindWrite
	}
	return abi.KindExecute
}

// KindOf is the kind of a session's tool here.
func KindOf(s *abi.ToolSpec) Kind {
	switch {
	case s.Verify:
		return KindVerify
	case s.Kind == abi.KindReadOnly:
		return KindRead
	case s.Kind == abi.KindWrite:
		return KindWrite
	}
	return KindRun
}

// Code is the stable name of an AgentLoopError.
type Code string

// Codes.
const (
	CodeInputInvalid      Code = "tool_input_invalid"
	CodeDefinitionInvalid Code = "tool_definition_invalid"
	CodeNotFound          Code = "tool_not_found"
	CodeFailed            Code = "tool_failed"
	CodeVerifyFailed      Code = "verify_failed"
	CodeTimeout           Code = "tool_timeout"
	CodeCancelled         Code = "tool_cancelled"
	CodeGateway           Code = "tool_gateway_error"
	CodeMCPGateway        Code = "mcp_gateway_error"
)

// Error is the AgentLoopError: what went wrong, with a stable code. Details are
// JSON; for CodeInputInvalid they are {"issues":[{pointer,message}]}, for
// CodeVerifyFailed the value that the tool returned.
type Error struct {
	Code    Code
	Message string
	Details json.RawMessage
	cause   error
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap is what the handler returned.
func (e *Error) Unwrap() error { return e.cause }

// Is compares codes.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && e.Code == t.Code
}

// ToolContext is what a handler gets beside its input. The signal of the loop is
// the handler's ctx.
type ToolContext struct {
	// Step is the loop's own words for where it is, at most 500 UTF-16 units.
	Step string
}

// StepOf reads a step from JSON: a text, or a number, which becomes its digits.
func StepOf(raw json.RawMessage) (string, error) {
	var v any
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	v, err := strictjson.Value(raw)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	}
	return "", fmt.Errorf("a step is a text or a number, not %s", raw)
}

// Handler runs a tool on an input that fits its schema.
type Handler func(ctx context.Context, input json.RawMessage, tc ToolContext) (any, error)

// Definition declares a local tool. All fields but Kind are needed.
type Definition struct {
	Name        string
	Description string
	// InputSchema is a JSON Schema, draft 2020-12, of an object.
	InputSchema json.RawMessage
	Handler     Handler
	Kind        Kind
	// SideEffect is for recovery; the zero value is non_idempotent whatever Kind.
	SideEffect abi.SideEffect
}

// Tool is a defined tool. It is immutable and safe for concurrent use.
type Tool struct {
	def    Definition
	schema *schema.Validator
	spec   *abi.ToolSpec
}

// DefineTool checks a definition. Its error is an *Error with
// CodeDefinitionInvalid.
func DefineTool(d Definition) (*Tool, error) {
	bad := func(err error) (*Tool, error) {
		return nil, &Error{Code: CodeDefinitionInvalid, Message: fmt.Sprintf("the tool %q cannot be defined: %v", d.Name, err), cause: err}
	}
	if d.Kind == "" {
		d.Kind = KindRun
	}
	if !d.Kind.Valid() {
		return bad(fmt.Errorf("the kind %q is not one of read, write, run, verify", d.Kind))
	}
	if d.Handler == nil {
		return bad(errors.New("it has no handler"))
	}
	v, err := schema.CompileObject(d.InputSchema)
	if err != nil {
		return bad(err)
	}
	d.InputSchema = v.Raw()
	none := []abi.YieldKind{}
	spec := &abi.ToolSpec{
		Name: d.Name, Description: abi.Description{Short: d.Description}, Parameters: d.InputSchema, Kind: d.Kind.Blade(),
		SideEffect: d.SideEffect, Verify: d.Kind == KindVerify, Yields: &none,
	}
	if err := tool.CheckSpec(spec); err != nil {
		return bad(err)
	}
	return &Tool{def: d, schema: v, spec: spec}, nil
}

// Name is the tool's name.
func (t *Tool) Name() string { return t.def.Name }

// Kind is the tool's kind.
func (t *Tool) Kind() Kind { return t.def.Kind }

// Run validates the input and calls the handler. Its error is an *Error: the
// handler is not called for an input that does not fit. A verify tool fails also
// when it returns an object whose own member ok is false; for other kinds that
// is data.
func (t *Tool) Run(ctx context.Context, input json.RawMessage, tc ToolContext) (json.RawMessage, error) {
	in, err := t.check(input)
	if err != nil {
		return nil, err
	}
	tc.Step = cut(tc.Step)
	out, err := t.call(ctx, in, tc)
	if err != nil {
		return nil, t.failed(ctx, err)
	}
	if t.def.Kind == KindVerify && saysNo(out) {
		return nil, &Error{Code: CodeVerifyFailed, Message: fmt.Sprintf("%s: the verification failed", t.def.Name), Details: out}
	}
	return out, nil
}

func (t *Tool) check(input json.RawMessage) (json.RawMessage, error) {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	in, issues, err := t.schema.Prepare(input)
	if err != nil {
		return nil, &Error{Code: CodeInputInvalid, Message: fmt.Sprintf("the input of %s cannot be read: %v", t.def.Name, err), cause: err}
	}
	if len(issues) > 0 {
		e := tool.InvalidIssues(abi.CodeValidation, fmt.Sprintf("the input of %s does not fit its schema:", t.def.Name), issues)
		return nil, &Error{Code: CodeInputInvalid, Message: e.Message, Details: e.Details, cause: e}
	}
	return in, nil
}

// call makes a panic of the handler and a value without a JSON form errors.
func (t *Tool) call(ctx context.Context, in json.RawMessage, tc ToolContext) (out json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = abi.NewError(abi.CodeToolPanic, "the handler panicked: %v", p)
		}
	}()
	v, err := t.def.Handler(ctx, append(json.RawMessage(nil), in...), tc)
	if err != nil {
		return nil, err
	}
	return strictjson.Encode(v)
}

func (t *Tool) failed(ctx context.Context, err error) *Error {
	code := CodeFailed
	if ctx.Err() != nil {
		code = CodeCancelled
		if tool.Reason(ctx) == abi.CancelDeadline {
			code = CodeTimeout
		}
	}
	return &Error{Code: code, Message: fmt.Sprintf("%s: %v", t.def.Name, err), cause: err}
}

// saysNo reports whether v is an object whose own member ok is exactly false.
func saysNo(v json.RawMessage) bool {
	var obj map[string]json.RawMessage
	return json.Unmarshal(v, &obj) == nil && string(obj["ok"]) == "false"
}

func cut(step string) string {
	units := 0
	for i, r := range step {
		n := 1
		if r > 0xffff {
			n = 2
		}
		if units += n; units > abi.MaxStep {
			return step[:i]
		}
	}
	return step
}

// ToOpenAI is the tool as a function object of the chat completions API.
func (t *Tool) ToOpenAI() json.RawMessage {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	b, err := abi.Marshal(struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{"function", function{t.def.Name, t.def.Description, t.def.InputSchema}})
	if err != nil { // the schema was compiled, so all parts have a JSON form
		panic(err)
	}
	return b
}

// Blade is the same tool for a session. A failed verification is an error result
// with the code verify_failed whose model content is what the tool returned.
func (t *Tool) Blade() tool.Tool { return bladeTool{t} }

type bladeTool struct{ t *Tool }

func (b bladeTool) Spec() *abi.ToolSpec { return b.t.spec }

func (b bladeTool) Execute(ctx context.Context, call *tool.Call) (*abi.Result, error) {
	out, err := b.t.Run(ctx, call.Input, ToolContext{Step: call.Step()})
	if err == nil {
		return abi.Success(out), nil
	}
	var e *Error
	if !errors.As(err, &e) {
		return nil, err
	}
	if e.Code == CodeVerifyFailed {
		r := abi.Failure(&abi.Error{Message: e.Message, Type: abi.TypeExecution, Code: abi.Code(CodeVerifyFailed), Details: e.Details})
		r.Model = e.Details
		return r, nil
	}
	if e.cause != nil {
		return nil, e.cause
	}
	return nil, e
}

// RemoteToolSpec declares a tool that a tool gateway runs.
type RemoteToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Kind        Kind            `json:"kind,omitempty"`
}

// McpToolSpec declares a tool of a registered MCP server.
type McpToolSpec struct {
	Name     string `json:"name"`
	ServerID string `json:"serverId"`
	// Tool is its name on the server; empty means Name.
	Tool        string          `json:"tool,omitempty"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Kind        Kind            `json:"kind,omitempty"`
}
