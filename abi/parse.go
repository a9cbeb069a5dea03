package abi

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// The functions in this file judge shapes. The bytes must be known to be strict
// JSON already (SPEC.md, "JSON"): names match exactly and the last of two equal
// keys is not looked for. Members without a meaning are ignored.

// ParseYield reads a yield, or says what is wrong with it. Whether the tool
// declared the kind and the effect is MayYield's and MayEffect's business.
func ParseYield(b []byte) (*Yield, []Issue) {
	o := open(b, "")
	y := &Yield{Kind: YieldKind(o.text("kind", true))}
	if len(o.v.issues) > 0 {
		return nil, o.v.issues
	}
	switch y.Kind {
	case YieldProgress:
		o.only("message", "data", "completed", "total", "resumeToken")
		y.Message, y.ResumeToken = o.text("message", false), o.text("resumeToken", false)
		y.Data = o.fields["data"]
		y.Completed, y.Total = o.amount("completed"), o.amount("total")
		if y.Completed != nil && y.Total != nil && *y.Completed > *y.Total {
			o.v.add("/completed", "is more than total")
		}
	case YieldMessage:
		o.only("content")
		y.Content = o.display("content", true)
	case YieldEffect:
		o.only("effect")
		y.Effect = o.effect()
	default:
		o.v.add("/kind", "%q must be progress, message or effect", clip(string(y.Kind)))
	}
	if len(o.v.issues) > 0 {
		return nil, o.v.issues
	}
	return y, nil
}

// Publish makes the result that a host publishes of what a guest handed to ret.
// What does not have the shape of its status becomes an error result with
// CodeResultShape, more than MaxResult bytes one with CodeResultTooBig, an
// unknown status one with CodeGuestProtocol.
func Publish(status int32, b []byte) *Result {
	if len(b) > MaxResult {
		return Failure(NewError(CodeResultTooBig, "the tool's result has %d bytes, at most %d are allowed", len(b), MaxResult))
	}
	switch status {
	case RetData:
		return Success(json.RawMessage(b))
	case RetResult:
		return publishExplicit(b)
	case RetError:
		return publishError(b)
	}
	return Failure(NewError(CodeGuestProtocol, "the guest called ret with the status %d, which does not exist", status))
}

func publishExplicit(b []byte) *Result {
	o := open(b, "")
	model, ok := o.fields["model"]
	if !ok {
		o.v.add("/model", "is missing")
	}
	r := &Result{Status: StatusSuccess, Model: model, Data: o.fields["data"], Display: o.display("display", false)}
	if raw, ok := o.has("metadata"); ok {
		for key, v := range o.child("metadata", raw).fields {
			if key == "summary" || strings.HasPrefix(key, "x-") {
				r.SetMeta(key, v)
			}
		}
	}
	return o.or("result", r)
}

func publishError(b []byte) *Result {
	o := open(b, "")
	e := &Error{Message: o.text("message", true), Type: ErrorType(o.text("type", false)), Code: Code(o.text("code", false)), Details: o.fields["details"]}
	if e.Message == "" {
		o.v.add("/message", "is empty")
	}
	if !e.Type.GuestMayUse() {
		e.Type = TypeExecution
	}
	if !ValidToolCode(string(e.Code)) {
		e.Code = ""
	}
	return o.or("error", Failure(e))
}

// object reads the members of a JSON object and collects what is wrong.
type object struct {
	at     string
	fields map[string]json.RawMessage
	v      *validator
}

func open(b []byte, at string) *object {
	o := &object{at: at, v: &validator{}}
	o.read(b)
	return o
}

func (o *object) read(b []byte) {
	if json.Unmarshal(b, &o.fields) != nil || o.fields == nil {
		o.v.add(o.at, "must be an object")
	}
}

// has is the member, where it is there and not null: null is the same as
// absent, because some languages write absent members so.
func (o *object) has(key string) (json.RawMessage, bool) {
	raw, ok := o.fields[key]
	return raw, ok && string(raw) != "null"
}

func (o *object) child(key string, b []byte) *object {
	c := &object{at: o.at + "/" + key, v: o.v}
	c.read(b)
	return c
}

