package journal

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

// Status is where a tool attempt stands.
type Status string

// Statuses. From scheduled an attempt goes to started, failed or cancelled; from
// started to completed, failed, cancelled or outcome_unknown; from
// outcome_unknown to completed, failed or cancelled.
const (
	StatusScheduled Status = "scheduled"
	StatusStarted   Status = "started"
	StatusUnknown   Status = "outcome_unknown"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled"
)

// Attempt is one tool attempt that has not ended.
type Attempt struct {
	ID string `json:"toolAttemptId"`
	Identity
	Scope      Scope                 `json:"scope"`
	Status     Status                `json:"status"`
	ModelInput json.RawMessage       `json:"modelInput"`
	Input      json.RawMessage       `json:"input"`
	SideEffect abi.SideEffect        `json:"sideEffect"`
	Interrupt  abi.InterruptBehavior `json:"interruptBehavior"`
	// Place is where the call was made, or nil where that is not known.
	Place *Place `json:"place,omitempty"`
	// Permission is the last request for it, or nil.
	Permission *Permission `json:"permission,omitempty"`
	// ScheduledAt and StartedAt are times of events; StartedAt may be "".
	ScheduledAt string `json:"scheduledAt"`
	StartedAt   string `json:"startedAt,omitempty"`
	// UnknownReason is that of the tool_outcome_unknown, if there is one.
	UnknownReason string `json:"unknownReason,omitempty"`
	// First is the sequence of the tool_scheduled.
	First int64 `json:"firstSequence"`
}

// Permission is a permission request. Decision is "" while nobody decided.
type Permission struct {
	ID       string `json:"permissionRequestId"`
	Decision string `json:"decision,omitempty"`
	Message  string `json:"message,omitempty"`
}

// Pending reports whether a permission was asked for and not decided.
func (a *Attempt) Pending() bool { return a.Permission != nil && a.Permission.Decision == "" }

// refused reports whether a permission was denied or cancelled.
func (a *Attempt) refused() bool {
	return a.Permission != nil && (a.Permission.Decision == DecisionDeny || a.Permission.Decision == DecisionCancel)
}

// started reports whether the tool may have run.
func (a *Attempt) started() bool { return a.Status == StatusStarted || a.Status == StatusUnknown }

// State is a session as far as it is open, made by applying its events in order.
// Ended attempts are not in it. The zero value is a session without events.
type State struct {
	Head int64
	// Last is the last session event: session_created, session_closed or "".
	Last Type
	open map[string]*Attempt
}

// Attempts are the open attempts, oldest first. They are copies.
func (s *State) Attempts() []Attempt {
	out := make([]Attempt, 0, len(s.open))
	for _, a := range s.open {
		c := *a
		if a.Permission != nil {
			p := *a.Permission
			c.Permission = &p
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Attempt) int { return int(a.First - b.First) })
	return out
}

func refuse(format string, args ...any) error {
	return abi.NewError(abi.CodeTransition, format, args...)
}

// change is what a batch does to a state, before it counts.
type change struct {
	base    *State
	head    int64
	last    Type
	touched map[string]*Attempt // nil: it ended
}

func (s *State) begin() *change {
	return &change{base: s, head: s.Head, last: s.Last, touched: map[string]*Attempt{}}
}

// keep makes the change the state.
func (c *change) keep() {
	c.base.Head, c.base.Last = c.head, c.last
	if c.base.open == nil {
		c.base.open = map[string]*Attempt{}
	}
	for id, a := range c.touched {
		if a == nil {
			delete(c.base.open, id)
		} else {
			c.base.open[id] = a
		}
	}
}

func (c *change) get(id string) *Attempt {
	if a, ok := c.touched[id]; ok {
		return a
	}
	a := c.base.open[id]
	if a == nil {
		return nil
	}
	own := *a
	c.touched[id] = &own
	return &own
}

// Apply takes the next event of the session, or says why it cannot be the next.
func (s *State) Apply(e Event) error {
	c := s.begin()
	if e.Sequence != s.Head+1 {
		return abi.NewError(abi.CodeJournalCorrupt, "sequence %d follows %d", e.Sequence, s.Head)
	}
	if err := c.apply(e.Draft(), e.RecordedAt); err != nil {
		return err
	}
	c.keep()
	return nil
}

// preview applies drafts to a change that the caller may keep.
func (s *State) preview(drafts []Draft) (*change, error) {
	c := s.begin()
	for _, d := range drafts {
		if err := c.apply(d, ""); err != nil {
			if _, bad := d.Check(); bad != nil { // the store would have said so
				return nil, bad
			}
			return nil, err
		}
	}
	return c, nil
}

