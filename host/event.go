package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

// EventType names an event of the session stream.
type EventType string

// Event types. The session publishes the tool events and input_applied; the
// others are the agent loop's, and are here so that one decoder reads a whole
// stream.
const (
	EventToolUse               EventType = "tool_use"
	EventToolProgress          EventType = "tool_progress"
	EventToolMessage           EventType = "tool_message"
	EventToolRuntimePatch      EventType = "tool_runtime_patch"
	EventToolContextPatch      EventType = "tool_context_patch"
	EventToolNewMessages       EventType = "tool_new_messages"
	EventToolPermissionUpdates EventType = "tool_permission_updates"
	EventToolResult            EventType = "tool_result"
	EventTurnStart             EventType = "turn_start"
	EventTurnEnd               EventType = "turn_end"
	EventTurnInterrupted       EventType = "turn_interrupted"
	EventInputApplied          EventType = "input_applied"
	EventContent               EventType = "content"
	EventThinking              EventType = "thinking"
	EventUsage                 EventType = "usage"
	EventResult                EventType = "result"
	EventError                 EventType = "error"
)

// Event is one event of the session stream. Only the fields of its type are set.
type Event struct {
	Type      EventType `json:"type"`
	SessionID string    `json:"sessionId"`
	// ID is the tool call's, Name the name the model used.
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`

	Input    json.RawMessage   `json:"input,omitempty"`
	Progress *abi.Yield        `json:"progress,omitempty"`
	Patch    json.RawMessage   `json:"patch,omitempty"`
	Messages []json.RawMessage `json:"messages,omitzero"`
	Updates  []json.RawMessage `json:"updates,omitzero"`
	Output   json.RawMessage   `json:"output,omitempty"`
	Display  *abi.Display      `json:"display,omitempty"`
	IsError  bool              `json:"isError,omitempty"`

	// Of an extended tool_result only.
	Status   abi.Status      `json:"status,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Error    json.RawMessage `json:"error,omitempty"`
	Metadata map[string]any  `json:"metadata,omitempty"`

	// Content is {summary, detail?} in tool_message and text in result.
	Content   json.RawMessage `json:"content,omitempty"`
	Turn      *int            `json:"turn,omitempty"`
	InputID   string          `json:"inputId,omitempty"`
	RequestID string          `json:"requestId,omitempty"`
	Priority  string          `json:"priority,omitempty"`
	Delta     *string         `json:"delta,omitempty"`
	Usage     json.RawMessage `json:"usage,omitempty"`
	Subtype   string          `json:"subtype,omitempty"`
	Message   string          `json:"message,omitempty"`
	Code      string          `json:"code,omitempty"`

	// Notice marks progress that the host itself added, about an effect that it
	// refused: it is in no Execution's yields. It is not part of the JSON.
	Notice bool `json:"-"`
}

// MarshalJSON writes the members of the event's type; those it must have are there
// even where they are empty.
func (e Event) MarshalJSON() ([]byte, error) {
	type plain Event
	fields, empty := eventFields[e.Type], false
	text := func(key, v string) *string {
		required := fields[key].required
		empty = empty || required && v == ""
		if required || v != "" {
			return &v
		}
		return nil
	}
	full := struct {
		plain
		ID        *string `json:"id,omitempty"`
		Name      *string `json:"name,omitempty"`
		InputID   *string `json:"inputId,omitempty"`
		RequestID *string `json:"requestId,omitempty"`
		Subtype   *string `json:"subtype,omitempty"`
		Message   *string `json:"message,omitempty"`
	}{
		plain(e), text("id", e.ID), text("name", e.Name), text("inputId", e.InputID), text("requestId", e.RequestID),
		text("subtype", e.Subtype), text("message", e.Message),
	}
	if empty {
		return abi.Marshal(full)
	}
	return abi.Marshal(plain(e)) // in the order of the type
}

// own is a copy that shares nothing that can be changed, but for what is behind
// the values of Metadata.
func (e Event) own() Event {
	for _, raw := range []*json.RawMessage{&e.Input, &e.Patch, &e.Output, &e.Data, &e.Error, &e.Content, &e.Usage} {
		*raw = cloneRaw(*raw)
	}
	e.Messages, e.Updates, e.Metadata = cloneRaws(e.Messages), cloneRaws(e.Updates), maps.Clone(e.Metadata)
	if e.Progress != nil {
		p := *e.Progress
		p.Data = cloneRaw(p.Data)
		e.Progress = &p
	}
	if e.Display != nil {
		d := *e.Display
		d.Detail = cloneRaw(d.Detail)
		e.Display = &d
	}
	return e
}

