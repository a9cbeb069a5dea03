package sqlite_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/journaltest"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

var update = flag.Bool("update", false, "write the fixture of the format of today, if there is none")

func TestMain(m *testing.M) {
	if path := os.Getenv(ownerEnv); path != "" {
		if err := obey(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if path := os.Getenv(limitEnv); path != "" {
		os.Exit(limited(path)) // a process with little room
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, path string, opt sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// DUR-01 DUR-02 DUR-03 DUR-05 DUR-11 RTM-05: the suite of every store.
func TestStore(t *testing.T) {
	journaltest.Run(t, func(t *testing.T, clock func() time.Time) journal.Store {
		return open(t, filepath.Join(t.TempDir(), "a b?c#d%20.db"), sqlite.Options{Clock: clock})
	})
}

// Two stores of one file, as two processes have them: each sees at once what the
// other wrote, also to the same session.
func TestTwoStores(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	a, b := open(t, path, sqlite.Options{}), open(t, path, sqlite.Options{})
	last := int64(0)
	add := func(s *sqlite.Store, d journal.Draft) error {
		_, err := s.Append(t.Context(), "s", []journal.Draft{d}, journal.AppendOptions{ExpectedLast: &last})
		if err == nil {
			last++
		}
		return err
	}
	for i, s := range []*sqlite.Store{a, b, b, a, a, b, a, b} {
		d := journaltest.Created()
		if i > 0 {
			d = journaltest.Scheduled(string(rune('a'+i)), abi.SideEffectPure)
		}
		if err := add(s, d); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	old := last - 1
	_, err := a.Append(t.Context(), "s", []journal.Draft{journaltest.Scheduled("z", abi.SideEffectPure)}, journal.AppendOptions{ExpectedLast: &old})
	journaltest.WantCode(t, err, abi.CodeSequence)
	l, err := b.Acquire(t.Context(), "s", journal.LeaseRequest{OwnerID: "b", LeaseID: "l", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	journaltest.WantCode(t, add(a, journaltest.Scheduled("y", abi.SideEffectPure)), abi.CodeLeaseRequired)
	_, err = a.Acquire(t.Context(), "s", journal.LeaseRequest{OwnerID: "a", LeaseID: "k", TTL: time.Minute})
	journaltest.WantCode(t, err, abi.CodeLeaseConflict)
	if err := b.Close(); err != nil { // its owner is gone, without a word
		t.Fatal(err)
	}
	next, err := a.Acquire(t.Context(), "s", journal.LeaseRequest{OwnerID: "a", LeaseID: "k", TTL: time.Minute})
	if err != nil || next.Token != l.Token+1 {
		t.Errorf("%+v %v", next, err)
	}
}

// Stores come and go at once, each with a lease: the folder of their lock files
// appears and vanishes under them, and nobody minds.
func TestOwnersComeAndGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for k := range 5 {
				s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				session := fmt.Sprint(i, k)
				l, err := s.Acquire(t.Context(), session, journal.LeaseRequest{OwnerID: "o", LeaseID: "l", TTL: time.Minute})
				if err != nil {
					t.Error(err)
				}
				if err := s.Release(t.Context(), session, l.Fence()); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := os.Stat(path + "-owners"); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
}
