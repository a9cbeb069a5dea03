package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/sqlite"
	"github.com/bladehost/bladehost/host/policy"
)

// recoverFlags are what an operator decided.
type recoverFlags struct {
	hostFlags
	plugins    []string
	reconcile  []string
	permission []string
	cancel     []string
	replay     []string
	result     string
	message    string
	elsewhere  bool
}

func (f recoverFlags) acts() bool {
	return len(f.reconcile)+len(f.permission)+len(f.cancel)+len(f.replay) > 0
}

func journalRecover(a *app, keep *journalFlags) *cobra.Command {
	var f recoverFlags
	c := &cobra.Command{
		Use: "recover [SESSION]", Short: "Say what is open after a crash, and settle it", Args: rangeArgs(0, 1),
		Long: `Say for every open call of a session, or of all, whether it ran and what may be
done: look at it (it may have had its effect), decide its permission, make it
again, or cancel it. With flags it is done, for one SESSION, in the order of the
flags below; then what is still open is shown. A session that a living process
owns is not touched. --cancel and --replay take "all", which leaves out calls
whose outcome is not known. --replay needs the current folder and the --root that
the calls had; a call that is open afterwards all the same is an error.`,
		Example: `  bladehost journal recover
  bladehost journal recover S --reconcile attempt_x=completed --result '"sent"'
  bladehost journal recover S --replay all --root .`,
		RunE: func(c *cobra.Command, args []string) error { return a.journalRecover(c.Context(), *keep, f, args) },
	}
	fs := c.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&f.reconcile, "reconcile", nil, "`ATTEMPT=OUTCOME`: completed, failed or cancelled, what you found out about a call that may have run")
	fs.StringVar(&f.result, "result", "", "`JSON` that the model should read as the result of --reconcile …=completed (default null)")
	fs.StringVar(&f.message, "message", "", "`text` of the error of --reconcile …=failed, or of a permission")
	fs.StringArrayVar(&f.permission, "permission", nil, "`ATTEMPT=DECISION`: allow, deny or cancel a permission that waits")
	fs.StringArrayVar(&f.cancel, "cancel", nil, "`ATTEMPT` that will not be made again, or all")
	fs.StringArrayVar(&f.replay, "replay", nil, "`ATTEMPT` that is made again with the recorded input, or all")
	fs.BoolVar(&f.elsewhere, "elsewhere", false, "let --replay make calls in another current folder or with other --root than they had")
	fs.StringArrayVar(&f.plugins, "plugin", nil, "plugin `file` or folder for --replay, beside the installed ones (may be repeated)")
	f.hostFlags.add(fs)
	return c
}

func (a *app) journalRecover(ctx context.Context, keep journalFlags, f recoverFlags, args []string) error {
	if f.acts() && len(args) == 0 {
		return usage("name the SESSION to recover; bladehost journal recover lists those with open calls")
	}
	if err := f.check(); err != nil {
		return err
	}
	s, err := a.openJournal(ctx, keep, sqlite.Options{ReadOnly: !f.acts()})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // what was acknowledged is kept
	if !f.acts() {
		return a.showPlans(ctx, s, args)
	}
	if _, err := journal.PlanOf(ctx, s, args[0]); err != nil { // before a lease makes it a session
		return err
	}
	k := &kept{a: a, store: s}
	if err := k.own(ctx, args[0], 0); err != nil {
		return err
	}
	err = a.recover(ctx, k, f)
	err = errors.Join(err, k.guard.Release(context.WithoutCancel(ctx)))
	return errors.Join(err, a.showPlans(ctx, s, args))
}

