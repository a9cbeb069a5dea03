package host

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
	"github.com/bladehost/bladehost/host/tool"
)

// Outcome is the end of one call of a turn. Err is set where the run itself
// failed; then there is no result.
type Outcome struct {
	ID     string
	Result *abi.Result
	Err    error
}

// Turn is the calls of one model turn, on their way.
type Turn struct {
	executions []*Execution
	done       chan struct{}
	b          *batch
}

// batch ties the calls of a turn together.
type batch struct {
	cancel context.CancelCauseFunc
	runs   []*run
}

// Plan says how the calls of a turn run: one after another when there is exactly
// one or the mode is plan, else together.
func Plan(calls int, mode policy.Mode) (parallel bool) {
	return calls != 1 && mode != policy.ModePlan
}

// Turn starts the calls of one model turn. Results come in the order of the
// calls, whatever the order they end in. Each call has exactly one.
func (s *Session) Turn(ctx context.Context, calls []Call) *Turn {
	ctx, cancel := context.WithCancelCause(orBackground(ctx))
	t := &Turn{done: make(chan struct{}), b: &batch{cancel: cancel}}
	runs := make([]*run, len(calls))
	for i, c := range calls {
		c.Input = cloneRaw(c.Input)
		runs[i] = s.newRun(ctx, c, t.b)
		t.executions = append(t.executions, runs[i].x)
	}
	t.b.runs = runs
	go func() { // Wait waits for it
		defer close(t.done)
		defer cancel(nil)
		parallel := Plan(len(calls), s.Mode())
		var wg sync.WaitGroup
		for _, r := range runs {
			wg.Go(r.execute)
			if !parallel {
				wg.Wait()
			}
		}
		wg.Wait()
	}()
	return t
}

// cascade cancels the siblings of a call whose tool asks for that.
func (b *batch) cascade() {
	b.cancel(&tool.CancelError{Reason: abi.CancelRequest, Detail: string(abi.CodeCascade)})
}

// Executions are the calls, in order. Their yields can be ranged over.
func (t *Turn) Executions() []*Execution { return t.executions }

// Wait waits for all calls and returns their outcomes in call order. Yields that
// nobody ranged over are dropped.
func (t *Turn) Wait() []Outcome {
	for _, x := range t.executions {
		x.queue.drop()
	}
	<-t.done
	out := make([]Outcome, len(t.executions))
	for i, x := range t.executions {
		out[i] = Outcome{ID: x.id, Result: x.result, Err: x.err}
	}
	return out
}

// Messages are the messages that effects of the calls ask to append after all
// results of the turn, in call order. It waits like Wait.
func (t *Turn) Messages() []json.RawMessage {
	t.Wait()
	var out []json.RawMessage
	for _, r := range t.b.runs {
		out = append(out, r.messages...)
	}
	return out
}
