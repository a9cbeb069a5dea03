package host

import (
	"encoding/json"
	"strings"
	"unicode/utf16"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// Repair mends a model's arguments in one known way. Apply returns nil where
// there is nothing to mend.
type Repair struct {
	Name  string
	Apply func(toolName string, input json.RawMessage) json.RawMessage

	// own says that it is our own code, which needs neither a copy nor a guard.
	own bool
}

// DefaultRepairs is the one repair that is on by default: a member "todos" that
// is a text of JSON becomes that JSON.
func DefaultRepairs() []Repair {
	return []Repair{{Name: "todos-string", own: true, Apply: func(_ string, input json.RawMessage) json.RawMessage {
		if !strings.Contains(string(input), `"todos"`) {
			return nil
		}
		var obj map[string]json.RawMessage
		var text string
		if json.Unmarshal(input, &obj) != nil || json.Unmarshal(obj["todos"], &text) != nil || strictjson.Check([]byte(text)) != nil {
			return nil
		}
		obj["todos"] = json.RawMessage(text)
		out, err := abi.Marshal(obj)
		if err != nil {
			return nil
		}
		return out
	}}}
}

// maxArguments bounds the raw text of a model; a program's input may be as large
// as the ABI's.
const maxArguments = 4 << 20

// parse makes the input of the raw arguments and finds the tool. What is no JSON
// object ends the call without ever being scheduled.
func (r *run) parse() {
	c := &r.call
	raw, limit := c.Input, abi.MaxInput
	if raw == nil {
		raw, limit = json.RawMessage(c.Arguments), maxArguments
	}
	if strings.TrimSpace(string(raw)) == "" {
		raw = json.RawMessage("{}")
	}
	r.entry, _ = r.s.reg.Load().lookup(c.Tool)
	if len(raw) > limit {
		r.modelInput = abi.String(clip(string(raw)))
		r.fail(abi.NewError(abi.CodeArgumentsInvalid, "the arguments have %d bytes, at most %d are allowed", len(raw), limit))
		return
	}
	if err := strictjson.CheckObject(raw); err != nil {
		r.modelInput = abi.String(clip(string(raw)))
		r.fail(abi.NewError(abi.CodeArgumentsInvalid, "the arguments of %s must be one JSON object: %v", c.Tool, err))
		return
	}
	r.modelInput, r.input = raw, raw
	for _, rep := range r.s.opt.Repairs {
		if out := r.repaired(rep); out != nil {
			r.input = out
			r.s.h.log.Info("the arguments were repaired", "repair", rep.Name, "call", c.ID)
		}
	}
	if r.stopped() { // it was never dispatched, so it is not recorded
		return
	}
	if r.lendOnce(); r.result != nil {
		return
	}
	r.scheduled = true
	c.Step = cutUTF16(c.Step, abi.MaxStep)
	r.behavior = tool.Behavior{Kind: abi.KindExecute, SideEffect: abi.SideEffectNonIdempotent, Interrupt: abi.InterruptCancel}
	if r.entry != nil {
		r.refresh()
	}
	r.s.mu.Lock() // Steer reads it
	r.interrupt = r.behavior.Interrupt
	r.s.mu.Unlock()
	mode, err := policy.ParseMode(string(c.Mode))
	if err != nil {
		r.fail(abi.AsError(err))
		return
	}
	if r.mode = mode; c.Mode == "" {
		r.mode = r.s.Mode()
	}
	if c.Timeout != 0 {
		if err := checkTimeout("the call's timeout", c.Timeout); err != nil {
			r.fail(abi.AsError(err))
		}
	}
}

// repaired is the input as a repair makes it, or nil.
func (r *run) repaired(rep Repair) json.RawMessage {
	if rep.own {
		return rep.Apply(r.canonical(), r.input)
	}
	out, err := guarded(func() (json.RawMessage, error) { return rep.Apply(r.canonical(), cloneRaw(r.input)), nil })
	if err != nil {
		return nil
	}
	return out
}

// cutUTF16 cuts s after n UTF-16 code units, never inside a surrogate pair.
func cutUTF16(s string, n int) string {
	if len(s) <= n {
		return s
	}
	units := 0
	for i, c := range s {
		if units += utf16.RuneLen(max(c, 0)); units > n {
			return s[:i]
		}
	}
	return s
}

// utf16Len counts the UTF-16 code units of s.
func utf16Len(s string) int {
	n := 0
	for _, c := range s {
		n += utf16.RuneLen(c)
	}
	return n
}
