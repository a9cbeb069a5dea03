package journal_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
	. "github.com/bladehost/bladehost/host/journal/journaltest"
)

// step is a short name of an event: s scheduled, r/a/d/c requested, allowed,
// denied, cancelled, b begun, + completed, - failed, x cancelled by the request,
// X by a denial, C by a cancelled permission, u unknown, ) session closed.
func step(n string, c rune) journal.Draft {
	switch c {
	case '(':
		return Created()
	case ')':
		return Closed()
	case 's':
		return Scheduled(n, abi.SideEffectPure)
	case 'r':
		return Requested(n)
	case 'a':
		return Resolved(n, journal.DecisionAllow)
	case 'd':
		return Resolved(n, journal.DecisionDeny)
	case 'c':
		return Resolved(n, journal.DecisionCancel)
	case 'b':
		return Started(n, abi.SideEffectNonIdempotent)
	case '+':
		return Completed(n)
	case '-':
		return Failed(n)
	case 'x':
		return Cancelled(n, journal.ReasonInterrupted)
	case 'X':
		return Cancelled(n, journal.ReasonPermissionDenied)
	case 'C':
		return Cancelled(n, journal.ReasonPermissionCancelled)
	case 'u':
		return Unknown(n)
	}
	panic(c)
}

// DUR-09 DUR-10: what may follow what. The machine is tried whole: every word up
// to a length over all events, against a model of its own.
func TestStateMachine(t *testing.T) {
	const alphabet = "srabdc+-xXCu)"
	var walk func(word string, s journal.State, events []journal.Event)
	tried := 0
	walk = func(word string, s journal.State, events []journal.Event) {
		if len(word) == 7 {
			return
		}
		for _, c := range alphabet {
			next := word + string(c)
			if c == 's' && strings.ContainsAny(word, "+-xXC") {
				continue // the id of an attempt that has ended: the store refuses that
			}
			own := again(t, events)
			got := apply(&own, step("n", c))
			tried++
			if want := allowed(next); want != (got == nil) {
				t.Fatalf("%q: %v, want allowed %v", next, got, want)
			}
			if got == nil {
				walk(next, own, append(events[:len(events):len(events)], eventOf(step("n", c), int64(len(events)+1))))
			}
		}
	}
	walk("(", again(t, []journal.Event{eventOf(Created(), 1)}), []journal.Event{eventOf(Created(), 1)})
	if tried < 300 {
		t.Errorf("only %d words", tried)
	}
}

func eventOf(d journal.Draft, seq int64) journal.Event {
	list, _, err := journal.Prepare("s", []journal.Draft{d}, seq-1, time.Unix(0, 0))
	if err != nil {
		panic(err)
	}
	return list[0]
}

func apply(s *journal.State, d journal.Draft) error { return s.Apply(eventOf(d, s.Head+1)) }