func cloneRaws(list []json.RawMessage) []json.RawMessage {
	list = slices.Clone(list)
	for i := range list {
		list[i] = cloneRaw(list[i])
	}
	return list
}

// field says what a member of an event must be: its JSON kind ('"', '0', '{',
// '[', 't', or '*' for any), and whether it must be there.
type field struct {
	kind     byte
	required bool
}

var (
	toolFields = map[string]field{"id": {'"', true}, "name": {'"', true}}
	must       = func(k byte) field { return field{k, true} }
	may        = func(k byte) field { return field{k, false} }
)

// eventFields are the members of each type beside type and sessionId.
var eventFields = map[EventType]map[string]field{
	EventToolUse:               tooled(map[string]field{"input": must('*')}),
	EventToolProgress:          tooled(map[string]field{"progress": must('{')}),
	EventToolMessage:           tooled(map[string]field{"content": must('{')}),
	EventToolRuntimePatch:      tooled(map[string]field{"patch": must('{')}),
	EventToolContextPatch:      tooled(map[string]field{"patch": must('{')}),
	EventToolNewMessages:       tooled(map[string]field{"messages": must('[')}),
	EventToolPermissionUpdates: tooled(map[string]field{"updates": must('[')}),
	EventToolResult:            tooled(map[string]field{"output": must('*'), "display": may('{'), "isError": may('t')}),
	EventTurnStart:             {"turn": must('0')},
	EventTurnEnd:               {"turn": must('0')},
	EventTurnInterrupted:       {"inputId": must('"'), "requestId": must('"'), "turn": must('0')},
	EventInputApplied:          {"inputId": must('"'), "requestId": must('"'), "priority": must('"'), "turn": must('0')},
	EventContent:               {"delta": must('"')},
	EventThinking:              {"delta": must('"')},
	EventUsage:                 {"usage": must('{')},
	EventResult:                {"subtype": must('"'), "content": may('"'), "error": may('*')},
	EventError:                 {"message": must('"'), "code": may('"')},
}

// extendedFields are the further members of an extended tool_result.
var extendedFields = map[string]field{"status": must('"'), "data": may('*'), "error": may('{'), "metadata": may('{')}

func tooled(m map[string]field) map[string]field {
	for k, f := range toolFields {
		m[k] = f
	}
	return m
}

// DecodeEvent reads one event and refuses members that its type does not have,
// missing ones and wrong values. Extended allows the further members of an
// extended tool_result and then asks for them.
func DecodeEvent(b []byte, extended bool) (*Event, error) {
	var raw map[string]json.RawMessage
	if err := strictjson.CheckObject(b); err != nil {
		return nil, fmt.Errorf("the event is %w", err)
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, err
	}
	var e Event
	if err := strictjson.DecodeKnown(b, &e); err != nil {
		return nil, fmt.Errorf("the event: %w", err)
	}
	fields, ok := eventFields[e.Type]
	if !ok {
		return nil, fmt.Errorf("the event type %q is not known", clip(string(e.Type)))
	}
	if err := checkFields(raw, fields, extended && e.Type == EventToolResult); err != nil {
		return nil, fmt.Errorf("the event %s: %w", e.Type, err)
	}
	if err := checkValues(&e, raw); err != nil {
		return nil, fmt.Errorf("the event %s: %w", e.Type, err)
	}
	return &e, nil
}

func checkFields(raw map[string]json.RawMessage, fields map[string]field, extended bool) error {
	all := map[string]field{"type": must('"'), "sessionId": must('"')}
	for k, f := range fields {
		all[k] = f
	}
	if extended {
		for k, f := range extendedFields {
			all[k] = f
		}
	}
	var bad []string
	for k, v := range raw {
		f, ok := all[k]
		switch {
		case !ok:
			bad = append(bad, k+" is not a member of it")
		case !isKind(v, f.kind):
			bad = append(bad, k+" has the wrong type")
		}
	}
	for k, f := range all {
		if _, ok := raw[k]; f.required && !ok {
			bad = append(bad, k+" is missing")
		}
	}
	if len(bad) == 0 {
		return nil
	}
	sort.Strings(bad)
	return fmt.Errorf("%s", strings.Join(bad, ", "))
}