func (c *change) apply(d Draft, at string) error {
	c.head++
	switch {
	case c.last == "" && d.Type != SessionCreated:
		return refuse("%s cannot be the first event of a session; session_created is", d.Type)
	case d.Type == SessionCreated:
		return c.created(d)
	case c.last == SessionClosed:
		return refuse("%s cannot follow session_closed; session_created with source resume opens the session again", d.Type)
	case d.Type == SessionClosed:
		return c.closed()
	case d.Type == ToolScheduled:
		return c.scheduled(d, at)
	}
	a := c.get(d.ToolAttemptID)
	if a == nil {
		return refuse("%s is for the tool attempt %s, which is not open", d.Type, clip(d.ToolAttemptID))
	}
	if d.RequestID != a.Scope.RequestID || d.TurnID != a.Scope.TurnID || (d.ModelAttemptID != "" && d.ModelAttemptID != a.Scope.ModelAttemptID) {
		return refuse("%s names another request, turn or model attempt than the tool_scheduled of %s", d.Type, clip(a.ID))
	}
	return c.step(a, d, at)
}

func (c *change) created(d Draft) error {
	var v SessionCreatedData
	if err := strictjson.Decode(d.Data, &v); err != nil {
		return err
	}
	switch c.last {
	case SessionCreated:
		return refuse("the session is open already")
	case SessionClosed:
		if v.Source != "resume" {
			return refuse("the session was closed; its next session_created must have the source resume")
		}
	}
	c.last = SessionCreated
	return nil
}

