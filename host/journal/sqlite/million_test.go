package sqlite_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
	. "github.com/bladehost/bladehost/host/journal/journaltest"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

// large writes a journal of about n events in 10 sessions, with five calls open
// in one of them, and returns its file.
func large(b *testing.B, n int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "large.db")
	s := open(b, path, sqlite.Options{})
	for i := range 10 {
		session := fmt.Sprint("s", i)
		must(b, s, session, Created())
		for k := 0; k < n/10; {
			var list []journal.Draft
			for range 300 { // 900 events a commit: that is quicker
				id := fmt.Sprintf("attempt-%d-%d", i, k)
				list = append(list, Scheduled(id, abi.SideEffectPure), Started(id, abi.SideEffectNonIdempotent), Completed(id))
				k += 3
			}
			must(b, s, session, list...)
		}
	}
	for k := range 5 {
		id := fmt.Sprint("open-", k)
		must(b, s, "s4", Scheduled(id, abi.SideEffectPure), Started(id, abi.SideEffectNonIdempotent))
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// Opening a journal of a million events and planning recovery reads what is open
// and no more: at most 100 ms. Verifying it takes long, but no more memory than a
// small one.
func BenchmarkMillion(b *testing.B) {
	path := large(b, 1_000_000)
	b.Run("open and plan", func(b *testing.B) {
		for b.Loop() {
			s, err := sqlite.Open(b.Context(), path, sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			p, err := journal.PlanOf(b.Context(), s, "s4")
			if err != nil || len(p.Unknown) != 5 {
				b.Fatalf("%+v %v", p, err)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		s := open(b, path, sqlite.Options{})
		var most uint64
		for b.Loop() {
			r, err := s.Verify(b.Context(), "", func(done, total int64) {
				if done%50_000 == 0 {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapInuse)
				}
			})
			if err != nil || r.Found != 0 || r.Events < 1_000_000 {
				b.Fatalf("%+v %v", r, err)
			}
		}
		b.ReportMetric(float64(most)/(1<<20), "MiB-heap")
	})
}

// The plan of a large session is as quick as that of a small one: what it reads
// are the events of open calls. This holds at any size, so a small one shows it.
func TestPlanReadsOpenCallsOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	fill(t, path, 400)
	s := open(t, path, sqlite.Options{})
	// If it read more, it would come upon the damage.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damageBodies(t, path)
	s = open(t, path, sqlite.Options{})
	p, err := journal.PlanOf(t.Context(), s, "one")
	if err != nil || len(p.Unknown) != 1 || len(p.Retryable) != 1 {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := s.Read(t.Context(), "one", journal.ReadOptions{}); abi.CodeOf(err) != abi.CodeJournalCorrupt {
		t.Errorf("the damage is not seen: %v", err)
	}
}
