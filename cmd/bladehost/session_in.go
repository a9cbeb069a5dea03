package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// maxLine bounds one line of input, in bytes.
const maxLine = 16 << 20

// maxCallID bounds the id of a call: each is remembered for the whole session.
const maxCallID = 1024

var errLongLine = errors.New("the line is too long")

// readLine returns the next line without its end. A line that is too long is
// skipped whole and reported.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxLine+1 {
			line, long = nil, true
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && err != io.EOF:
			return nil, err
		case long:
			return nil, errLongLine
		case err == io.EOF && len(line) == 0:
			return nil, io.EOF
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

// inLine is any line of input. Which members a type has is checked by name.
type inLine struct {
	Type string          `json:"type"`
	Ref  json.RawMessage `json:"ref"`

	callFields
	Calls []callFields `json:"calls"`

	Reason    string `json:"reason"`
	RequestID string `json:"requestId"`

	Approved   bool                       `json:"approved"`
	Scope      string                     `json:"scope"`
	TargetMode string                     `json:"targetMode"`
	Feedback   string                     `json:"feedback"`
	Answers    map[string]json.RawMessage `json:"answers"`

	Priority string `json:"priority"`
	InputID  string `json:"inputId"`
	Mode     string `json:"mode"`

	Value json.RawMessage `json:"value"`
	Error *serviceFailure `json:"error"`
}

type serviceFailure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type callFields struct {
	ID             string          `json:"id"`
	Tool           string          `json:"tool"`
	Input          json.RawMessage `json:"input"`
	Arguments      *string         `json:"arguments"`
	PermissionMode string          `json:"permissionMode"`
	MessageID      string          `json:"messageId"`
	TurnID         string          `json:"turnId"`
	Step           json.RawMessage `json:"step"`
	TimeoutMs      json.RawMessage `json:"timeoutMs"`
}

var callMembers = []string{"id", "tool", "input", "arguments", "permissionMode", "messageId", "turnId", "step", "timeoutMs"}

// lineMembers are the members of each type beside type and ref; those in need
// must be there.
var lineMembers = map[string]struct{ need, may []string }{
	"call":           {[]string{"id", "tool"}, callMembers},
	"calls":          {[]string{"calls"}, []string{"turnId"}},
	"cancel":         {[]string{"id"}, []string{"reason"}},
	"confirm":        {[]string{"requestId", "approved"}, []string{"scope", "reason", "targetMode", "feedback", "answers"}},
	"steer":          {[]string{"inputId"}, []string{"priority"}},
	"turn_end":       {nil, []string{"turnId"}},
	"mode":           {[]string{"mode"}, nil},
	"tools":          {nil, nil},
	"abort":          {nil, []string{"reason"}},
	"close":          {nil, nil},
	"service_result": {[]string{"requestId"}, []string{"value", "error"}},
}

// parseLine reads a line. The error line it comes with names what can be named.
func parseLine(b []byte) (*inLine, *abi.Error) {
	raw, err := host.StrictObject(b)
	if err != nil {
		return &inLine{}, abi.NewError(abi.CodeArgumentsInvalid, "the line is no JSON object: %v", err)
	}
	l := &inLine{Ref: raw["ref"]}
	_ = json.Unmarshal(raw["id"], &l.ID) // only for the error line
	var kind string
	if json.Unmarshal(raw["type"], &kind) != nil {
		return l, abi.NewError(abi.CodeArgumentsInvalid, `the line has no type; write {"type":"call",…}`)
	}
	members, ok := lineMembers[kind]
	if !ok {
		return l, abi.NewError(abi.CodeArgumentsInvalid, "the type %q is not known", clip(kind))
	}
	for _, k := range sortedKeys(raw) {
		if k != "type" && k != "ref" && !contains(members.need, k) && !contains(members.may, k) {
			return l, abi.NewError(abi.CodeArgumentsInvalid, "a line of type %s has no member %q", kind, clip(k))
		}
	}
	for _, k := range members.need {
		if _, ok := raw[k]; !ok {
			return l, abi.NewError(abi.CodeArgumentsInvalid, "a line of type %s needs the member %q", kind, k)
		}
	}
	if bad := checkCalls(raw["calls"]); bad != nil {
		return l, bad
	}
	if err := json.Unmarshal(b, l); err != nil {
		return l, abi.NewError(abi.CodeArgumentsInvalid, "the line of type %s: %v", kind, err)
	}
	return l, nil
}

// checkCalls checks the members of the calls inside a line.
func checkCalls(raw json.RawMessage) *abi.Error {
	if raw == nil {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		return abi.NewError(abi.CodeArgumentsInvalid, "calls is no array")
	}
	for i, c := range list {
		var m map[string]json.RawMessage
		if json.Unmarshal(c, &m) != nil || m == nil {
			return abi.NewError(abi.CodeArgumentsInvalid, "call %d is no object", i)
		}
		for _, k := range sortedKeys(m) {
			if !contains(callMembers, k) {
				return abi.NewError(abi.CodeArgumentsInvalid, "call %d has no member %q", i, clip(k))
			}
		}
	}
	return nil
}

func clip(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// call makes a call of a line's members.
func (c callFields) call(turnID string) (host.Call, *abi.Error) {
	out := host.Call{ID: c.ID, Tool: c.Tool, Input: c.Input, MessageID: c.MessageID, TurnID: c.TurnID}
	if out.TurnID == "" {
		out.TurnID = turnID
	}
	if c.ID == "" || c.Tool == "" {
		return out, abi.NewError(abi.CodeArgumentsInvalid, "a call needs an id and a tool")
	}
	if len(c.ID) > maxCallID {
		return out, abi.NewError(abi.CodeArgumentsInvalid, "the id of a call has %d bytes, at most %d are allowed", len(c.ID), maxCallID)
	}
	if c.Input != nil && c.Arguments != nil {
		return out, abi.NewError(abi.CodeArgumentsInvalid, "the call %s has both input and arguments; give one", clip(c.ID))
	}
	if c.Arguments != nil {
		out.Arguments = *c.Arguments
	}
	step, err := stepText(c.Step)
	if err != nil {
		return out, abi.NewError(abi.CodeArgumentsInvalid, "the step of the call %s: %v", clip(c.ID), err)
	}
	out.Step = step
	if c.PermissionMode != "" {
		mode, err := policy.ParseMode(c.PermissionMode)
		if err != nil {
			return out, abi.AsError(err)
		}
		out.Mode = mode
	}
	if c.TimeoutMs != nil {
		d, err := host.ToolTimeoutMs(string(c.TimeoutMs))
		if err != nil {
			return out, abi.AsError(err)
		}
		out.Timeout = d.Truncate(time.Millisecond)
	}
	return out, nil
}

// stepText is a text, or a number as its digits.
func stepText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, nil
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String(), nil
	}
	return "", errors.New("it must be a text or a number")
}

func (l *inLine) answer() tool.ConfirmationAnswer {
	return tool.ConfirmationAnswer{Approved: l.Approved, Reason: l.Reason, Scope: l.Scope, TargetMode: l.TargetMode, Feedback: l.Feedback, Answers: l.Answers}
}
