package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/sqlite"
	"github.com/bladehost/bladehost/host/tool"
)

// childEnv tells a process of this test that it is the one to be killed, and its
// folder.
const childEnv = "BLADEHOST_JOURNAL_CHILD"

// order is what the parent tells its child.
type order struct {
	// Point is the failpoint to be killed at, Count the how manieth time it is
	// reached. An empty point runs on until the parent kills.
	Point string
	Count int
	// Sessions run at once, each with Calls calls from First on.
	Sessions, Calls, First int
	// Effect and Confirm, where set, hold for all calls.
	Effect, Confirm string
}

// plan of call n: its side effect, and what becomes of its permission: none,
// allow or deny.
func (o order) call(n int) (effect, confirm string) {
	effect = []string{"pure", "idempotent", "non_idempotent"}[n%3]
	confirm = []string{"none", "allow", "deny"}[n/3%3]
	if o.Effect != "" {
		effect = o.Effect
	}
	if o.Confirm != "" {
		confirm = o.Confirm
	}
	return effect, confirm
}

// killed is what the child keeps while it lives.
type killed struct {
	order order
	dir   string
	acks  io.Writer

	mu    sync.Mutex
	count int
}

// ack notes that a boundary was passed, where a kill cannot take it away, and dies
// if it is the one.
func (k *killed) at(session, call, point string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if strings.HasPrefix(point, "after") && session != "" {
		if _, err := fmt.Fprintf(k.acks, "%s %s %s\n", session, call, point); err != nil {
			panic(err)
		}
	}
	if point == k.order.Point {
		if k.count++; k.count == k.order.Count {
			die()
		}
	}
}

func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		_ = p.Kill() // SIGKILL: nothing is cleaned up
	}
	select {}
}

// effector is a tool with an effect outside: a line in a file.
type effector struct {
	k    *killed
	spec abi.ToolSpec
}

func newEffector(k *killed, effect abi.SideEffect) *effector {
	return &effector{k, abi.ToolSpec{
		Name: "Tool_" + string(effect), Description: abi.Description{Short: "writes a line"}, Parameters: json.RawMessage(`{"type":"object"}`),
		Kind: abi.KindExecute, SideEffect: effect, Interrupt: abi.InterruptBlock,
	}}
}

func (e *effector) Spec() *abi.ToolSpec { return &e.spec }

func (e *effector) Execute(_ context.Context, c *tool.Call) (*abi.Result, error) {
	e.k.at("", "", "beforeEffect")
	f, err := os.OpenFile(filepath.Join(e.k.dir, "effects"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if _, err := fmt.Fprintf(f, "%s %s\n", c.SessionID(), c.ToolCallID()); err != nil {
		return nil, err
	}
	e.k.at(c.SessionID(), c.ToolCallID(), "afterEffect")
	return abi.Text("done"), nil
}

func tools(k *killed) []tool.Tool {
	return []tool.Tool{newEffector(k, abi.SideEffectPure), newEffector(k, abi.SideEffectIdempotent), newEffector(k, abi.SideEffectNonIdempotent)}
}

// child makes calls until it is killed, or all are made.
func child(dir string) int {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(childEnv+"_ORDER")), &o); err != nil {
		return fail(err)
	}
	acks, err := os.OpenFile(filepath.Join(dir, "acks"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fail(err)
	}
	k := &killed{order: o, dir: dir, acks: acks}
	store, err := sqlite.Open(context.Background(), filepath.Join(dir, "j.db"), sqlite.Options{Failpoint: func(p string) { k.at("", "", p) }})
	if err != nil {
		return fail(err)
	}
	if o.Point == pausePoint {
		return paused(store)
	}
	h, err := host.New(host.Options{Tools: tools(k)})
	if err != nil {
		return fail(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, o.Sessions)
	for i := range o.Sessions {
		wg.Go(func() { errs[i] = k.session(h, store, fmt.Sprintf("s%d", i)) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fail(err)
	}
	if err := errors.Join(h.Close(context.Background()), store.Close()); err != nil {
		return fail(err)
	}
	return 0
}

// pausePoint is the point of a child that is paused, not killed.
const pausePoint = "pause"

// paused owns a session with a short lease, and tells how it fares after a pause.
func paused(store journal.Store) int {
	ctx := context.Background()
	g, err := journal.Acquire(ctx, store, "s", journal.GuardOptions{TTL: 3 * time.Second})
	if err != nil {
		return fail(err)
	}
	j, err := journal.Open(ctx, store, journal.Options{SessionID: "s", Guard: g})
	if err == nil {
		err = j.Create(ctx, "create", "")
	}
	if err != nil {
		return fail(err)
	}
	fmt.Println("owner", g.Lease().Token)
	if _, err := os.Stdin.Read(make([]byte, 10)); err != nil { // until the parent says so
		return fail(err)
	}
	fence, _ := g.Fence()
	_, direct := store.Append(ctx, "s", []journal.Draft{{Type: journal.SessionClosed, Data: json.RawMessage(`{"reason":"user"}`)}}, journal.AppendOptions{Fence: &fence})
	<-g.Lost()
	fmt.Println("lost", abi.CodeOf(g.Err()), abi.CodeOf(direct), abi.CodeOf(j.End(ctx, "user")))
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func (k *killed) session(h *host.Host, store journal.Store, id string) error {
	ctx := context.Background()
	guard, err := journal.Acquire(ctx, store, id, journal.GuardOptions{})
	if err != nil {
		return err
	}
	j, err := journal.Open(ctx, store, journal.Options{SessionID: id, Guard: guard})
	if err != nil {
		return err
	}
	if err := j.Create(ctx, "create", ""); err != nil {
		return err
	}
	current := ""
	s, err := h.NewSession(host.SessionOptions{
		ID: id, Runtime: guard, AllowUndiscovered: true,
		Lifecycle: j.Recorder(journal.RecorderOptions{RequestID: "r", TurnID: "t", Failpoint: func(p string) { k.at(id, current, p) }}),
		Confirm: tool.ConfirmFunc(func(_ context.Context, c tool.Confirmation) (tool.ConfirmationAnswer, error) {
			return tool.ConfirmationAnswer{Approved: strings.Contains(string(c.Args), `"allow"`)}, nil
		}),
	})
	if err != nil {
		return err
	}
	for n := k.order.First; n < k.order.First+k.order.Calls; n++ {
		effect, confirm := k.order.call(n)
		current = fmt.Sprintf("c%d", n)
		c := host.Call{ID: current, Tool: "Tool_" + effect, Input: json.RawMessage(fmt.Sprintf(`{"confirm":%q}`, confirm))}
		if confirm == "none" {
			c.Mode = "yolo"
		}
		if _, err := s.Run(ctx, c); err != nil {
			return err
		}
	}
	if err := s.Close(ctx); err != nil {
		return err
	}
	return guard.Release(ctx)
}

// deadline bounds a child that should have been killed.
const deadline = 30 * time.Second
