package journal

import (
	"context"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// Options configure a Journal. Only SessionID is required.
type Options struct {
	SessionID string
	// Guard holds the session's lease; nil writes without one, which a session that
	// ever had one refuses.
	Guard *Guard
	// MaxConflictRetries is how often a command is tried again after another writer
	// was first; 0 means 3, negative never.
	MaxConflictRetries int
	// StoreTimeout bounds each call of the store; 0 means 15 s. An append that takes
	// longer has an unknown outcome.
	StoreTimeout time.Duration
}

const (
	defaultConflictRetries = 3
	defaultStoreTimeout    = 15 * time.Second
)

// Command is a batch of events that is written once, however often it is sent.
type Command struct {
	// ID is new for each command of the session.
	ID     string
	Events []Draft
}

// CommitStatus says how a command came to be in the journal.
type CommitStatus string

// Commit statuses.
const (
	// Committed: it was written now.
	Committed CommitStatus = "committed"
	// Replayed: it was there already, with the same content.
	Replayed CommitStatus = "replayed"
	// Reconciled: whether it had been written was not known, and it is there.
	Reconciled CommitStatus = "reconciled"
)

// CommitOptions pin what a commit depends on.
type CommitOptions struct {
	// ExpectedHead, if not nil, is the sequence that must be the last. Then a
	// conflict is not tried again.
	ExpectedHead *int64
}

// Commit is the outcome of a command.
type Commit struct {
	Status CommitStatus
	Events []Event
}

// Journal is one session on a store. It is safe for concurrent use; commands are
// written one after another.
type Journal struct {
	store Store
	opt   Options

	mu    sync.Mutex
	state *State
	// blocked is the command whose outcome is not known.
	blocked *Command
}

// Open reads what is open in a session. It makes no event.
func Open(ctx context.Context, store Store, opt Options) (*Journal, error) {
	if err := ValidSessionID(opt.SessionID); err != nil {
		return nil, err
	}
	if g := opt.Guard; g != nil && g.session != opt.SessionID {
		return nil, abi.NewError(abi.CodeLeaseInvalid, "the lease is that of session %s, not %s", clip(g.session), clip(opt.SessionID))
	}
	if opt.StoreTimeout <= 0 {
		opt.StoreTimeout = defaultStoreTimeout
	}
	if opt.MaxConflictRetries == 0 {
		opt.MaxConflictRetries = defaultConflictRetries
	}
	j := &Journal{store: store, opt: opt}
	return j, j.reload(ctx)
}

// SessionID is the session's id.
func (j *Journal) SessionID() string { return j.opt.SessionID }

// Guard holds the lease, or is nil.
func (j *Journal) Guard() *Guard { return j.opt.Guard }

// Head is the last sequence that this journal knows of.
func (j *Journal) Head() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.Head
}

// Attempts are the open tool attempts, oldest first.
func (j *Journal) Attempts() []Attempt {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.Attempts()
}

// attempt is one open attempt.
func (j *Journal) attempt(id string) (Attempt, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	a := j.state.open[id]
	if a == nil {
		return Attempt{}, false
	}
	return *a, true
}

// reload reads the state anew. The caller holds mu, or nobody else has j.
func (j *Journal) reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, j.opt.StoreTimeout)
	defer cancel()
	sn, err := j.store.Snapshot(ctx, j.opt.SessionID)
	if err != nil {
		return err
	}
	s, err := restore(sn)
	if err != nil {
		return err
	}
	j.state = s
	return nil
}

// Refresh reads what other processes wrote meanwhile.
func (j *Journal) Refresh(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.reload(ctx)
}

