package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

// spawn runs a child until it is dead. It must be killed, unless the order has no
// point.
func spawn(t *testing.T, dir string, o order) (killed bool) {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+dir, childEnv+"_ORDER="+string(raw))
	var msg bytes.Buffer
	cmd.Stderr = &msg
	err = cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("the child did not end: %s", msg.String())
	}
	if err == nil {
		return false
	}
	if cmd.ProcessState.ExitCode() == 1 && runtime.GOOS != "windows" { // Windows kills with code 1
		t.Fatalf("the child failed: %s", msg.String())
	}
	return true
}

// tally is what the loop counts.
type tally struct {
	// acknowledged counts records of all files; before is that of earlier files.
	rounds, killed, acknowledged, before, lost, torn, duplicated, forgotten, wrong int
}

// lines of a file of the child, by session and call.
func lines(t *testing.T, path string) (out [][]string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(b)) {
		out = append(out, strings.Fields(l))
	}
	return out
}

var eventOfPoint = map[string]journal.Type{
	"afterScheduled": journal.ToolScheduled, "afterPermissionRequested": journal.PermissionRequested,
	"afterPermissionResolved": journal.PermissionResolved, "afterStarted": journal.ToolStarted, "afterEffect": journal.ToolStarted,
}

// callState is what the journal says of one call.
type callState struct {
	types  map[journal.Type]int
	effect abi.SideEffect
	last   journal.Type
	denied bool
}

