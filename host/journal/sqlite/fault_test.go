package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/sqlite/faulty"
	"github.com/bladehost/bladehost/host/journal"
	. "github.com/bladehost/bladehost/host/journal/journaltest"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

// ledger is what a run was told: which commands are in, which are certainly not.
type ledger struct {
	acknowledged, refused []string
	errors                []error
	// broken is why the same store could not write after all worked again.
	broken error
}

// script makes calls and notes what it was told of each commit.
func (l *ledger) script(ctx context.Context, path, vfs string, mend func()) {
	s, err := sqlite.Open(ctx, path, sqlite.Options{VFS: vfs})
	if err != nil {
		l.errors = append(l.errors, err)
		return
	}
	defer func() { _ = s.Close() }()
	for i := range commits {
		id := fmt.Sprint(i)
		list := []journal.Draft{Scheduled(id, abi.SideEffectPure), Started(id, abi.SideEffectPure), Completed(id)}
		if i == 0 {
			list = []journal.Draft{Created()}
		}
		for k := range list {
			list[k].CommandID = id
		}
		_, err := s.Append(ctx, "s", list, journal.AppendOptions{})
		switch abi.CodeOf(err) {
		case "":
			if err == nil {
				l.acknowledged = append(l.acknowledged, id)
				continue
			}
			l.errors = append(l.errors, errors.New("an error without a code: "+err.Error()))
		case abi.CodeUnknownOutcome:
		default:
			l.refused = append(l.refused, id)
		}
		l.errors = append(l.errors, err)
	}
	mend()
	if _, err := s.Append(ctx, "mended", []journal.Draft{Created()}, journal.AppendOptions{}); err != nil {
		l.broken = err
	}
}

const commits = 6

// Every write, sync, truncation, removal and opening fails once, one after the
// other, for a moment or for good: what was acknowledged is there, what was
// refused is not, the file is sound, and writing goes on afterwards.
func TestEveryOperationFails(t *testing.T) {
	vfs, err := faulty.New("faulty-" + t.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range faulty.Ops() {
		for _, sticky := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s sticky=%v", op, sticky), func(t *testing.T) {
				hits := 0
				stride := 1
				if slow || testing.Short() {
					stride = 29
				}
				for n := 1; ; n += stride {
					path := filepath.Join(t.TempDir(), "j.db")
					var l ledger
					vfs.Fail(op, n, sticky)
					hit := 0
					l.script(t.Context(), path, vfs.Name(), func() { hit += vfs.Mend() })
					if l.broken != nil {
						t.Fatalf("%s %d: %v", op, n, l.broken)
					}
					if hit+vfs.Mend() == 0 {
						if len(l.errors) != 0 || len(l.acknowledged) != commits {
							t.Fatalf("without a failure: %v", l.errors)
						}
						break
					}
					hits++
					l.check(t, path, fmt.Sprintf("%s %d", op, n))
					if t.Failed() {
						return
					}
				}
				t.Logf("%d operations failed", hits)
				if hits == 0 && op != faulty.Truncate && op != faulty.Delete {
					t.Error("nothing ever failed")
				}
			})
		}
	}
}

// check reads the file with a healthy system.
func (l *ledger) check(t *testing.T, path, what string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatalf("%s: not to be opened afterwards: %v", what, err)
	}
	defer func() { _ = s.Close() }()
	r, err := s.Verify(t.Context(), "", nil)
	if err != nil || r.Found != 0 {
		// The first command may be missing, and then the others were refused or are
		// events of a session that was not created: the store does not mind.
		if r == nil || !onlyTransitions(r) {
			t.Fatalf("%s: %+v %v", what, r, err)
		}
	}
	there := map[string]int{}
	for _, e := range All(t, s, "s") {
		there[e.CommandID]++
	}
	for _, id := range l.acknowledged {
		if n := there[id]; n != size(id) {
			t.Errorf("%s: the acknowledged command %s has %d events", what, id, n)
		}
	}
	for _, id := range l.refused {
		if there[id] != 0 {
			t.Errorf("%s: the refused command %s is there", what, id)
		}
	}
	for id, n := range there {
		if n != size(id) {
			t.Errorf("%s: the command %s is torn: %d events", what, id, n)
		}
	}
	if _, err := s.Append(t.Context(), "after", []journal.Draft{Created()}, journal.AppendOptions{}); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func size(id string) int {
	if id == "0" {
		return 1
	}
	return 3
}