// check refuses flags that say nothing, before anything is done.
func (f recoverFlags) check() error {
	completed := false
	for _, v := range f.reconcile {
		id, what, _ := strings.Cut(v, "=")
		if id == "" || !slices.Contains([]string{"completed", "failed", "cancelled"}, what) {
			return usage("--reconcile %s: give ATTEMPT=OUTCOME; the outcome is completed, failed or cancelled", quoted(v))
		}
		completed = completed || what == "completed"
	}
	for _, v := range f.permission {
		id, what, _ := strings.Cut(v, "=")
		if id == "" || !slices.Contains([]string{journal.DecisionAllow, journal.DecisionDeny, journal.DecisionCancel}, what) {
			return usage("--permission %s: give ATTEMPT=DECISION; the decision is allow, deny or cancel", quoted(v))
		}
	}
	switch {
	case f.result != "" && !completed:
		return usage("--result is for --reconcile ATTEMPT=completed, and none is given")
	case f.message != "" && len(f.reconcile)+len(f.permission) == 0:
		return usage("--message is for --reconcile ATTEMPT=failed or for --permission, and none is given")
	}
	return nil
}

// recover does what the flags say, and stops at the first that fails.
func (a *app) recover(ctx context.Context, k *kept, f recoverFlags) error {
	for _, v := range f.reconcile {
		id, what, _ := strings.Cut(v, "=")
		o, err := f.outcome(what)
		if err != nil {
			return err
		}
		if err := k.j.Reconcile(ctx, id, o); err != nil {
			return err
		}
	}
	for _, v := range f.permission {
		id, decision, _ := strings.Cut(v, "=")
		if err := k.j.ResolvePermission(ctx, id, decision, f.message); err != nil {
			return err
		}
	}
	for _, v := range f.cancel {
		list := []string{v}
		if v == "all" {
			list = nil
			for _, at := range k.j.Attempts() {
				if at.Class() != journal.ClassUnknown {
					list = append(list, at.ID)
				}
			}
		}
		for _, id := range list {
			if err := k.j.Cancel(ctx, id); err != nil {
				return err
			}
		}
	}
	if len(f.replay) > 0 {
		return a.replay(ctx, k, f)
	}
	return nil
}

func (f recoverFlags) outcome(what string) (journal.Outcome, error) {
	switch what {
	case "completed":
		result := json.RawMessage(f.result)
		if f.result == "" {
			result = json.RawMessage("null")
		}
		return journal.Outcome{Completed: result}, nil
	case "failed":
		no := false
		message := f.message
		if message == "" {
			message = "it failed, as an operator found out"
		}
		return journal.Outcome{Failed: &journal.ErrorData{Message: message, Retryable: &no}}, nil
	case "cancelled":
		return journal.Outcome{Cancelled: true}, nil
	}
	return journal.Outcome{}, usage("--reconcile ATTEMPT=%s: the outcome is completed, failed or cancelled", what)
}

