package host

import (
	"path/filepath"
	"slices"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// earlySlot takes the slot before the permission checks, where the session wants
// that.
func (r *run) earlySlot() {
	if r.s.opt.EarlyAdmission {
		r.takeSlot()
	}
}

// slot waits for a place among the calls of this kind. Waiting confirmations are
// over by now, so they hold no slot.
func (r *run) slot() {
	if r.stopped() || r.s.opt.EarlyAdmission {
		return
	}
	r.takeSlot()
}

func (r *run) takeSlot() {
	if !r.lease() {
		return
	}
	release, err := r.s.slots.acquire(r.ctx, r.behavior.Kind)
	if err != nil {
		r.failWith(err, abi.CodeQueueFull, "the wait for a slot")
		return
	}
	r.releases = append(r.releases, release)
	r.lease()
}

// lock waits for the files of the call: readers share, a writer is alone.
func (r *run) lock() {
	paths := r.lockPaths()
	if len(paths) == 0 {
		return
	}
	write := !(r.behavior.ReadOnly && r.behavior.ConcurrencySafe)
	release, err := r.s.h.locks.acquire(r.ctx, paths, write, r.s.h.opt.LockWait)
	if err != nil {
		r.failWith(err, abi.CodeLockTimeout, "the wait for a file")
		return
	}
	r.releases = append(r.releases, release)
}

// lockPaths are the canonical paths of the input's file_path, else notebook_path,
// or of the definition's own pointers.
func (r *run) lockPaths() []string {
	pointers := r.entry.spec.LockPaths
	if pointers == nil {
		pointers = []string{"/file_path", "/notebook_path"}
	}
	var out []string
	for _, p := range pointers {
		v, _ := tool.Pointer(r.doc, p)
		s, ok := v.(string)
		if !ok || s == "" {
			continue
		}
		out = append(out, canonicalPath(s, r.cwd()))
		if r.entry.spec.LockPaths == nil {
			break
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// cwd is where the relative paths of the call start: for a guest in its own
// folders.
func (r *run) cwd() string {
	if g := r.entry.guest; g != nil {
		if dir := g.grants.cwd(r.snap.Cwd); dir != "" {
			return dir
		}
	}
	return r.snap.Home()
}

// canonicalPath is a path after links, as far as it exists: two spellings of one
// file are one key.
func canonicalPath(p, cwd string) string {
	if !filepath.IsAbs(p) && cwd != "" {
		p = filepath.Join(cwd, p)
	}
	p = filepath.Clean(p)
	if !filepath.IsAbs(p) {
		return p // the process's own folder says nothing about it
	}
	rest := ""
	for q := p; ; q = filepath.Dir(q) {
		if real, err := filepath.EvalSymlinks(q); err == nil {
			return filepath.Join(real, rest)
		}
		if q == filepath.Dir(q) {
			return p
		}
		rest = filepath.Join(filepath.Base(q), rest)
	}
}

// place waits for what the tool itself needs to run in.
func (r *run) place() {
	a, ok := r.entry.tool.(tool.Admitter)
	if !ok {
		return
	}
	adm, err := a.Admit(r.ctx)
	if err != nil {
		r.failWith(err, abi.CodeInstantiation, "the wait for a place")
		return
	}
	r.admission = adm
	r.releases = append(r.releases, adm.Release)
	r.stopped()
}

// release gives back what the call holds, last first.
func (r *run) release() {
	r.streams.closeAll()
	for i := len(r.releases) - 1; i >= 0; i-- {
		r.releases[i]()
	}
	r.releases = nil
}

// durableStart records that the tool is about to run. A failure blocks it.
func (r *run) durableStart() {
	if r.stopped() {
		return
	}
	if r.invocation != nil {
		_, err := guarded(func() (struct{}, error) {
			return struct{}{}, r.invocation.OnExecutionStarted(r.durable(), ExecutionStarted{Input: cloneRaw(r.input), SideEffect: r.behavior.SideEffect})
		})
		if err != nil {
			r.fail(abi.NewError(abi.CodeLifecycle, "the start could not be recorded, so the tool was not run: %v", err).Because(err))
			return
		}
	}
	if !r.lease() {
		return
	}
	r.started = true
	r.stopped()
}

// lease asserts the session's lease; without it nothing goes on and nothing more
// is recorded.
func (r *run) lease() bool {
	if q := r.s.quarantine.Load(); q != nil {
		r.err = q
		return false
	}
	if r.s.opt.Runtime == (noLease{}) {
		return true
	}
	if err := r.s.opt.Runtime.AssertLease(r.durable()); err != nil {
		e := abi.AsError(err)
		r.s.Quarantine(e)
		r.err = e
		return false
	}
	return true
}