// Commit writes a command. The same id with the same content again is replayed,
// with other content it is DURABLE_COMMAND_CONFLICT. When the store cannot say
// whether it wrote, the journal looks; if the command is not there, the error is
// DURABLE_COMMAND_OUTCOME_UNKNOWN, and every other command is refused until the
// same one is sent again and found. It is never written a second time: to give
// it up, open the journal anew.
func (j *Journal) Commit(ctx context.Context, cmd Command, opt CommitOptions) (Commit, error) {
	var is issues
	is.id("/commandId", cmd.ID)
	if len(is) > 0 {
		return Commit{}, abi.NewError(abi.CodeEvent, "the command id %s", is[0].Message).With(abi.IssueDetails{Issues: is})
	}
	if len(cmd.Events) == 0 {
		return Commit{}, abi.NewError(abi.CodeEvent, "the command %s has no events", clip(cmd.ID))
	}
	drafts := make([]Draft, len(cmd.Events))
	for i, d := range cmd.Events {
		if d.CommandID != "" && d.CommandID != cmd.ID {
			return Commit{}, abi.NewError(abi.CodeEvent, "an event of the command %s names the command %s", clip(cmd.ID), clip(d.CommandID))
		}
		d.CommandID = cmd.ID
		drafts[i] = d
	}
	cmd.Events = drafts
	j.mu.Lock()
	defer j.mu.Unlock()
	if b := j.blocked; b != nil {
		return j.unblock(ctx, *b, cmd)
	}
	for try := 0; ; try++ {
		c, err := j.try(ctx, cmd, opt)
		if abi.CodeOf(err) != abi.CodeSequence || opt.ExpectedHead != nil || try >= j.opt.MaxConflictRetries {
			return c, err
		}
		if err := j.reload(ctx); err != nil {
			return Commit{}, err
		}
	}
}

// try writes a command once.
func (j *Journal) try(ctx context.Context, cmd Command, opt CommitOptions) (Commit, error) {
	ch, err := j.state.preview(cmd.Events)
	if err != nil {
		// It may be refused because it is there.
		if c, known, look := j.find(ctx, cmd, Replayed); look == nil && known {
			return c, nil
		} else if abi.CodeOf(look) == abi.CodeCommand {
			return Commit{}, look
		}
		return Commit{}, err
	}
	if err := Expected(j.opt.SessionID, opt.ExpectedHead, j.state.Head); err != nil {
		return Commit{}, err
	}
	events, err := j.append(ctx, cmd.Events)
	if err == nil {
		ch.keep()
		return Commit{Committed, events}, nil
	}
	switch abi.CodeOf(err) {
	case abi.CodeCommand:
		c, known, look := j.find(ctx, cmd, Replayed)
		if look != nil {
			return Commit{}, look
		}
		if known {
			return c, j.reload(ctx)
		}
	case abi.CodeUnknownOutcome:
		return j.lookFor(ctx, cmd, err)
	case "":
		if ctx.Err() != nil || isDeadline(err) {
			return j.lookFor(ctx, cmd, err)
		}
	}
	return Commit{}, err
}

func (j *Journal) append(ctx context.Context, drafts []Draft) ([]Event, error) {
	head := j.state.Head
	opt := AppendOptions{ExpectedLast: &head}
	if j.opt.Guard != nil {
		if err := j.opt.Guard.Err(); err != nil {
			return nil, err
		}
		f, _ := j.opt.Guard.Fence()
		opt.Fence = &f
	}
	ctx, cancel := context.WithTimeout(ctx, j.opt.StoreTimeout)
	defer cancel()
	events, err := j.store.Append(ctx, j.opt.SessionID, drafts, opt)
	if c := abi.CodeOf(err); j.opt.Guard != nil && (c == abi.CodeLeaseStale || c == abi.CodeLeaseRequired || c == abi.CodeLeaseCorrupt) {
		j.opt.Guard.fail(abi.AsError(err)) // the store knows better
	}
	return events, err
}

// find looks for a command in the store.
func (j *Journal) find(ctx context.Context, cmd Command, as CommitStatus) (Commit, bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.opt.StoreTimeout)
	defer cancel()
	events, err := j.store.Command(ctx, j.opt.SessionID, cmd.ID)
	if err != nil || len(events) == 0 {
		return Commit{}, false, err
	}
	if !sameDrafts(events, cmd.Events) {
		return Commit{}, false, abi.NewError(abi.CodeCommand, "the command %s is in the journal with other content, at sequence %d", clip(cmd.ID), events[0].Sequence)
	}
	return Commit{as, events}, true, nil
}

