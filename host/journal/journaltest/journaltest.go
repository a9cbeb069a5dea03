// Package journaltest is the suite that every journal.Store passes, and what
// tests of journals share.
package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/tool"
)

// Open makes an empty store whose time of day is clock. It closes it at the end
// of the test.
type Open func(t *testing.T, clock func() time.Time) journal.Store

// Run holds a store to its contract.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"sequences", sequences},
		{"expected last", expectedLast},
		{"strictness", strictness},
		{"identity", identities},
		{"commands", commands},
		{"pages", pages},
		{"snapshot", snapshot},
		{"sessions", sessions},
		{"copies", copies},
		{"changed", changed},
		{"subscription", subscription},
		{"concurrency", concurrency},
		{"closed", closed},
		{"cancelled", cancelled},
		{"lease", lease},
		{"takeover", takeover},
		{"observed", observed},
		{"handoff", handoff},
		{"fencing", fencing},
		{"operation", operation},
		{"lease options", leaseOptions},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

// Clock is a time of day that a test sets.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock starts at a fixed day.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)} }

// Now is the time.
func (c *Clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

// Add moves it, back too.
func (c *Clock) Add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

// WantCode fails the test unless err has the code.
func WantCode(t *testing.T, err error, code abi.Code) {
	t.Helper()
	if abi.CodeOf(err) != code {
		t.Fatalf("the error is %v (%s), want %s", err, abi.CodeOf(err), code)
	}
}

func must(t *testing.T, s journal.Store, session string, drafts ...journal.Draft) []journal.Event {
	t.Helper()
	events, err := s.Append(t.Context(), session, drafts, journal.AppendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// All reads a session to its end.
func All(t *testing.T, s journal.Store, session string) []journal.Event {
	t.Helper()
	var out []journal.Event
	for after := int64(0); ; {
		p, err := s.Read(t.Context(), session, journal.ReadOptions{After: after})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p.Events...)
		if after = p.Next; !p.HasMore {
			return out
		}
	}
}

// DUR-01: sequences start at 1 and have no gaps, batches are atomic.
func sequences(t *testing.T, open Open) {
	clock := NewClock()
	s := open(t, clock.Now)
	if n, err := s.Head(t.Context(), "s"); n != 0 || err != nil {
		t.Fatalf("head of nothing: %d %v", n, err)
	}
	first := must(t, s, "s", Created(), Scheduled("a", abi.SideEffectPure))
	clock.Add(time.Second)
	late := Started("a", abi.SideEffectPure)
	late.OccurredAt = clock.Now().Add(-time.Hour)
	must(t, s, "s", late)
	must(t, s, "other", Created())
	bad := Scheduled("b", "no such effect")
	if _, err := s.Append(t.Context(), "s", []journal.Draft{Completed("a"), bad}, journal.AppendOptions{}); abi.CodeOf(err) != abi.CodeEvent {
		t.Fatalf("a batch with a bad event: %v", err)
	}
	list := All(t, s, "s")
	if len(list) != 3 || list[0].EventID != first[0].EventID {
		t.Fatalf("%d events", len(list))
	}
	ids := map[string]bool{}
	for i, e := range list {
		if e.Sequence != int64(i+1) || e.SessionID != "s" || e.SchemaVersion != 4 || ids[e.EventID] || e.EventID == "" {
			t.Errorf("event %d is %+v", i, e)
		}
		ids[e.EventID] = true
	}
	if list[0].RecordedAt != "2026-03-04T05:06:07.008Z" || list[0].OccurredAt != list[0].RecordedAt {
		t.Errorf("times %s %s", list[0].RecordedAt, list[0].OccurredAt)
	}
	if list[2].RecordedAt != "2026-03-04T05:06:08.008Z" || list[2].OccurredAt != "2026-03-04T04:06:08.008Z" {
		t.Errorf("times %s %s", list[2].RecordedAt, list[2].OccurredAt)
	}
}

// DUR-02: what the expected last sequence means, and what a conflict tells.
func expectedLast(t *testing.T, open Open) {
	s := open(t, time.Now)
	at := func(n int64) journal.AppendOptions { return journal.AppendOptions{ExpectedLast: &n} }
	for _, c := range []struct {
		name string
		opt  journal.AppendOptions
		ok   bool
		have int64
	}{
		{"empty is expected and is", at(0), true, 0},
		{"empty is expected and is not", at(0), false, 1},
		{"nothing is expected", journal.AppendOptions{}, true, 1},
		{"the head is expected", at(2), true, 2},
		{"less is expected", at(2), false, 3},
		{"more is expected", at(9), false, 3},
		{"negative", at(-1), false, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.Append(t.Context(), "s", []journal.Draft{Created()}, c.opt)
			if c.ok {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			WantCode(t, err, abi.CodeSequence)
			var d struct{ Expected, Actual int64 }
			if json.Unmarshal(abi.AsError(err).Details, &d) != nil || d.Expected != *c.opt.ExpectedLast || d.Actual != c.have {
				t.Errorf("details %s", abi.AsError(err).Details)
			}
		})
	}
	if n, _ := s.Head(t.Context(), "s"); n != 3 {
		t.Errorf("head %d", n)
	}
}

// DUR-03: what has not the shape of its type is refused before anything is
// written.
func strictness(t *testing.T, open Open) {
	s := open(t, time.Now)
	for name, d := range Bad() {
		t.Run(name, func(t *testing.T) {
			_, err := s.Append(t.Context(), "s", []journal.Draft{d}, journal.AppendOptions{})
			WantCode(t, err, abi.CodeEvent)
		})
	}
	_, err := s.Append(t.Context(), "s", nil, journal.AppendOptions{})
	WantCode(t, err, abi.CodeEvent)
	_, err = s.Append(t.Context(), "", []journal.Draft{Created()}, journal.AppendOptions{})
	WantCode(t, err, abi.CodeEvent)
	list, err := s.Sessions(t.Context(), "", 10)
	if err != nil || len(list) != 0 {
		t.Errorf("refused events left %v %v", list, err)
	}
}

func identities(t *testing.T, open Open) {
	s := open(t, time.Now)
	must(t, s, "s", Created(), Scheduled("a", abi.SideEffectPure), Requested("a"), Resolved("a", "allow"))
	again := Scheduled("b", abi.SideEffectPure)
	again.Data = Scheduled("a", abi.SideEffectPure).Data
	for name, d := range map[string]journal.Draft{"attempt": Scheduled("a", abi.SideEffectPure), "call in the turn": again, "permission": Requested("a")} {
		_, err := s.Append(t.Context(), "s", []journal.Draft{d}, journal.AppendOptions{})
		if abi.CodeOf(err) != abi.CodeReused {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := s.Append(t.Context(), "s", []journal.Draft{Scheduled("c", abi.SideEffectPure), Scheduled("c", abi.SideEffectPure)}, journal.AppendOptions{})
	WantCode(t, err, abi.CodeReused)
	again.TurnID = "t2" // the same call id in another turn is another call
	must(t, s, "s", again)
	must(t, s, "s2", Created(), Scheduled("a", abi.SideEffectPure))
	if n := len(All(t, s, "s")); n != 5 {
		t.Errorf("%d events", n)
	}
}

func commands(t *testing.T, open Open) {
	s := open(t, time.Now)
	cmd := func(id string, list ...journal.Draft) []journal.Draft {
		for i := range list {
			list[i].CommandID = id
		}
		return list
	}
	must(t, s, "s", Created())
	must(t, s, "s", cmd("c1", Scheduled("a", abi.SideEffectPure), Started("a", abi.SideEffectPure))...)
	must(t, s, "s", Completed("a"))
	list, err := s.Command(t.Context(), "s", "c1")
	if err != nil || len(list) != 2 || list[0].Sequence != 2 || list[1].Sequence != 3 || list[1].CommandID != "c1" {
		t.Fatalf("%v %v", list, err)
	}
	_, err = s.Append(t.Context(), "s", cmd("c1", Scheduled("b", abi.SideEffectPure)), journal.AppendOptions{})
	WantCode(t, err, abi.CodeCommand)
	_, err = s.Append(t.Context(), "s", append(cmd("c2", Scheduled("b", abi.SideEffectPure)), cmd("c3", Started("b", abi.SideEffectPure))...), journal.AppendOptions{})
	WantCode(t, err, abi.CodeEvent)
	for _, id := range []string{"c2", "c3", ""} {
		if list, err := s.Command(t.Context(), "s", id); err != nil || len(list) != 0 {
			t.Errorf("command %q: %v %v", id, list, err)
		}
	}
	if list, err := s.Command(t.Context(), "none", "c1"); err != nil || len(list) != 0 {
		t.Errorf("another session: %v %v", list, err)
	}
	att, err := s.Attempt(t.Context(), "s", "a")
	if err != nil || len(att) != 3 || att[2].Type != journal.ToolCompleted {
		t.Errorf("attempt %v %v", att, err)
	}
}

func pages(t *testing.T, open Open) {
	s := open(t, time.Now)
	must(t, s, "s", Created())
	for i := range 9 {
		must(t, s, "s", Scheduled(fmt.Sprint(i), abi.SideEffectPure))
	}
	for _, c := range []struct {
		name         string
		after        int64
		limit        int
		n            int
		first, next  int64
		more, refuse bool
	}{
		{"first page", 0, 4, 4, 1, 4, true, false},
		{"middle", 4, 4, 4, 5, 8, true, false},
		{"last", 8, 4, 2, 9, 10, false, false},
		{"exact", 5, 5, 5, 6, 10, false, false},
		{"at the end", 10, 5, 0, 0, 10, false, false},
		{"default", 0, 0, 10, 1, 10, false, false},
		{"beyond the end", 11, 5, 0, 0, 0, false, true},
		{"negative", -1, 5, 0, 0, 0, false, true},
		{"too many", 0, 1001, 0, 0, 0, false, true},
		{"less than none", 0, -1, 0, 0, 0, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := s.Read(t.Context(), "s", journal.ReadOptions{After: c.after, Limit: c.limit})
			if c.refuse {
				WantCode(t, err, abi.CodeCursor)
				return
			}
			if err != nil || len(p.Events) != c.n || p.Next != c.next || p.HasMore != c.more || p.Head != 10 || (c.n > 0 && p.Events[0].Sequence != c.first) {
				t.Errorf("%d events, next %d, more %v, head %d, %v", len(p.Events), p.Next, p.HasMore, p.Head, err)
			}
		})
	}
	if p, err := s.Read(t.Context(), "none", journal.ReadOptions{}); err != nil || len(p.Events) != 0 || p.Head != 0 || p.HasMore {
		t.Errorf("no session: %+v %v", p, err)
	}
	_, err := s.Read(t.Context(), "none", journal.ReadOptions{After: 1})
	WantCode(t, err, abi.CodeCursor)
}

func snapshot(t *testing.T, open Open) {
	s := open(t, time.Now)
	sn, err := s.Snapshot(t.Context(), "s")
	if err != nil || sn.Head != 0 || sn.Last != "" || len(sn.Open) != 0 {
		t.Fatalf("%+v %v", sn, err)
	}
	must(t, s, "s", Created(), Scheduled("a", abi.SideEffectPure), Scheduled("b", abi.SideEffectPure), Started("a", abi.SideEffectPure), Scheduled("c", abi.SideEffectPure))
	must(t, s, "s", Completed("a"), Started("b", abi.SideEffectPure))
	if sn, err = s.Snapshot(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, e := range sn.Open {
		got += fmt.Sprintf("%d %s %s|", e.Sequence, e.ToolAttemptID, e.Type)
	}
	if sn.Head != 7 || sn.Last != journal.SessionCreated || got != "3 b tool_scheduled|5 c tool_scheduled|7 b tool_started|" {
		t.Errorf("%d %s %s", sn.Head, sn.Last, got)
	}
	must(t, s, "s", Failed("c"), Failed("b"), Closed())
	if sn, err = s.Snapshot(t.Context(), "s"); err != nil || sn.Last != journal.SessionClosed || len(sn.Open) != 0 || sn.Head != 10 {
		t.Errorf("%+v %v", sn, err)
	}
}

// DUR-05: a session id is data, whatever it looks like.
func sessions(t *testing.T, open Open) {
	s := open(t, time.Now)
	names := []string{"../../etc/passwd", "a/b", "a\\b", "'; DROP TABLE events; --", "nul", "日本", "x\x00y", "z"}
	for _, n := range names {
		must(t, s, n, Created())
	}
	must(t, s, "z", Scheduled("a", abi.SideEffectPure))
	must(t, s, "a/b", Closed())
	seen, after := map[string]journal.SessionInfo{}, ""
	for {
		list, err := s.Sessions(t.Context(), after, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			if i.SessionID <= after {
				t.Errorf("%q follows %q", i.SessionID, after)
			}
			seen[i.SessionID] = i
			after = i.SessionID
		}
		if len(list) < 3 {
			break
		}
	}
	if len(seen) != len(names) {
		t.Errorf("%d of %d sessions", len(seen), len(names))
	}
	if i := seen["z"]; i.Head != 2 || i.Open != 1 || i.Closed || i.LastAt == "" {
		t.Errorf("%+v", i)
	}
	if i := seen["a/b"]; !i.Closed || i.Open != 0 {
		t.Errorf("%+v", i)
	}
	if _, err := s.Sessions(t.Context(), "", 1001); abi.CodeOf(err) != abi.CodeCursor {
		t.Errorf("too many: %v", err)
	}
}

func copies(t *testing.T, open Open) {
	s := open(t, time.Now)
	d := Created()
	events := must(t, s, "s", d)
	d.Data[2], events[0].Data[2] = 'X', 'X'
	list := All(t, s, "s")
	list[0].Data[2] = 'Y'
	if got := string(All(t, s, "s")[0].Data); got != `{"source":"create"}` {
		t.Errorf("the data is %s", got)
	}
}

func changed(t *testing.T, open Open) {
	s := open(t, time.Now)
	c, other := s.Changed("s"), s.Changed("other")
	must(t, s, "s", Created())
	<-c
	select {
	case <-other:
		t.Error("another session changed")
	case <-s.Changed("s"):
		t.Error("it changed again")
	default:
	}
}

// DUR-17: what is there is told, then once that it is all, then what comes.
func subscription(t *testing.T, open Open) {
	s := open(t, time.Now)
	must(t, s, "s", Created(), Scheduled("a", abi.SideEffectPure))
	var got []string
	for i, err := range journal.Subscribe(t.Context(), s, "s", journal.SubscribeOptions{Page: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %d", i.Kind, i.Cursor.Sequence))
		if len(got) == 3 {
			must(t, s, "s", Scheduled("b", abi.SideEffectPure))
		}
		if len(got) == 4 {
			break
		}
	}
	if want := "[replay 1 replay 2 caught_up 2 live 3]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// Writers of many sessions and of one do not disturb each other.
func concurrency(t *testing.T, open Open) {
	s := open(t, time.Now)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won, conflicts := 0, 0
	zero := int64(0)
	for i := range 8 {
		wg.Go(func() {
			own := fmt.Sprint("own-", i)
			for k := range 10 {
				d := Created()
				if k > 0 {
					d = Scheduled(fmt.Sprint(k), abi.SideEffectPure)
				}
				at := int64(k)
				if _, err := s.Append(context.Background(), own, []journal.Draft{d}, journal.AppendOptions{ExpectedLast: &at}); err != nil {
					t.Error(err)
				}
			}
			_, err := s.Append(context.Background(), "one", []journal.Draft{Created()}, journal.AppendOptions{ExpectedLast: &zero})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case abi.CodeOf(err) == abi.CodeSequence:
				conflicts++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 || conflicts != 7 {
		t.Errorf("%d won, %d had a conflict", won, conflicts)
	}
	for i := range 8 {
		if n := len(All(t, s, fmt.Sprint("own-", i))); n != 10 {
			t.Errorf("session %d has %d events", i, n)
		}
	}
}

func closed(t *testing.T, open Open) {
	s := open(t, time.Now)
	must(t, s, "s", Created())
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), "s", []journal.Draft{Created()}, journal.AppendOptions{}); err == nil {
		t.Error("a closed store takes events")
	}
	if _, err := s.Head(t.Context(), "s"); err == nil {
		t.Error("a closed store reads")
	}
}

func cancelled(t *testing.T, open Open) {
	s := open(t, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Append(ctx, "s", []journal.Draft{Created()}, journal.AppendOptions{})
	WantCode(t, err, abi.CodeJournalWrite)
	if n, err := s.Head(t.Context(), "s"); n != 0 || err != nil {
		t.Errorf("%d %v", n, err)
	}
}

func fenceOf(l journal.Lease) *tool.Fence { f := l.Fence(); return &f }