func (c *change) closed() error {
	for _, id := range slices.Sorted(maps.Keys(c.base.open)) {
		if _, ok := c.touched[id]; !ok {
			c.get(id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.touched)) {
		if a := c.touched[id]; a != nil {
			if a.Pending() {
				return refuse("the session cannot be closed: the permission %s of %s is not decided", clip(a.Permission.ID), clip(a.ToolName))
			}
			return refuse("the session cannot be closed: the tool attempt %s of %s is %s", clip(id), clip(a.ToolName), a.Status)
		}
	}
	c.last = SessionClosed
	return nil
}

func (c *change) scheduled(d Draft, at string) error {
	var v ScheduledData
	if err := strictjson.Decode(d.Data, &v); err != nil {
		return err
	}
	if c.get(d.ToolAttemptID) != nil {
		return refuse("the tool attempt %s was scheduled before", clip(d.ToolAttemptID))
	}
	c.touched[d.ToolAttemptID] = &Attempt{
		ID: d.ToolAttemptID, Identity: v.Identity, Scope: d.Scope, Status: StatusScheduled, ModelInput: v.ModelInput,
		Input: v.Input, SideEffect: v.SideEffect, Interrupt: v.Interrupt, Place: v.Place, ScheduledAt: at, First: c.head,
	}
	return nil
}

// step is an event of an open attempt.
func (c *change) step(a *Attempt, d Draft, at string) error {
	var id Identity
	if d.Type != PermissionResolved {
		if err := strictjson.Decode(d.Data, &id); err != nil {
			return err
		}
		if id != a.Identity {
			return refuse("%s names the call %s of %s, but the attempt %s is the call %s of %s", d.Type, clip(id.ToolCallID), clip(id.ToolName), clip(a.ID), clip(a.ToolCallID), clip(a.ToolName))
		}
	}
	switch d.Type {
	case PermissionRequested:
		return a.requested(d)
	case PermissionResolved:
		return a.resolved(d)
	case ToolStarted:
		return a.begin(d, at)
	}
	return c.ends(a, d)
}

func (a *Attempt) requested(d Draft) error {
	var v RequestedData
	if err := strictjson.Decode(d.Data, &v); err != nil {
		return err
	}
	switch {
	case a.Status != StatusScheduled:
		return refuse("a permission for %s cannot be asked for: the attempt is %s", clip(a.ID), a.Status)
	case a.Pending():
		return refuse("a permission for %s cannot be asked for: %s is not decided yet", clip(a.ID), clip(a.Permission.ID))
	case a.refused():
		return refuse("a permission for %s cannot be asked for: it was refused", clip(a.ID))
	case a.Permission != nil && a.Permission.ID == v.PermissionRequestID:
		return refuse("the permission request %s is not new", clip(v.PermissionRequestID))
	}
	a.Permission = &Permission{ID: v.PermissionRequestID}
	return nil
}

func (a *Attempt) resolved(d Draft) error {
	var v ResolvedData
	if err := strictjson.Decode(d.Data, &v); err != nil {
		return err
	}
	if !a.Pending() || a.Permission.ID != v.PermissionRequestID {
		return refuse("the permission request %s of %s is not open", clip(v.PermissionRequestID), clip(a.ID))
	}
	a.Permission = &Permission{ID: v.PermissionRequestID, Decision: v.Decision, Message: v.Message}
	return nil
}

func (a *Attempt) begin(d Draft, at string) error {
	var v StartedData
	if err := strictjson.Decode(d.Data, &v); err != nil {
		return err
	}
	switch {
	case a.Status != StatusScheduled:
		return refuse("the attempt %s cannot start: it is %s", clip(a.ID), a.Status)
	case a.Pending():
		return refuse("the attempt %s cannot start: its permission is not decided", clip(a.ID))
	case a.refused():
		return refuse("the attempt %s cannot start: its permission was refused", clip(a.ID))
	}
	a.Status, a.Input, a.SideEffect, a.StartedAt = StatusStarted, v.Input, v.SideEffect, at
	return nil
}

// ends is an outcome.
func (c *change) ends(a *Attempt, d Draft) error {
	var v ReasonData
	if d.Type == ToolCancelled || d.Type == ToolOutcomeUnknown {
		if err := strictjson.Decode(d.Data, &v); err != nil {
			return err
		}
	}
	switch {
	case a.Pending():
		return refuse("%s cannot end the attempt %s: its permission is not decided", d.Type, clip(a.ID))
	case a.refused() && (d.Type != ToolCancelled || !a.because(v.Reason)):
		return refuse("the attempt %s was refused (%s), so it ends as cancelled with the reason permission_denied or permission_cancelled", clip(a.ID), a.Permission.Decision)
	case !a.refused() && (v.Reason == ReasonPermissionDenied || v.Reason == ReasonPermissionCancelled):
		return refuse("the attempt %s cannot be cancelled as %s: no permission was refused", clip(a.ID), v.Reason)
	case d.Type == ToolCompleted && a.Status == StatusScheduled:
		return refuse("the attempt %s cannot be completed: it did not start", clip(a.ID))
	case d.Type == ToolOutcomeUnknown && a.Status != StatusStarted:
		return refuse("the outcome of the attempt %s cannot be unknown: it is %s", clip(a.ID), a.Status)
	case d.Type == ToolOutcomeUnknown:
		a.Status, a.UnknownReason = StatusUnknown, v.Reason
		return nil
	}
	c.touched[a.ID] = nil
	return nil
}

// because reports whether a refused permission is this reason.
func (a *Attempt) because(reason string) bool {
	return reason == map[string]string{DecisionDeny: ReasonPermissionDenied, DecisionCancel: ReasonPermissionCancelled}[a.Permission.Decision]
}

// restore makes the state of a snapshot: the open attempts from their own events.
func restore(sn Snapshot) (*State, error) {
	s := &State{Head: sn.Head, Last: sn.Last, open: map[string]*Attempt{}}
	for _, e := range sn.Open {
		c := &change{base: s, head: e.Sequence - 1, last: SessionCreated, touched: map[string]*Attempt{}}
		if err := c.apply(e.Draft(), e.RecordedAt); err != nil {
			return nil, abi.NewError(abi.CodeJournalCorrupt, "event %d does not follow from those before it: %v", e.Sequence, err).Because(err)
		}
		for id, a := range c.touched {
			if a == nil {
				return nil, abi.NewError(abi.CodeJournalCorrupt, "the tool attempt %s is listed as open, but event %d ended it", clip(id), e.Sequence)
			}
			s.open[id] = a
		}
	}
	return s, nil
}

// sameDrafts reports whether committed events are what the drafts would make.
func sameDrafts(events []Event, drafts []Draft) bool {
	if len(events) != len(drafts) {
		return false
	}
	for i, e := range events {
		d := drafts[i]
		if e.Type != d.Type || e.Scope != d.Scope || e.CausationEventID != d.CausationEventID || !sameJSON(e.Data, d.Data) {
			return false
		}
		if !d.OccurredAt.IsZero() && e.OccurredAt != timestamp(d.OccurredAt) {
			return false
		}
	}
	return true
}

func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := strictjson.Canonical(a)
	if err != nil {
		return false
	}
	y, err := strictjson.Canonical(b)
	return err == nil && bytes.Equal(x, y)
}
