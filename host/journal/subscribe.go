package journal

import (
	"context"
	"iter"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

// Cursor is a place in a session's journal.
type Cursor struct {
	Version   int    `json:"version"`
	SessionID string `json:"sessionId"`
	Sequence  int64  `json:"sequence"`
	EventID   string `json:"eventId"`
}

// CursorOf is the place after an event.
func CursorOf(e Event) Cursor {
	return Cursor{Version: 1, SessionID: e.SessionID, Sequence: e.Sequence, EventID: e.EventID}
}

// ParseCursor reads the JSON of a cursor, strictly.
func ParseCursor(b []byte) (Cursor, error) {
	var c Cursor
	if err := strictjson.DecodeKnown(b, &c); err != nil {
		return c, abi.NewError(abi.CodeCursor, "the cursor is %v", err)
	}
	return c, c.check(c.SessionID)
}

func (c Cursor) check(session string) error {
	switch {
	case c.Version != 1:
		return abi.NewError(abi.CodeCursor, "the cursor has version %d; this version knows 1", c.Version)
	case c.SessionID != session || session == "":
		return abi.NewError(abi.CodeCursor, "the cursor belongs to session %q, not %q", clip(c.SessionID), clip(session))
	case c.Sequence < 1 || c.EventID == "":
		return abi.NewError(abi.CodeCursor, "the cursor names no event")
	}
	return nil
}

// ItemKind is the kind of an Item.
type ItemKind string

// Item kinds: events that were there, once caught_up, events as they come.
const (
	ItemReplay   ItemKind = "replay"
	ItemCaughtUp ItemKind = "caught_up"
	ItemLive     ItemKind = "live"
)

// Item is one thing that a subscription tells.
type Item struct {
	Kind ItemKind
	// Event is set except for caught_up.
	Event Event
	// Cursor is the place after this item; zero for a caught_up before any event.
	Cursor Cursor
}

// SubscribeOptions configure Subscribe.
type SubscribeOptions struct {
	// After is where to go on; nil starts at the beginning.
	After *Cursor
	// Page is how many events are read at once: 1 to MaxPage, 0 means 100.
	Page int
	// Poll is how often the store is asked for events of other processes: up to
	// 60 s, 0 means 250 ms.
	Poll time.Duration
}

const (
	subscribePage = 100
	subscribePoll = 250 * time.Millisecond
	maxPoll       = 60 * time.Second
)

// Subscribe tells the events of a session after a cursor, then once that it
// caught up, then events as they come, until ctx ends or the loop is left. Each
// event comes at least once over restarts: keep the Cursor of the last item that
// was worked on. A cursor that is not one of this journal ends it with an error.
func Subscribe(ctx context.Context, store Store, session string, opt SubscribeOptions) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		s := &subscription{store: store, session: session, opt: opt}
		if err := s.start(ctx); err != nil {
			yield(Item{}, err)
			return
		}
		for {
			changed := store.Changed(session)
			more, err := s.page(ctx, yield)
			if err != nil {
				yield(Item{}, err)
				return
			}
			if s.left {
				return
			}
			if more {
				continue
			}
			if !s.caught {
				s.caught = true
				if !yield(Item{Kind: ItemCaughtUp, Cursor: s.at}, nil) {
					return
				}
			}
			timer := time.NewTimer(s.opt.Poll)
			select {
			case <-changed:
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				yield(Item{}, context.Cause(ctx))
				return
			}
			timer.Stop()
		}
	}
}

type subscription struct {
	store   Store
	session string
	opt     SubscribeOptions
	at      Cursor
	caught  bool
	left    bool
}

func (s *subscription) start(ctx context.Context) error {
	if err := ValidSessionID(s.session); err != nil {
		return err
	}
	if s.opt.Page == 0 {
		s.opt.Page = subscribePage
	}
	if s.opt.Poll == 0 {
		s.opt.Poll = subscribePoll
	}
	if s.opt.Page < 1 || s.opt.Page > MaxPage || s.opt.Poll < 0 || s.opt.Poll > maxPoll {
		return abi.NewError(abi.CodeOptions, "a subscription reads 1 to %d events at once and looks at least every %v", MaxPage, maxPoll)
	}
	c := s.opt.After
	if c == nil {
		return nil
	}
	if err := c.check(s.session); err != nil {
		return err
	}
	p, err := s.store.Read(ctx, s.session, ReadOptions{After: c.Sequence - 1, Limit: 1})
	if err != nil {
		return err
	}
	if len(p.Events) == 0 || p.Events[0].EventID != c.EventID {
		return abi.NewError(abi.CodeCursor, "the cursor names event %d as %s, which it is not in this journal", c.Sequence, clip(c.EventID))
	}
	s.at = *c
	return nil
}

// page tells one page and says whether there is more.
func (s *subscription) page(ctx context.Context, yield func(Item, error) bool) (bool, error) {
	p, err := s.store.Read(ctx, s.session, ReadOptions{After: s.at.Sequence, Limit: s.opt.Page})
	if err != nil {
		return false, err
	}
	for _, e := range p.Events {
		if e.Sequence != s.at.Sequence+1 {
			return false, abi.NewError(abi.CodeCursor, "event %d follows %d; events between them are missing", e.Sequence, s.at.Sequence)
		}
		s.at = CursorOf(e)
		kind := ItemReplay
		if s.caught {
			kind = ItemLive
		}
		if !yield(Item{Kind: kind, Event: e, Cursor: s.at}, nil) {
			s.left = true
			return false, nil
		}
	}
	return p.HasMore, nil
}