func onlyTransitions(r *sqlite.Report) bool {
	for _, p := range r.Problems {
		if p.Sequence == 0 {
			return false
		}
	}
	return true
}

// Making a new file fails at each step: then there is none, or a whole one, and
// nothing half made is left.
func TestMakingFails(t *testing.T) {
	fails := func(string, string) error { return errors.New("no link today") }
	noSync := func(string) error { return errors.New("no sync today") }
	for _, c := range []struct {
		name  string
		opt   sqlite.Options
		ok    bool
		there bool
	}{
		{"no links, but renames", sqlite.Options{}.Failing(fails, nil, nil), true, true},
		{"neither", sqlite.Options{}.Failing(fails, fails, nil), false, false},
		{"the folder is not synced", sqlite.Options{}.Failing(nil, nil, noSync), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "j.db")
			s, err := sqlite.Open(t.Context(), path, c.opt)
			if (err == nil) != c.ok || (err != nil && abi.CodeOf(err) != abi.CodeJournalWrite) {
				t.Fatalf("%v", err)
			}
			if err == nil {
				must(t, s, "s", Created())
				_ = s.Close()
			}
			_ = os.Remove(path + "-lock")
			list, err := os.ReadDir(dir)
			if err != nil || len(list) != map[bool]int{true: 1}[c.there] {
				t.Errorf("%v %v", list, err)
			}
			must(t, open(t, path, sqlite.Options{}), "t", Created()) // afterwards all is well
		})
	}
}

// Several open one new file at once: they all have the same one.
func TestMakingAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			for k := range 5 {
				d := Created()
				if k > 0 {
					d = Scheduled(fmt.Sprint(k), abi.SideEffectPure)
				}
				if _, err := s.Append(t.Context(), fmt.Sprint(i), []journal.Draft{d}, journal.AppendOptions{}); err != nil {
					t.Error(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r, err := open(t, path, sqlite.Options{}).Verify(t.Context(), "", nil)
	if err != nil || r.Found != 0 || r.Events != 30 || r.Sessions != 6 {
		t.Errorf("%+v %v", r, err)
	}
}

// DUR-04: nothing is acknowledged before it is synced: while the system does not
// sync, every append fails; one sync is enough for those that came together.
func TestNoAcknowledgementWithoutSync(t *testing.T) {
	vfs, err := faulty.New("faulty-" + t.Name())
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), sqlite.Options{VFS: vfs.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	must(t, s, "s", Created())
	vfs.Fail(faulty.Sync, 1, true)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := s.Append(t.Context(), fmt.Sprint(i), []journal.Draft{Created()}, journal.AppendOptions{})
			if c := abi.CodeOf(err); c != abi.CodeUnknownOutcome && c != abi.CodeJournalWrite {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if vfs.Mend() == 0 {
		t.Error("nothing was synced")
	}
	must(t, s, "s", Scheduled("a", abi.SideEffectPure))
	if n := len(All(t, s, "s")); n != 2 {
		t.Errorf("%d events", n)
	}
}

// A sync that fails once leaves nothing unknown: the file is opened anew, and what
// is in it then was synced. The journal goes on, and says the truth.
func TestOneSyncFails(t *testing.T) {
	vfs, err := faulty.New("faulty-" + t.Name())
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), sqlite.Options{VFS: vfs.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	j, err := journal.Open(t.Context(), s, journal.Options{SessionID: "s"})
	if err == nil {
		err = j.Create(t.Context(), "create", "")
	}
	if err != nil {
		t.Fatal(err)
	}
	want := 1
	for i := range 5 {
		vfs.Fail(faulty.Sync, 1, false)
		id := fmt.Sprint(i)
		_, err := j.Commit(t.Context(), journal.Command{ID: id, Events: []journal.Draft{Scheduled(id, abi.SideEffectPure)}}, journal.CommitOptions{})
		if vfs.Mend() != 1 {
			t.Fatal("nothing failed")
		}
		switch abi.CodeOf(err) {
		case "":
			want++
		case abi.CodeJournalWrite:
		default:
			t.Fatalf("%v", err)
		}
		if n := len(All(t, s, "s")); n != want || err != nil && abi.CodeOf(err) == "" {
			t.Fatalf("%d events, want %d (%v)", n, want, err)
		}
	}
}