// or is r, or the error result that says what is wrong.
func (o *object) or(what string, r *Result) *Result {
	if len(o.v.issues) == 0 {
		return r
	}
	first := o.v.issues[0]
	return Failure(NewError(CodeResultShape, "the tool's %s does not have the shape of the contract: %s %s", what, first.Pointer, first.Message).
		With(IssueDetails{o.v.issues}))
}

// only reports members that belong to another kind of yield.
func (o *object) only(keys ...string) {
	foreign := map[string]bool{"message": true, "data": true, "completed": true, "total": true, "resumeToken": true, "content": true, "effect": true}
	for _, k := range keys {
		delete(foreign, k)
	}
	for _, k := range []string{"message", "data", "completed", "total", "resumeToken", "content", "effect"} {
		if _, ok := o.has(k); ok && foreign[k] {
			o.v.add(o.at+"/"+k, "belongs to another kind of yield")
		}
	}
}

func (o *object) text(key string, required bool) string {
	raw, ok := o.has(key)
	if !ok {
		if required {
			o.v.add(o.at+"/"+key, "is missing")
		}
		return ""
	}
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		o.v.add(o.at+"/"+key, "must be a string")
	}
	return s
}

// amount is a number that is finite and not negative.
func (o *object) amount(key string) *float64 {
	raw, ok := o.has(key)
	if !ok {
		return nil
	}
	var n float64
	if json.Unmarshal(raw, &n) != nil || math.IsInf(n, 0) {
		o.v.add(o.at+"/"+key, "must be a number")
		return nil
	}
	if n < 0 {
		o.v.add(o.at+"/"+key, "must not be negative")
	}
	return &n
}

func (o *object) display(key string, required bool) *Display {
	raw, ok := o.has(key)
	if !ok {
		if required {
			o.v.add(o.at+"/"+key, "is missing")
		}
		return nil
	}
	c := o.child(key, raw)
	if c.fields == nil {
		return nil
	}
	return &Display{Summary: c.text("summary", true), Detail: c.fields["detail"]}
}

func (o *object) effect() *Effect {
	raw, ok := o.has("effect")
	if !ok {
		o.v.add(o.at+"/effect", "is missing")
		return nil
	}
	c := o.child("effect", raw)
	if c.fields == nil {
		return nil
	}
	e := &Effect{Type: EffectType(c.text("type", true))}
	switch e.Type {
	case EffectContextPatch, EffectRuntimePatch:
		e.Patch = c.patch(e.Type)
	case EffectNewMessages:
		e.Messages = c.objects("messages")
	case EffectPermissionUpdates:
		e.Updates = c.objects("updates")
	default:
		c.v.add(c.at+"/type", "%q must be contextPatch, runtimePatch, newMessages or permissionUpdates", clip(string(e.Type)))
	}
	return e
}

// patch holds a patch to its type's shape as far as bytes that are kept as they
// are need it.
func (o *object) patch(t EffectType) json.RawMessage {
	raw, ok := o.has("patch")
	if !ok {
		o.v.add(o.at+"/patch", "is missing")
		return nil
	}
	p := o.child("patch", raw)
	if p.fields == nil {
		return nil
	}
	if s := Scope(p.text("scope", false)); s != "" && s != ScopeTurn && s != ScopeSession {
		p.v.add(p.at+"/scope", "%q must be turn or session", clip(string(s)))
	}
	var err error
	if t == EffectContextPatch {
		err = json.Unmarshal(raw, new(ContextPatch))
	} else {
		switch p.text("source", true) {
		case "skill", "tool", "system", "":
		default:
			p.v.add(p.at+"/source", "must be skill, tool or system")
		}
		err = json.Unmarshal(raw, new(RuntimePatch))
	}
	if err != nil && len(o.v.issues) == 0 {
		o.v.add(p.at, "does not have the shape of a %s: %s", t, clip(err.Error()))
	}
	return raw
}

func (o *object) objects(key string) []json.RawMessage {
	raw, ok := o.has(key)
	if !ok {
		o.v.add(o.at+"/"+key, "is missing")
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		o.v.add(o.at+"/"+key, "must be an array")
		return nil
	}
	for i, item := range list {
		if !isObject(item) {
			o.v.add(fmt.Sprintf("%s/%s/%d", o.at, key, i), "must be an object")
		}
	}
	return list
}