// lookFor ends a write whose outcome is not known.
func (j *Journal) lookFor(ctx context.Context, cmd Command, cause error) (Commit, error) {
	c, known, err := j.find(ctx, cmd, Reconciled)
	if err == nil && known {
		if err = j.reload(context.WithoutCancel(ctx)); err == nil {
			return c, nil
		}
	}
	if abi.CodeOf(err) == abi.CodeCommand {
		return Commit{}, err
	}
	j.blocked = &cmd
	return Commit{}, abi.NewError(abi.CodeUnknownOutcome, "whether the command %s was written is not known (%v); until that is clear, nothing else is written to session %s", clip(cmd.ID), cause, clip(j.opt.SessionID)).Because(cause)
}

// unblock looks for the command whose outcome is not known, if it is sent again.
func (j *Journal) unblock(ctx context.Context, blocked, cmd Command) (Commit, error) {
	if cmd.ID != blocked.ID {
		return Commit{}, abi.NewError(abi.CodeUnknownOutcome, "the command %s is refused: whether %s was written is not known; send that again, or open the journal anew", clip(cmd.ID), clip(blocked.ID))
	}
	c, known, err := j.find(ctx, cmd, Reconciled)
	if err != nil {
		return Commit{}, err
	}
	if !known {
		return Commit{}, abi.NewError(abi.CodeUnknownOutcome, "the command %s is not in the journal, but it may still come; it is not written again", clip(cmd.ID))
	}
	if err := j.reload(ctx); err != nil {
		return Commit{}, err
	}
	j.blocked = nil
	return c, nil
}

// Create opens the session with a session_created, unless it is open. source is
// create, resume or fork; for a session that was closed it is always resume.
func (j *Journal) Create(ctx context.Context, source, parent string) error {
	j.mu.Lock()
	last, head := j.state.Last, j.state.Head
	j.mu.Unlock()
	if last == SessionCreated {
		return nil
	}
	if last == SessionClosed {
		source, parent = "resume", ""
	}
	_, err := j.Commit(ctx, Command{ID: newID("session"), Events: []Draft{
		draft(SessionCreated, Scope{}, SessionCreatedData{Source: source, ParentSessionID: parent}),
	}}, CommitOptions{ExpectedHead: &head})
	return err
}

// End closes the session. It is refused while a tool attempt or a permission is
// open. reason is completed, user, shutdown or error.
func (j *Journal) End(ctx context.Context, reason string) error {
	_, err := j.Commit(ctx, Command{ID: newID("session"), Events: []Draft{
		draft(SessionClosed, Scope{}, SessionClosedData{Reason: reason}),
	}}, CommitOptions{})
	return err
}

// Handoff gives the session to another owner. It is refused, and the lease kept,
// while a tool attempt is open or the session has work that is not cleaned up.
func (j *Journal) Handoff(ctx context.Context, owner string) (Lease, error) {
	if j.opt.Guard == nil {
		return Lease{}, abi.NewError(abi.CodeLeaseRequired, "the session %s has no lease to hand over", clip(j.opt.SessionID))
	}
	j.mu.Lock() // nothing is written meanwhile
	defer j.mu.Unlock()
	if n := len(j.state.open); n > 0 {
		return Lease{}, abi.NewError(abi.CodeCleanup, "session %s cannot be handed over: %d tool calls have not ended", clip(j.opt.SessionID), n)
	}
	return j.opt.Guard.Handoff(ctx, owner)
}

// Runtime is the guard as the runtime of a session, or nil without one.
func (j *Journal) Runtime() tool.Runtime {
	if j.opt.Guard == nil {
		return nil
	}
	return j.opt.Guard
}