func states(t *testing.T, s journal.Store, session string) map[string]*callState {
	t.Helper()
	out, ids := map[string]*callState{}, map[string]string{}
	for after := int64(0); ; {
		p, err := s.Read(t.Context(), session, journal.ReadOptions{After: after, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Events {
			var d struct {
				ToolCallID string         `json:"toolCallId"`
				SideEffect abi.SideEffect `json:"sideEffect"`
				Decision   string         `json:"decision"`
			}
			if e.ToolAttemptID == "" {
				continue
			}
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatal(err)
			}
			if d.ToolCallID != "" {
				ids[e.ToolAttemptID] = d.ToolCallID
			}
			c := out[ids[e.ToolAttemptID]]
			if c == nil {
				c = &callState{types: map[journal.Type]int{}}
				out[ids[e.ToolAttemptID]] = c
			}
			if d.SideEffect != "" {
				c.effect = d.SideEffect
			}
			c.types[e.Type]++
			c.last = e.Type
			c.denied = c.denied || d.Decision == "deny" || d.Decision == "cancel"
		}
		if after = p.Next; !p.HasMore {
			return out
		}
	}
}

// class is the plan as the specification has it, from the events alone.
func (c *callState) class() journal.Class {
	started := c.types[journal.ToolStarted] > 0
	switch {
	case c.last.Ends():
		return ""
	case started && c.effect == abi.SideEffectNonIdempotent:
		return journal.ClassUnknown
	case c.types[journal.PermissionRequested] > c.types[journal.PermissionResolved]:
		return journal.ClassPermission
	case c.denied:
		return journal.ClassCancelable
	}
	return journal.ClassRetryable
}

// examine compares the journal with what the dead process had acknowledged and
// done, and with the plan.
func (n *tally) examine(t *testing.T, dir string, sessions int) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(dir, "j.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	r, err := s.Verify(t.Context(), "", nil)
	if err != nil || r.Found > 0 {
		n.torn++
		t.Errorf("%+v %v", r, err)
	}
	all := map[string]map[string]*callState{}
	for i := range sessions {
		id := fmt.Sprintf("s%d", i)
		all[id] = states(t, s, id)
		n.plan(t, s, id, all[id])
		for call, c := range all[id] {
			for typ, k := range c.types {
				if k > 1 {
					n.duplicated++
					t.Errorf("%s %s: %s is there %d times", id, call, typ, k)
				}
			}
		}
	}
	acks := lines(t, filepath.Join(dir, "acks"))
	n.acknowledged = n.before + len(acks)
	for _, l := range acks {
		c := all[l[0]][l[1]]
		want := eventOfPoint[l[2]]
		if c == nil || (want != "" && c.types[want] == 0) || (l[2] == "afterSettled" && !c.last.Ends()) {
			n.lost++
			t.Errorf("acknowledged and lost: %v", l)
		}
	}
	done := map[string]int{}
	for _, l := range lines(t, filepath.Join(dir, "effects")) {
		c := all[l[0]][l[1]]
		if c == nil || c.types[journal.ToolStarted] == 0 {
			n.forgotten++
			t.Errorf("it ran, and no start is recorded: %v", l)
			continue
		}
		if done[l[0]+" "+l[1]]++; c.effect == abi.SideEffectNonIdempotent && done[l[0]+" "+l[1]] > 1 {
			n.duplicated++
			t.Errorf("an effect that may not be repeated was: %v", l)
		}
	}
}

func (n *tally) plan(t *testing.T, s journal.Store, id string, calls map[string]*callState) {
	t.Helper()
	if head, err := s.Head(t.Context(), id); err != nil || head == 0 {
		return // killed before the session began
	}
	p, err := journal.PlanOf(t.Context(), s, id)
	if err != nil {
		t.Fatal(err)
	}
	want := map[journal.Class][]string{}
	for call, c := range calls {
		if k := c.class(); k != "" {
			want[k] = append(want[k], call)
		}
	}
	for k, list := range map[journal.Class][]journal.Attempt{journal.ClassUnknown: p.Unknown, journal.ClassPermission: p.Permissions, journal.ClassRetryable: p.Retryable, journal.ClassCancelable: p.Cancelable} {
		if len(list) != len(want[k]) || (len(list) == 1 && list[0].ToolCallID != want[k][0]) {
			n.wrong++
			t.Errorf("%s: the plan has %v as %s, want %v", id, list, k, want[k])
		}
	}
}

// settle recovers everything that is open, as an operator would: what may have
// run is looked up outside, what may be repeated is repeated.
func settle(t *testing.T, dir string, sessions int) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "j.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	k := &killed{dir: dir, acks: io.Discard}
	h, err := host.New(host.Options{Tools: tools(k)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close(t.Context()) }()
	ran := map[string]bool{}
	for _, l := range lines(t, filepath.Join(dir, "effects")) {
		ran[l[0]+" "+l[1]] = true
	}
	for i := range sessions {
		id := fmt.Sprintf("s%d", i)
		if head, err := store.Head(t.Context(), id); err != nil || head == 0 {
			continue
		}
		guard, err := journal.Acquire(t.Context(), store, id, journal.GuardOptions{}) // the owner is dead: no wait
		if err != nil {
			t.Fatal(err)
		}
		j, err := journal.Open(t.Context(), store, journal.Options{SessionID: id, Guard: guard})
		if err != nil {
			t.Fatal(err)
		}
		settleOne(t, h, j, ran)
		if err := guard.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func settleOne(t *testing.T, h *host.Host, j *journal.Journal, ran map[string]bool) {
	t.Helper()
	rec := j.Recorder(journal.RecorderOptions{})
	s, err := h.NewSession(host.SessionOptions{ID: j.SessionID(), Lifecycle: rec, Runtime: j.Runtime(), AutoApprove: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range j.Attempts() {
		var err error
		switch a.Class() {
		case journal.ClassUnknown:
			o := journal.Outcome{Cancelled: true}
			if ran[j.SessionID()+" "+a.ToolCallID] {
				o = journal.Outcome{Completed: json.RawMessage(`"done"`)}
			}
			err = j.Reconcile(t.Context(), a.ID, o)
		case journal.ClassPermission:
			err = j.ResolvePermission(t.Context(), a.ID, "deny", "")
		case journal.ClassCancelable:
			err = j.Cancel(t.Context(), a.ID)
		case journal.ClassRetryable:
			_, err = rec.Replay(t.Context(), s, a.ID)
		}
		if err != nil {
			t.Fatalf("%s %s: %v", a.Class(), a.ID, err)
		}
	}
	if p := j.Plan(); p.Action != journal.ActionNone {
		t.Errorf("still open: %+v", p)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// DUR-04 DUR-15: killed at any boundary, over and over on one file: no
// acknowledged record is lost, no call that started is forgotten, no effect is
// repeated that may not be, the plan is as specified, and after recovery the next
// process goes on. It prints what it counted.
func TestKillLoop(t *testing.T) {
	if testing.Short() {
		t.Skip("many processes")
	}
	points := []string{
		"beforeScheduled", "afterScheduled", "beforePermissionRequested", "afterPermissionRequested", "beforePermissionResolved", "afterPermissionResolved",
		"beforeStarted", "afterStarted", "beforeEffect", "afterEffect", "beforeSettled", "afterSettled", "beforeCommit", "afterCommit",
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	const sessions = 3
	var n tally
	next := 0
	for n.rounds = 0; n.rounds < *rounds; n.rounds++ {
		if n.rounds%25 == 24 { // a new file
			dir, n.before = t.TempDir(), n.acknowledged
		}
		o := order{Point: points[n.rounds%len(points)], Count: 1 + rnd.IntN(12), Sessions: sessions, Calls: 18, First: next}
		next += o.Calls
		if spawn(t, dir, o) {
			n.killed++
		}
		n.examine(t, dir, sessions)
		settle(t, dir, sessions)
		var after tally
		after.examine(t, dir, sessions) // recovery itself breaks nothing
		if t.Failed() {
			t.Fatalf("round %d, killed at %s the %d. time: %+v", n.rounds, o.Point, o.Count, n)
		}
	}
	fmt.Printf("kill loop: %d rounds, %d killed, %d acknowledged, %d lost, %d torn, %d duplicated, %d forgotten, %d wrong plans\n",
		n.rounds, n.killed, n.acknowledged, n.lost, n.torn, n.duplicated, n.forgotten, n.wrong)
	if n.killed < n.rounds*9/10 {
		t.Errorf("only %d of %d were killed", n.killed, n.rounds)
	}
}

// DUR-13 DUR-14 DUR-15: the plan after a kill at each boundary, as specified.
func TestKillAtEachBoundary(t *testing.T) {
	if testing.Short() {
		t.Skip("many processes")
	}
	const none = journal.Class("")
	for _, c := range []struct {
		point, effect, confirm string
		want                   journal.Class
	}{
		{"beforeScheduled", "non_idempotent", "none", none},
		{"afterScheduled", "non_idempotent", "none", journal.ClassRetryable},
		{"beforePermissionRequested", "non_idempotent", "allow", journal.ClassRetryable},
		{"afterPermissionRequested", "pure", "allow", journal.ClassPermission},
		{"beforePermissionResolved", "pure", "deny", journal.ClassPermission},
		{"afterPermissionResolved", "non_idempotent", "allow", journal.ClassRetryable},
		{"afterPermissionResolved", "pure", "deny", journal.ClassCancelable},
		{"beforeStarted", "non_idempotent", "none", journal.ClassRetryable},
		{"afterStarted", "pure", "none", journal.ClassRetryable},
		{"afterStarted", "idempotent", "allow", journal.ClassRetryable},
		{"afterStarted", "non_idempotent", "none", journal.ClassUnknown},
		{"beforeEffect", "non_idempotent", "allow", journal.ClassUnknown},
		{"afterEffect", "pure", "none", journal.ClassRetryable},
		{"afterEffect", "non_idempotent", "none", journal.ClassUnknown},
		{"beforeSettled", "non_idempotent", "none", journal.ClassUnknown},
		{"beforeSettled", "pure", "deny", journal.ClassCancelable},
		{"afterSettled", "non_idempotent", "none", none},
	} {
		t.Run(c.point+" "+c.effect+" "+c.confirm, func(t *testing.T) {
			dir := t.TempDir()
			if !spawn(t, dir, order{Point: c.point, Count: 1, Sessions: 1, Calls: 1, Effect: c.effect, Confirm: c.confirm}) {
				t.Fatal("it was not killed")
			}
			s, err := sqlite.Open(t.Context(), filepath.Join(dir, "j.db"), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := journal.PlanOf(t.Context(), s, "s0")
			if err != nil {
				t.Fatal(err)
			}
			_ = s.Close()
			got := map[journal.Class]int{journal.ClassUnknown: len(p.Unknown), journal.ClassPermission: len(p.Permissions), journal.ClassRetryable: len(p.Retryable), journal.ClassCancelable: len(p.Cancelable)}
			for k, n := range got {
				if want := map[bool]int{true: 1}[k == c.want]; n != want {
					t.Errorf("%d attempts are %s, want %d", n, k, want)
				}
			}
			settle(t, dir, 1)
		})
	}
}