// replay makes calls again, in a session that is the journal's.
func (a *app) replay(ctx context.Context, k *kept, f recoverFlags) error {
	if err := f.lend.keepOut(k.store.Path()); err != nil {
		return err
	}
	opt, err := a.sessionOptions(f.hostFlags)
	if err != nil {
		return err
	}
	if opt.Mode == "" {
		opt.Mode = policy.ModeDefault
	}
	g, err := a.openGuests(ctx, f.hostFlags, f.plugins)
	if err != nil {
		return err
	}
	defer g.close()
	opt.Plugins = g.attached
	rec := k.j.Recorder(journal.RecorderOptions{})
	opt.ID, opt.Lifecycle, opt.Runtime, opt.AllowUndiscovered = k.j.SessionID(), rec, k.guard, true
	s, err := g.host.NewSession(opt)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }() // each call has ended
	defer g.lender.watch(ctx, s, g.plugins)()
	var failed []error
	for _, v := range f.replay {
		list := []string{v}
		if v == "all" {
			list = nil
			for _, at := range k.j.Plan().Retryable {
				list = append(list, at.ID)
			}
		}
		for n, id := range list {
			err := f.samePlace(k.j, id, placeOf(opt))
			if err == nil {
				err = a.replayOne(ctx, rec, s, id, n+1, len(list))
			}
			if err == nil {
				err = stillOpen(k.j, id)
			}
			if err != nil && (v != "all" || k.guard.Err() != nil || ctx.Err() != nil) {
				return err
			}
			if err != nil { // the others are made all the same
				a.note("%s: %v", id, err)
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

// samePlace refuses a call that would be made elsewhere than it was: a relative path
// or a command would mean something else there.
func (f recoverFlags) samePlace(j *journal.Journal, id string, now *journal.Place) error {
	at, ok := openAttempt(j, id)
	if !ok || at.Place == nil || now == nil || f.elsewhere {
		return nil // the replay says what is wrong with it
	}
	was := at.Place
	if was.Cwd == now.Cwd && slices.Equal(sorted(was.Roots), sorted(now.Roots)) {
		return nil
	}
	return abi.NewError(abi.CodeRecovery, "the call %s of %s was made in %s with %s, and would be made in %s with %s now, where it may mean something else; go there and give the same --root, or say --elsewhere",
		at.ID, at.ToolName, orNone(was.Cwd), rootsText(was.Roots), orNone(now.Cwd), rootsText(now.Roots))
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func orNone(dir string) string {
	if dir == "" {
		return "no folder"
	}
	return quoted(dir)
}

// rootsText are workspace folders as flags.
func rootsText(roots []string) string {
	if len(roots) == 0 {
		return "no --root"
	}
	var flags []string
	for _, r := range roots {
		flags = append(flags, "--root "+quoted(r))
	}
	return strings.Join(flags, " ")
}

func openAttempt(j *journal.Journal, id string) (journal.Attempt, bool) {
	for _, at := range j.Attempts() {
		if at.ID == id {
			return at, true
		}
	}
	return journal.Attempt{}, false
}

// stillOpen is the error of a call that was to be made again and did not come to run.
func stillOpen(j *journal.Journal, id string) error {
	if at, ok := openAttempt(j, id); ok {
		return abi.NewError(abi.CodeRecovery, "the call %s of %s was not made again: it is still open; see above for the reason, then --replay it once more or --cancel it", at.ID, at.ToolName)
	}
	return nil
}

func (a *app) replayOne(ctx context.Context, rec *journal.Recorder, s *host.Session, id string, n, of int) error {
	a.note("making call %d of %d again: %s", n, of, id)
	res, err := rec.Replay(ctx, s, id)
	if err != nil {
		return err
	}
	if res.IsError() {
		a.note("%s: %s [%s]", id, res.Error.Message, res.Error.Code)
	}
	return nil
}

// showPlans shows what is open in one session or in all.
func (a *app) showPlans(ctx context.Context, s journal.Store, args []string) error {
	plans := []journal.Plan{}
	add := func(session string) error {
		p, err := journal.PlanOf(ctx, s, session)
		if err == nil {
			plans = append(plans, p)
		}
		return err
	}
	var err error
	if len(args) > 0 {
		err = add(args[0])
	} else {
		err = eachSession(ctx, s, func(i journal.SessionInfo) error {
			if i.Open == 0 {
				return nil
			}
			return add(i.SessionID)
		})
	}
	if err != nil {
		return err
	}
	if a.json {
		writeJSON(a.out, map[string]any{"sessions": plans})
		return nil
	}
	rows := [][]string{}
	for _, p := range plans {
		for _, list := range [][]journal.Attempt{p.Unknown, p.Permissions, p.Retryable, p.Cancelable} {
			for _, at := range list {
				rows = append(rows, []string{p.SessionID, at.ID, at.ToolName, string(at.Status), string(at.SideEffect), adviceOf(at)})
			}
		}
	}
	if len(rows) == 0 {
		return a.line("nothing is open")
	}
	return a.table([]string{"SESSION", "ATTEMPT", "TOOL", "STATUS", "EFFECT", "WHAT TO DO"}, rows)
}

// adviceOf says what may be done with an open call.
func adviceOf(at journal.Attempt) string {
	switch at.Class() {
	case journal.ClassUnknown:
		return "it may have had its effect: find out, then --reconcile " + at.ID + "=completed|failed|cancelled"
	case journal.ClassPermission:
		return "it did not run, its permission waits: --permission " + at.ID + "=allow|deny|cancel"
	case journal.ClassCancelable:
		return "it was refused and did not run: --cancel " + at.ID
	}
	if at.Status == journal.StatusScheduled {
		return fmt.Sprintf("it did not run: --replay %s or --cancel %s", at.ID, at.ID)
	}
	return fmt.Sprintf("it ran and may be repeated: --replay %s or --cancel %s", at.ID, at.ID)
}
