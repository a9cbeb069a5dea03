package tool

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

// Behavior is what a call does, as permissions, scheduling and recovery see it.
// The fields are independent: none is derived from another, except for the
// defaults of ReadOnly and ConcurrencySafe.
type Behavior struct {
	Kind            abi.Kind              `json:"kind"`
	SideEffect      abi.SideEffect        `json:"sideEffect"`
	ReadOnly        bool                  `json:"isReadOnly"`
	ConcurrencySafe bool                  `json:"isConcurrencySafe"`
	Destructive     bool                  `json:"isDestructive"`
	Interrupt       abi.InterruptBehavior `json:"interruptBehavior"`
}

// Partial is what a resolver says about one input. A zero or nil field says
// nothing.
type Partial struct {
	Kind            abi.Kind
	SideEffect      abi.SideEffect
	ReadOnly        *bool
	ConcurrencySafe *bool
	Destructive     *bool
	Interrupt       abi.InterruptBehavior
}

// Static is the behaviour a definition declares, with the defaults in place.
func Static(s *abi.ToolSpec) Behavior {
	b := Behavior{
		Kind:        orKind(s.Kind, abi.KindExecute),
		SideEffect:  s.SideEffect,
		Interrupt:   s.Interrupt,
		Destructive: s.Destructive,
	}
	if b.SideEffect == "" {
		b.SideEffect = abi.SideEffectNonIdempotent
	}
	if b.Interrupt == "" {
		b.Interrupt = abi.InterruptBlock
	}
	b.ReadOnly = deref(s.ReadOnly, b.Kind == abi.KindReadOnly)
	b.ConcurrencySafe = deref(s.ConcurrencySafe, b.Kind == abi.KindReadOnly)
	return b
}

// Resolve is the behaviour of one input, or without an input the one to plan
// with. The definition's narrowing table counts first, then the tool's own
// resolver. Each may only make the call safer; what would widen it is ignored
// and counted in widened. A resolver that fails or panics leaves the static
// behaviour.
func Resolve(t Tool, input json.RawMessage) (b Behavior, widened int) {
	s := t.Spec()
	b = Static(s)
	if p, ok := tableEntry(s.Narrow, input); ok {
		return narrow(s, b, p)
	}
	r, ok := t.(BehaviorResolver)
	if !ok {
		return b, 0
	}
	p, err := safeResolve(r, input)
	if err != nil || (p.SideEffect != "" && !p.SideEffect.Valid()) || (p.Kind != "" && !p.Kind.Valid()) ||
		(p.Interrupt != "" && !p.Interrupt.Valid()) {
		return b, 0
	}
	return narrow(s, b, p)
}

func safeResolve(r BehaviorResolver, input json.RawMessage) (p Partial, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = abi.NewError(abi.CodeToolPanic, "the behaviour resolver panicked: %v", v)
		}
	}()
	return r.ResolveBehavior(bytes.Clone(input))
}

var kindRank = map[abi.Kind]int{abi.KindExecute: 0, abi.KindWrite: 1, abi.KindReadOnly: 2}

var effectRank = map[abi.SideEffect]int{abi.SideEffectNonIdempotent: 0, abi.SideEffectIdempotent: 1, abi.SideEffectPure: 2}

// narrow lays p over the static behaviour. Booleans that neither states follow
// from the new kind.
func narrow(s *abi.ToolSpec, b Behavior, p Partial) (Behavior, int) {
	widened := 0
	if p.Kind != "" && p.Kind != b.Kind {
		if kindRank[p.Kind] > kindRank[b.Kind] {
			b.Kind = p.Kind
			b.ReadOnly = deref(s.ReadOnly, b.Kind == abi.KindReadOnly)
			b.ConcurrencySafe = deref(s.ConcurrencySafe, b.Kind == abi.KindReadOnly)
		} else {
			widened++
		}
	}
	if p.SideEffect != "" && p.SideEffect != b.SideEffect {
		if effectRank[p.SideEffect] > effectRank[b.SideEffect] {
			b.SideEffect = p.SideEffect
		} else {
			widened++
		}
	}
	raise := func(have *bool, want *bool) {
		switch {
		case want == nil || *want == *have:
		case *want:
			*have = true
		default:
			widened++
		}
	}
	raise(&b.ReadOnly, p.ReadOnly)
	raise(&b.ConcurrencySafe, p.ConcurrencySafe)
	raise(&b.Destructive, p.Destructive)
	if p.Interrupt != "" && p.Interrupt != b.Interrupt {
		if p.Interrupt == abi.InterruptBlock {
			b.Interrupt = p.Interrupt
		} else {
			widened++
		}
	}
	return b, widened
}

// tableEntry is the first entry of the manifest's narrowing table that matches
// the input. An entry without a condition never matches.
func tableEntry(table []abi.Narrowing, input json.RawMessage) (Partial, bool) {
	if len(table) == 0 || len(input) == 0 {
		return Partial{}, false
	}
	doc, err := strictjson.Value(input)
	if err != nil {
		return Partial{}, false
	}
	for _, n := range table {
		if len(n.When) > 0 && matches(doc, n.When) {
			return Partial{Kind: n.Kind, SideEffect: n.SideEffect}, true
		}
	}
	return Partial{}, false
}

func matches(doc any, when map[string][]json.RawMessage) bool {
	for ptr, literals := range when {
		v, ok := Pointer(doc, ptr)
		if !ok {
			return false
		}
		have, err := abi.Marshal(v)
		if err != nil || !oneOf(have, literals) {
			return false
		}
	}
	return true
}

func oneOf(have json.RawMessage, literals []json.RawMessage) bool {
	have, err := strictjson.Canonical(have)
	if err != nil {
		return false
	}
	for _, l := range literals {
		if want, err := strictjson.Canonical(l); err == nil && bytes.Equal(have, want) {
			return true
		}
	}
	return false
}

// Pointer follows a JSON Pointer (RFC 6901) through a decoded document and
// reports whether it leads to a value.
func Pointer(doc any, ptr string) (any, bool) {
	if ptr == "" {
		return doc, true
	}
	if ptr[0] != '/' {
		return nil, false
	}
	for part := range strings.SplitSeq(ptr[1:], "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch v := doc.(type) {
		case map[string]any:
			x, ok := v[part]
			if !ok {
				return nil, false
			}
			doc = x
		case []any:
			i, err := strconv.ParseUint(part, 10, 31) // digits only: no sign
			if err != nil || i >= uint64(len(v)) || (part != "0" && part[0] == '0') {
				return nil, false
			}
			doc = v[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

func orKind(k, or abi.Kind) abi.Kind {
	if k == "" {
		return or
	}
	return k
}

func deref(p *bool, or bool) bool {
	if p == nil {
		return or
	}
	return *p
}
