package journal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
	. "github.com/bladehost/bladehost/host/journal/journaltest"
)

// deaf is a store of which another process writes: nobody is told.
type deaf struct{ journal.Store }

func (deaf) Changed(string) <-chan struct{} { return nil }

// DUR-17: what was there is told, then once that this was all, then what comes.
func TestSubscribe(t *testing.T) {
	for name, wrap := range map[string]func(journal.Store) journal.Store{
		"this process":    func(s journal.Store) journal.Store { return s },
		"another process": func(s journal.Store) journal.Store { return deaf{s} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory(t, nil)
				add := func(d journal.Draft) {
					if _, err := s.Append(context.Background(), "s", []journal.Draft{d}, journal.AppendOptions{}); err != nil {
						t.Error(err)
					}
				}
				add(Created())
				add(Scheduled("a", abi.SideEffectPure))
				add(Scheduled("b", abi.SideEffectPure))
				var got []string
				var mid journal.Cursor
				for i, err := range journal.Subscribe(t.Context(), wrap(s), "s", journal.SubscribeOptions{Page: 2}) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, fmt.Sprintf("%s %d", i.Kind, i.Cursor.Sequence))
					switch len(got) {
					case 2:
						mid = i.Cursor
					case 4:
						add(Scheduled("c", abi.SideEffectPure))
					case 5:
						time.Sleep(time.Hour)
						add(Scheduled("d", abi.SideEffectPure))
					}
					if len(got) == 6 {
						break
					}
				}
				want := "[replay 1 replay 2 replay 3 caught_up 3 live 4 live 5]"
				if fmt.Sprint(got) != want {
					t.Errorf("%v", got)
				}
				raw, err := json.Marshal(mid)
				if err != nil {
					t.Fatal(err)
				}
				back, err := journal.ParseCursor(raw)
				if err != nil || back != mid {
					t.Errorf("%s %v", raw, err)
				}
				for i, err := range journal.Subscribe(t.Context(), s, "s", journal.SubscribeOptions{After: &mid}) {
					if err != nil || i.Event.Sequence != 3 {
						t.Errorf("after %d: %+v %v", mid.Sequence, i, err)
					}
					break
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				n := 0
				for _, err := range journal.Subscribe(ctx, s, "none", journal.SubscribeOptions{}) {
					if n++; n == 2 && err == nil {
						t.Error("no error at the end of the context")
					}
				}
				if n != 2 {
					t.Errorf("%d items of an empty session", n)
				}
			})
		})
	}
}

// DUR-17: a cursor that is not one of this journal ends it.
func TestCursors(t *testing.T) {
	s := memory(t, nil)
	events, err := s.Append(t.Context(), "s", []journal.Draft{Created(), Scheduled("a", abi.SideEffectPure)}, journal.AppendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	good := journal.CursorOf(events[0])
	for name, change := range map[string]func(*journal.Cursor){
		"version": func(c *journal.Cursor) { c.Version = 2 }, "foreign": func(c *journal.Cursor) { c.SessionID = "t" },
		"stale": func(c *journal.Cursor) { c.EventID = events[1].EventID }, "ahead": func(c *journal.Cursor) { c.Sequence = 3 },
		"zero": func(c *journal.Cursor) { c.Sequence = 0 }, "no event": func(c *journal.Cursor) { c.EventID = "" },
	} {
		c := good
		change(&c)
		for i, err := range journal.Subscribe(t.Context(), s, "s", journal.SubscribeOptions{After: &c}) {
			if abi.CodeOf(err) != abi.CodeCursor {
				t.Errorf("%s: %+v %v", name, i, err)
			}
		}
	}
	for name, opt := range map[string]journal.SubscribeOptions{"page": {Page: 1001}, "negative page": {Page: -1}, "poll": {Poll: 61 * time.Second}, "negative poll": {Poll: -1}} {
		for _, err := range journal.Subscribe(t.Context(), s, "s", opt) {
			if abi.CodeOf(err) != abi.CodeOptions {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for i, err := range journal.Subscribe(t.Context(), gappy{s}, "s", journal.SubscribeOptions{}) {
		if i.Event.Sequence == 2 && err == nil {
			t.Error("a gap was not seen")
		}
		if err != nil && abi.CodeOf(err) != abi.CodeCursor {
			t.Error(err)
		}
	}
	for _, text := range []string{``, `{}`, `[]`, `{"version":1,"sessionId":"s","sequence":1,"eventId":"e","more":1}`, `{"version":1,"sessionId":"","sequence":1,"eventId":"e"}`} {
		if _, err := journal.ParseCursor([]byte(text)); abi.CodeOf(err) != abi.CodeCursor {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// gappy loses the first event.
type gappy struct{ journal.Store }

func (g gappy) Read(ctx context.Context, s string, opt journal.ReadOptions) (journal.Page, error) {
	p, err := g.Store.Read(ctx, s, opt)
	if len(p.Events) > 0 {
		p.Events = p.Events[1:]
	}
	return p, err
}

// FuzzCursor: what is read as a cursor is written the same.
func FuzzCursor(f *testing.F) {
	f.Add([]byte(`{"version":1,"sessionId":"s","sequence":3,"eventId":"e"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := journal.ParseCursor(b)
		if err != nil {
			return
		}
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := journal.ParseCursor(raw); err != nil || back != c {
			t.Fatalf("%+v %+v %v", c, back, err)
		}
	})
}
