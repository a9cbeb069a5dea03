package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
	. "github.com/bladehost/bladehost/host/journal/journaltest"
)

func openJournal(t *testing.T, s journal.Store) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), s, journal.Options{SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Create(t.Context(), "create", ""); err != nil {
		t.Fatal(err)
	}
	return j
}

func cmd(id string, list ...journal.Draft) journal.Command {
	return journal.Command{ID: id, Events: list}
}

func commit(t *testing.T, j *journal.Journal, c journal.Command, want journal.CommitStatus) []journal.Event {
	t.Helper()
	got, err := j.Commit(t.Context(), c, journal.CommitOptions{})
	if err != nil || got.Status != want {
		t.Fatalf("%s: %q %v, want %q", c.ID, got.Status, err, want)
	}
	return got.Events
}

// DUR-07: a command is written once; with other content it is a conflict.
func TestCommands(t *testing.T) {
	s := memory(t, nil)
	j := openJournal(t, s)
	first := commit(t, j, cmd("c", Scheduled("a", abi.SideEffectPure), Started("a", abi.SideEffectPure)), journal.Committed)
	for _, e := range first {
		if e.CommandID != "c" {
			t.Errorf("%+v", e)
		}
	}
	spaced := Scheduled("a", abi.SideEffectPure)
	var members map[string]json.RawMessage
	if err := json.Unmarshal(spaced.Data, &members); err != nil {
		t.Fatal(err)
	}
	spaced.Data, _ = json.MarshalIndent(members, "", "  ") // the same JSON, in another order
	for _, j := range []*journal.Journal{j, openJournal(t, s)} {
		again := commit(t, j, cmd("c", spaced, Started("a", abi.SideEffectPure)), journal.Replayed)
		if len(again) != 2 || again[0].EventID != first[0].EventID {
			t.Errorf("%+v", again)
		}
		for name, c := range map[string]journal.Command{
			"other event":    cmd("c", Scheduled("a", abi.SideEffectIdempotent), Started("a", abi.SideEffectPure)),
			"fewer events":   cmd("c", Scheduled("a", abi.SideEffectPure)),
			"more events":    cmd("c", Scheduled("a", abi.SideEffectPure), Started("a", abi.SideEffectPure), Completed("a")),
			"another scope":  cmd("c", Scheduled("b", abi.SideEffectPure), Started("b", abi.SideEffectPure)),
			"a valid change": cmd("c", Completed("a")),
		} {
			if _, err := j.Commit(t.Context(), c, journal.CommitOptions{}); abi.CodeOf(err) != abi.CodeCommand {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if n := len(All(t, s, "s")); n != 3 {
		t.Errorf("%d events", n)
	}
	for name, c := range map[string]journal.Command{
		"no id": cmd("", Completed("a")), "no events": cmd("d"), "long id": cmd(string(make([]byte, 600)), Completed("a")),
		"an event of another": {ID: "d", Events: []journal.Draft{{Type: journal.SessionClosed, CommandID: "e", Data: json.RawMessage(`{"reason":"user"}`)}}},
		"a bad event":         cmd("d", journal.Draft{Type: journal.SessionClosed, Data: json.RawMessage(`{}`)}),
	} {
		if _, err := j.Commit(t.Context(), c, journal.CommitOptions{}); abi.CodeOf(err) != abi.CodeEvent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two journals of one session: the second reads again and goes on, unless it is
// told to expect a head.
func TestConflicts(t *testing.T) {
	s := memory(t, nil)
	a := openJournal(t, s)
	b, err := journal.Open(t.Context(), s, journal.Options{SessionID: "s", MaxConflictRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	c := openJournal(t, s)
	commit(t, a, cmd("1", Scheduled("a", abi.SideEffectPure)), journal.Committed)
	head := int64(1)
	_, err = c.Commit(t.Context(), cmd("2", Scheduled("b", abi.SideEffectPure)), journal.CommitOptions{ExpectedHead: &head})
	WantCode(t, err, abi.CodeSequence)
	_, err = b.Commit(t.Context(), cmd("2", Scheduled("b", abi.SideEffectPure)), journal.CommitOptions{})
	WantCode(t, err, abi.CodeSequence)
	commit(t, c, cmd("2", Scheduled("b", abi.SideEffectPure)), journal.Committed)
	// A command that the other one wrote is seen as written.
	commit(t, a, cmd("2", Scheduled("b", abi.SideEffectPure)), journal.Replayed)
	// What the other did decides what may follow.
	commit(t, a, cmd("3", Started("a", abi.SideEffectPure), Completed("a")), journal.Committed)
	if _, err := c.Commit(t.Context(), cmd("4", Started("a", abi.SideEffectPure)), journal.CommitOptions{}); abi.CodeOf(err) != abi.CodeTransition {
		t.Errorf("%v", err)
	}
	if a.Head() != 5 || c.Head() != 5 || len(c.Attempts()) != 1 {
		t.Errorf("heads %d %d, %d attempts", a.Head(), c.Head(), len(c.Attempts()))
	}
}

// faulty is a store whose appends fail: before they are written, or after.
type faulty struct {
	journal.Store
	mu     sync.Mutex
	before error
	after  error
	hide   bool
	n      int
}

func (f *faulty) Append(ctx context.Context, session string, d []journal.Draft, opt journal.AppendOptions) ([]journal.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	if f.before != nil {
		return nil, f.before
	}
	events, err := f.Store.Append(ctx, session, d, opt)
	if err == nil && f.after != nil {
		return nil, f.after
	}
	return events, err
}

func (f *faulty) Command(ctx context.Context, session, id string) ([]journal.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hide {
		return nil, nil
	}
	return f.Store.Command(ctx, session, id)
}

// DUR-08: an outcome that is not known is looked for and never written again.
func TestUnknownOutcome(t *testing.T) {
	unknown := abi.NewError(abi.CodeUnknownOutcome, "the cable was cut")
	for name, cause := range map[string]error{"the store says so": unknown, "deadline": context.DeadlineExceeded, "wrapped": fmt.Errorf("append: %w", context.Canceled)} {
		t.Run(name, func(t *testing.T) {
			f := &faulty{Store: memory(t, nil)}
			j := openJournal(t, f)
			f.after = cause
			commit(t, j, cmd("found", Scheduled("a", abi.SideEffectPure)), journal.Reconciled)
			f.after, f.before = nil, cause
			lost := cmd("lost", Started("a", abi.SideEffectPure))
			_, err := j.Commit(t.Context(), lost, journal.CommitOptions{})
			WantCode(t, err, abi.CodeUnknownOutcome)
			f.before, f.n = nil, 0
			for range 2 {
				_, err = j.Commit(t.Context(), cmd("other", Scheduled("b", abi.SideEffectPure)), journal.CommitOptions{})
				WantCode(t, err, abi.CodeUnknownOutcome)
				_, err = j.Commit(t.Context(), lost, journal.CommitOptions{})
				WantCode(t, err, abi.CodeUnknownOutcome)
			}
			_, err = j.Commit(t.Context(), cmd("found", Scheduled("a", abi.SideEffectPure)), journal.CommitOptions{})
			WantCode(t, err, abi.CodeUnknownOutcome)
			if f.n != 0 {
				t.Errorf("it was written %d times more", f.n)
			}
			// It comes late after all.
			lost.Events[0].CommandID = "lost"
			if _, err := f.Store.Append(t.Context(), "s", lost.Events, journal.AppendOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := j.Commit(t.Context(), cmd("lost", Completed("a")), journal.CommitOptions{}); abi.CodeOf(err) != abi.CodeCommand {
				t.Errorf("other content: %v", err)
			}
			commit(t, j, lost, journal.Reconciled)
			commit(t, j, cmd("other", Scheduled("b", abi.SideEffectPure)), journal.Committed)
			if n := len(All(t, f.Store, "s")); n != 4 {
				t.Errorf("%d events", n)
			}
		})
	}
	// A new journal is how a command that never came is given up.
	f := &faulty{Store: memory(t, nil)}
	j := openJournal(t, f)
	f.before = unknown
	_, err := j.Commit(t.Context(), cmd("lost", Scheduled("a", abi.SideEffectPure)), journal.CommitOptions{})
	WantCode(t, err, abi.CodeUnknownOutcome)
	f.before = nil
	commit(t, openJournal(t, f), cmd("lost", Scheduled("a", abi.SideEffectPure)), journal.Committed)
	// A write that certainly failed blocks nothing.
	f.before = abi.NewError(abi.CodeJournalWrite, "the disk is full")
	j = openJournal(t, f)
	_, err = j.Commit(t.Context(), cmd("x", Scheduled("b", abi.SideEffectPure)), journal.CommitOptions{})
	WantCode(t, err, abi.CodeJournalWrite)
	f.before = nil
	commit(t, j, cmd("x", Scheduled("b", abi.SideEffectPure)), journal.Committed)
	f.before = errors.New("something else")
	if _, err = j.Commit(t.Context(), cmd("y", Scheduled("c", abi.SideEffectPure)), journal.CommitOptions{}); err == nil || abi.CodeOf(err) != "" {
		t.Errorf("%v", err)
	}
}

// DUR-10: a session with something open is not closed.
func TestEnd(t *testing.T) {
	s := memory(t, nil)
	j := openJournal(t, s)
	commit(t, j, cmd("1", Scheduled("a", abi.SideEffectPure)), journal.Committed)
	WantCode(t, j.End(t.Context(), "completed"), abi.CodeTransition)
	commit(t, j, cmd("2", Requested("a")), journal.Committed)
	WantCode(t, j.End(t.Context(), "completed"), abi.CodeTransition)
	commit(t, j, cmd("3", Resolved("a", "allow"), Started("a", abi.SideEffectPure)), journal.Committed)
	WantCode(t, j.End(t.Context(), "completed"), abi.CodeTransition)
	commit(t, j, cmd("4", Completed("a")), journal.Committed)
	WantCode(t, j.End(t.Context(), "because"), abi.CodeEvent)
	if err := j.End(t.Context(), "completed"); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Commit(t.Context(), cmd("5", Scheduled("b", abi.SideEffectPure)), journal.CommitOptions{}); abi.CodeOf(err) != abi.CodeTransition {
		t.Errorf("after the end: %v", err)
	}
	if err := openJournal(t, s).Create(t.Context(), "create", ""); err != nil { // it resumes
		t.Fatal(err)
	}
	list := All(t, s, "s")
	if last := list[len(list)-1]; last.Type != journal.SessionCreated || string(last.Data) != `{"source":"resume"}` {
		t.Errorf("%s %s", last.Type, last.Data)
	}
	if _, err := journal.Open(t.Context(), s, journal.Options{}); abi.CodeOf(err) != abi.CodeEvent {
		t.Errorf("no session id: %v", err)
	}
}

// Calls of one session that end at once do not disturb each other.
func TestConcurrentCommits(t *testing.T) {
	s := memory(t, nil)
	j := openJournal(t, s)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			n := fmt.Sprint(i)
			for _, d := range []journal.Draft{Scheduled(n, abi.SideEffectPure), Started(n, abi.SideEffectPure), Completed(n)} {
				if _, err := j.Commit(t.Context(), cmd(n+string(d.Type), d), journal.CommitOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	again(t, All(t, s, "s"))
	if j.Head() != 61 || len(j.Attempts()) != 0 {
		t.Errorf("%d events, %d open", j.Head(), len(j.Attempts()))
	}
}
