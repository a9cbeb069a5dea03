package host

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// Call is one request to run a tool.
type Call struct {
	// ID is the model's id for the call, unique in the session; empty means a
	// new random one.
	ID string
	// Tool is a name or an alias.
	Tool string
	// Input is the input as JSON. Arguments is it as the raw text of a provider,
	// which is parsed; it counts where Input is nil.
	Input     json.RawMessage
	Arguments string
	MessageID string
	TurnID    string
	// ModelAttemptID is handed on to the lifecycle.
	ModelAttemptID string
	// Step is the agent's own words for where it is, cut at 500 UTF-16 units.
	Step string
	// Mode is the permission mode of this call; empty means the session's.
	Mode policy.Mode
	// Timeout may lower the session's ToolTimeout; 0 means the session's.
	Timeout time.Duration
	// Approved says that a person asked for exactly this call, as on a command
	// line: a confirmation is not asked for, but deny rules, plan mode and path
	// checks count all the same.
	Approved bool
	// Grants is lent to this call alone, if its tool is a plugin's, beside what the tool
	// is lent: what a user granted once. It is not kept in a journal.
	Grants *ToolGrants
}

// Execution is a call in flight. Range over Yields once, then ask for Result; or
// ask for Result only, which drops the yields. A consumer that stops ranging
// before the end cancels the call. Safe for concurrent use.
type Execution struct {
	id     string
	cancel context.CancelCauseFunc
	queue  *yieldQueue
	done   chan struct{}
	result *abi.Result
	err    error
}

// ID is the call's id.
func (x *Execution) ID() string { return x.id }

// Cancel cancels the call; Result then tells how it ended. It does not wait and
// may be called any time.
func (x *Execution) Cancel(why string) {
	x.cancel(&tool.CancelError{Reason: abi.CancelRequest, Detail: why})
}

// Done is closed when Result does not block any more.
func (x *Execution) Done() <-chan struct{} { return x.done }

// Yields are the yields in the order the tool sent them. The tool waits while
// the loop is behind, except that progress that nobody has seen yet is replaced
// by newer progress.
func (x *Execution) Yields() iter.Seq[abi.Yield] {
	return func(yield func(abi.Yield) bool) {
		for {
			y, ok := x.queue.pop()
			if !ok {
				return
			}
			if !yield(y) {
				x.cancel(&tool.CancelError{Reason: abi.CancelConsumer})
				x.queue.drop()
				return
			}
		}
	}
}

// Result waits for the end of the call, drops the yields that nobody ranged
// over, and returns the one result. What the tool or the host found wrong is a
// result; an error means that the run itself failed (a durable record could not
// be written, the session is quarantined), so that no result was published.
func (x *Execution) Result() (*abi.Result, error) {
	x.queue.drop()
	<-x.done
	return x.result, x.err
}

// queued is how many yields wait for a slow consumer before the tool does.
const queued = 64

// yieldQueue hands yields from a call to its consumer.
type yieldQueue struct {
	mu      sync.Mutex
	items   []abi.Yield
	closed  bool
	dropped bool
	// wake is closed and renewed when something changed.
	wake chan struct{}
}

func newYieldQueue() *yieldQueue { return &yieldQueue{wake: make(chan struct{})} }

func (q *yieldQueue) changed() {
	close(q.wake)
	q.wake = make(chan struct{})
}

// push adds a yield and waits while the queue is full, until ctx ends. idle is
// called before waiting.
func (q *yieldQueue) push(ctx context.Context, y abi.Yield, idle func() func()) error {
	var resume func()
	defer func() {
		if resume != nil {
			resume()
		}
	}()
	for {
		q.mu.Lock()
		switch n := len(q.items); {
		case q.dropped || q.closed:
			q.mu.Unlock()
			return nil
		case n < queued:
			q.items = append(q.items, y)
			q.changed()
			q.mu.Unlock()
			return nil
		case y.Kind == abi.YieldProgress && q.items[n-1].Kind == abi.YieldProgress:
			q.items[n-1] = y
			q.mu.Unlock()
			return nil
		}
		wake := q.wake
		q.mu.Unlock()
		if resume == nil && idle != nil {
			resume = idle()
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pop waits for the next yield; false means that there are no more.
func (q *yieldQueue) pop() (abi.Yield, bool) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 && !q.dropped {
			y := q.items[0]
			q.items = q.items[1:]
			q.changed()
			q.mu.Unlock()
			return y, true
		}
		if q.closed || q.dropped {
			q.mu.Unlock()
			return abi.Yield{}, false
		}
		wake := q.wake
		q.mu.Unlock()
		<-wake
	}
}

// drop says that nobody reads any more.
func (q *yieldQueue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.dropped {
		q.dropped, q.items = true, nil
		q.changed()
	}
}

// end says that there will be no more yields.
func (q *yieldQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		q.changed()
	}
}

// Start runs a call and returns at once. The call lives until its result, not
// longer than ctx.
func (s *Session) Start(ctx context.Context, c Call) *Execution { return s.start(ctx, c, nil) }

// Run is Start and Result in one.
func (s *Session) Run(ctx context.Context, c Call) (*abi.Result, error) {
	r := s.newRun(ctx, c, nil)
	r.x.queue.drop()
	r.execute()
	return r.x.result, r.x.err
}

func (s *Session) start(ctx context.Context, c Call, b *batch) *Execution {
	c.Input = cloneRaw(c.Input)
	r := s.newRun(ctx, c, b)
	go r.execute() // ends with the call; Result waits for it
	return r.x
}