func again(t *testing.T, events []journal.Event) (s journal.State) {
	t.Helper()
	for _, e := range events {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// allowed is the machine once more, as sentences over the word so far.
func allowed(word string) bool {
	w, last := word[1:len(word)-1], word[len(word)-1]
	has := func(c string) bool { return strings.ContainsAny(w, c) }
	if has(")") {
		return false
	}
	scheduled, over := has("s"), has("+-xXC")
	open := scheduled && !over
	pending := strings.Count(w, "r") > strings.Count(w, "a")+strings.Count(w, "d")+strings.Count(w, "c")
	denied, dropped := has("d"), has("c")
	refused := denied || dropped
	begun, unknown := has("b"), has("u")
	switch last {
	case ')':
		return !open
	case 's':
		return !open
	case 'r':
		return open && !begun && !pending && !refused && !has("a") // the same request id again
	case 'a', 'd', 'c':
		return open && pending
	case 'b':
		return open && !begun && !pending && !refused
	case 'u':
		return open && begun && !unknown
	case '+':
		return open && begun
	case '-', 'x':
		return open && !pending && !refused
	case 'X':
		return open && denied
	case 'C':
		return open && dropped
	}
	return false
}

// Details that the letters do not have.
func TestTransitionDetails(t *testing.T) {
	other := func(d journal.Draft, change func(*journal.Draft)) journal.Draft { change(&d); return d }
	for _, c := range []struct {
		name string
		list []journal.Draft
		ok   bool
	}{
		{"nothing before the session", []journal.Draft{Scheduled("a", abi.SideEffectPure)}, false},
		{"the session twice", []journal.Draft{Created(), Created()}, false},
		{"closed and not resumed", []journal.Draft{Created(), Closed(), Created()}, false},
		{"closed and resumed", []journal.Draft{Created(), Closed(), {Type: journal.SessionCreated, Data: json.RawMessage(`{"source":"resume"}`)}}, true},
		{"an unfinished attempt", []journal.Draft{Created(), Scheduled("a", abi.SideEffectPure), Closed()}, false},
		{"an unknown outcome", []journal.Draft{Created(), Scheduled("a", abi.SideEffectPure), Started("a", abi.SideEffectPure), Unknown("a"), Closed()}, false},
		{"another attempt", []journal.Draft{Created(), Scheduled("a", abi.SideEffectPure), Started("b", abi.SideEffectPure)}, false},
		{"another tool", []journal.Draft{Created(), Scheduled("a", abi.SideEffectPure), other(Started("a", abi.SideEffectPure), func(d *journal.Draft) {
			d.Data = json.RawMessage(`{"toolCallId":"call-a","toolName":"Other","input":{},"sideEffect":"pure"}`)
		})}, false},
		{"another turn", []journal.Draft{Created(), Scheduled("a", abi.SideEffectPure), other(Started("a", abi.SideEffectPure), func(d *journal.Draft) { d.TurnID = "t9" })}, false},
		{"another model attempt", []journal.Draft{Created(), Scheduled("a", abi.SideEffectPure), other(Started("a", abi.SideEffectPure), func(d *journal.Draft) { d.ModelAttemptID = "m9" })}, false},
		{"no model attempt", []journal.Draft{Created(), Scheduled("a", abi.SideEffectPure), other(Started("a", abi.SideEffectPure), func(d *journal.Draft) { d.ModelAttemptID = "" })}, true},
		{"another permission", []journal.Draft{Created(), Scheduled("a", abi.SideEffectPure), Requested("a"), other(Resolved("a", "allow"), func(d *journal.Draft) {
			d.Data = json.RawMessage(`{"permissionRequestId":"perm-z","decision":"allow"}`)
		})}, false},
		{"a second permission", []journal.Draft{Created(), Scheduled("a", abi.SideEffectPure), Requested("a"), Resolved("a", "allow"), other(Requested("a"), func(d *journal.Draft) {
			d.Data = json.RawMessage(`{"permissionRequestId":"perm-2","toolCallId":"call-a","toolName":"Tool","input":{}}`)
		})}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s journal.State
			var err error
			for i, d := range c.list {
				if err = apply(&s, d); err != nil && i < len(c.list)-1 {
					t.Fatalf("event %d: %v", i, err)
				}
			}
			if (err == nil) != c.ok {
				t.Errorf("%v", err)
			}
			if err != nil && abi.CodeOf(err) != abi.CodeTransition {
				t.Errorf("code %s", abi.CodeOf(err))
			}
		})
	}
	var s journal.State
	if err := s.Apply(eventOf(Created(), 2)); abi.CodeOf(err) != abi.CodeJournalCorrupt {
		t.Errorf("a gap: %v", err)
	}
}

// What a started attempt counts as is what the start says.
func TestAttemptTakesTheStart(t *testing.T) {
	s := again(t, []journal.Event{eventOf(Created(), 1), eventOf(Scheduled("a", abi.SideEffectPure), 2), eventOf(Started("a", abi.SideEffectNonIdempotent), 3)})
	a := s.Attempts()[0]
	if a.SideEffect != abi.SideEffectNonIdempotent || a.Status != journal.StatusStarted || a.Class() != journal.ClassUnknown || a.ToolName != "Tool" {
		t.Errorf("%+v", a)
	}
}

// DUR-13 DUR-14: the classes of the plan.
func TestClasses(t *testing.T) {
	started := func(e abi.SideEffect) []journal.Draft {
		return []journal.Draft{Scheduled("a", abi.SideEffectPure), Started("a", e)}
	}
	for _, c := range []struct {
		name   string
		list   []journal.Draft
		class  journal.Class
		action journal.Action
	}{
		{"scheduled", []journal.Draft{Scheduled("a", abi.SideEffectNonIdempotent)}, journal.ClassRetryable, journal.ActionResume},
		{"permission waits", []journal.Draft{Scheduled("a", abi.SideEffectNonIdempotent), Requested("a")}, journal.ClassPermission, journal.ActionPermissions},
		{"allowed", []journal.Draft{Scheduled("a", abi.SideEffectNonIdempotent), Requested("a"), Resolved("a", "allow")}, journal.ClassRetryable, journal.ActionResume},
		{"denied", []journal.Draft{Scheduled("a", abi.SideEffectNonIdempotent), Requested("a"), Resolved("a", "deny")}, journal.ClassCancelable, journal.ActionResume},
		{"cancelled", []journal.Draft{Scheduled("a", abi.SideEffectNonIdempotent), Requested("a"), Resolved("a", "cancel")}, journal.ClassCancelable, journal.ActionResume},
		{"started pure", started(abi.SideEffectPure), journal.ClassRetryable, journal.ActionResume},
		{"started idempotent", started(abi.SideEffectIdempotent), journal.ClassRetryable, journal.ActionResume},
		{"started non_idempotent", started(abi.SideEffectNonIdempotent), journal.ClassUnknown, journal.ActionReconcile},
		{"unknown non_idempotent", append(started(abi.SideEffectNonIdempotent), Unknown("a")), journal.ClassUnknown, journal.ActionReconcile},
		{"unknown pure", append(started(abi.SideEffectPure), Unknown("a")), journal.ClassRetryable, journal.ActionResume},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := memory(t, nil)
			if _, err := store.Append(t.Context(), "s", append([]journal.Draft{Created()}, c.list...), journal.AppendOptions{}); err != nil {
				t.Fatal(err)
			}
			p, err := journal.PlanOf(t.Context(), store, "s")
			if err != nil {
				t.Fatal(err)
			}
			all := append(append(append(append([]journal.Attempt{}, p.Unknown...), p.Permissions...), p.Retryable...), p.Cancelable...)
			if len(all) != 1 || all[0].Class() != c.class || p.Action != c.action {
				t.Errorf("%s: %+v", p.Action, p)
			}
		})
	}
	if _, err := journal.PlanOf(t.Context(), memory(t, nil), "none"); abi.CodeOf(err) != abi.CodeJournalMissing {
		t.Errorf("a plan of nothing: %v", err)
	}
}