func isKind(v json.RawMessage, kind byte) bool {
	switch c := v[0]; kind {
	case '*':
		return true
	case 't':
		return c == 't' || c == 'f'
	case '0':
		return c == '-' || c >= '0' && c <= '9'
	default:
		return c == kind
	}
}

func checkValues(e *Event, raw map[string]json.RawMessage) error {
	if e.SessionID == "" {
		return errors.New("the sessionId is empty")
	}
	if e.Type == EventInputApplied && e.Priority != "now" && e.Priority != "next" {
		return fmt.Errorf("the priority is %q; now and next are known", clip(e.Priority))
	}
	if e.Type == EventToolProgress && e.Progress.Kind != abi.YieldProgress {
		return fmt.Errorf("it carries a yield of kind %q", clip(string(e.Progress.Kind)))
	}
	if e.Type == EventToolMessage {
		if err := strictjson.DecodeKnown(e.Content, new(abi.Display)); err != nil {
			return err
		}
	}
	if y := rawYield(e.Type, raw); y != nil {
		if _, issues := abi.ParseYield(mustJSON(y)); len(issues) > 0 {
			return fmt.Errorf("%s %s", issues[0].Pointer, issues[0].Message)
		}
	}
	if _, extended := raw["status"]; extended {
		return checkExtended(e)
	}
	return nil
}

// rawYield is the yield that an event tells of, as it stands, or nil.
func rawYield(t EventType, raw map[string]json.RawMessage) any {
	effect := func(typ abi.EffectType, key string) any {
		return map[string]any{"kind": abi.YieldEffect, "effect": map[string]any{"type": typ, key: raw[key]}}
	}
	switch t {
	case EventToolProgress:
		return raw["progress"]
	case EventToolMessage:
		return map[string]any{"kind": abi.YieldMessage, "content": raw["content"]}
	case EventToolContextPatch:
		return effect(abi.EffectContextPatch, "patch")
	case EventToolRuntimePatch:
		return effect(abi.EffectRuntimePatch, "patch")
	case EventToolNewMessages:
		return effect(abi.EffectNewMessages, "messages")
	case EventToolPermissionUpdates:
		return effect(abi.EffectPermissionUpdates, "updates")
	}
	return nil
}

// checkExtended holds an extended tool_result to what a result may be.
func checkExtended(e *Event) error {
	r := abi.Result{Status: e.Status, Model: e.Output, Data: e.Data}
	if e.Error != nil {
		r.Error = new(abi.Error)
		if err := strictjson.DecodeKnown(e.Error, r.Error); err != nil {
			return err
		}
		if r.Error.Message == "" {
			return errors.New("the error has no message")
		}
	}
	if why := r.Valid(); why != "" {
		return errors.New(why)
	}
	if e.IsError != r.IsError() {
		return fmt.Errorf("isError is %v, but the status is %s", e.IsError, e.Status)
	}
	return nil
}

// YieldEvent is the event of a yield, without the ids of its call.
func YieldEvent(y abi.Yield) (Event, bool) {
	switch {
	case y.Kind == abi.YieldProgress:
		return Event{Type: EventToolProgress, Progress: &y}, true
	case y.Kind == abi.YieldMessage:
		raw, err := abi.Marshal(y.Content)
		return Event{Type: EventToolMessage, Content: raw}, err == nil
	case y.Effect == nil:
		return Event{}, false
	}
	switch y.Effect.Type {
	case abi.EffectContextPatch:
		return Event{Type: EventToolContextPatch, Patch: y.Effect.Patch}, true
	case abi.EffectRuntimePatch:
		return Event{Type: EventToolRuntimePatch, Patch: y.Effect.Patch}, true
	case abi.EffectNewMessages:
		return Event{Type: EventToolNewMessages, Messages: y.Effect.Messages}, true
	case abi.EffectPermissionUpdates:
		return Event{Type: EventToolPermissionUpdates, Updates: y.Effect.Updates}, true
	}
	return Event{}, false
}

// resultEvent is the tool_result of a result.
func resultEvent(r *abi.Result, extended bool) Event {
	e := Event{Type: EventToolResult, Output: r.Model, Display: r.Display, IsError: r.IsError()}
	if !extended {
		return e
	}
	e.Status, e.Data, e.Metadata = r.Status, r.Data, r.Metadata
	if r.Error != nil {
		e.Error, _ = abi.Marshal(r.Error) // plain fields always have a JSON form
	}
	return e
}