// FuzzDecode: what is read as an event can be written and read again as the
// same, and its draft is one that a store takes.
func FuzzDecode(f *testing.F) {
	for i, d := range []journal.Draft{Created(), Scheduled("a", abi.SideEffectPure), Requested("a"), Resolved("a", "deny"), Started("a", abi.SideEffectPure), Completed("a"), Failed("a"), Cancelled("a", journal.ReasonCascade), Unknown("a"), Closed()} {
		b, err := eventOf(d, int64(i+1)).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"schemaVersion":3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := journal.Decode(b)
		if err != nil {
			if abi.CodeOf(err) != abi.CodeEvent {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := journal.Decode(again)
		if err != nil || fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", e) {
			t.Fatalf("%v\n%+v\n%+v", err, e, back)
		}
		if _, err := e.Draft().Check(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzState: whatever order events come in, applying them never panics, and what
// was refused changed nothing.
func FuzzState(f *testing.F) {
	f.Add("(srab+)")
	f.Add("(sssbbb+-u")
	f.Fuzz(func(t *testing.T, word string) {
		var s journal.State
		for i, c := range word {
			if !strings.ContainsRune("()srabdc+-xXCu", c) || i > 50 {
				return
			}
			text := func() string {
				raw, err := json.Marshal(s.Attempts())
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprintf("%s %d %s", raw, s.Head, s.Last)
			}
			before := text()
			if err := apply(&s, step("n", c)); err != nil {
				if after := text(); after != before {
					t.Fatalf("%q: %v changed\n%s\n%s", word, err, before, after)
				}
			}
		}
	})
}
