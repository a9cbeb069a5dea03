package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	driver "github.com/bladehost/bladehost/host/internal/sqlite"
	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/journaltest"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

// raw is the measure: one row a commit, with the same file, log and sync.
func raw(b *testing.B) *sql.DB {
	path := filepath.Join(b.TempDir(), "raw.db")
	s := open(b, path, sqlite.Options{}) // makes the file
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	db, err := driver.Open(path, driver.Options{})
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec("CREATE TABLE raw (id INTEGER PRIMARY KEY, body BLOB NOT NULL, link BLOB NOT NULL)"); err != nil {
		b.Fatal(err)
	}
	return db
}

func BenchmarkRawCommit(b *testing.B) {
	db := raw(b)
	stmt, err := db.Prepare("INSERT INTO raw (body, link) VALUES (?, ?)")
	if err != nil {
		b.Fatal(err)
	}
	body, link := make([]byte, 500), make([]byte, 16)
	for b.Loop() {
		if _, err := stmt.Exec(body, link); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// A durable call is three commits: scheduled, started, completed.
func BenchmarkCalls(b *testing.B) {
	for _, sessions := range []int{1, 16} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "j.db"), sqlite.Options{})
			var next atomic.Int64
			var wg sync.WaitGroup
			journals := make([]*journal.Journal, sessions)
			for i := range journals {
				j, err := journal.Open(b.Context(), s, journal.Options{SessionID: fmt.Sprint(i)})
				if err == nil {
					err = j.Create(b.Context(), "create", "")
				}
				if err != nil {
					b.Fatal(err)
				}
				journals[i] = j
			}
			b.ResetTimer()
			for i := range sessions {
				wg.Go(func() {
					for {
						n := next.Add(1)
						if n > int64(b.N) {
							return
						}
						id := fmt.Sprint(n)
						for _, d := range []journal.Draft{journaltest.Scheduled(id, abi.SideEffectPure), journaltest.Started(id, abi.SideEffectPure), journaltest.Completed(id)} {
							if _, err := journals[i].Commit(b.Context(), journal.Command{ID: id + string(d.Type), Events: []journal.Draft{d}}, journal.CommitOptions{}); err != nil {
								b.Error(err)
								return
							}
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			b.ReportMetric(3*float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

// A commit of the journal against one of SQLite itself, in turns on one machine:
// the goal is at least 0.8 times as many in the same time.
func BenchmarkCommitAgainstRaw(b *testing.B) {
	db := raw(b)
	stmt, err := db.Prepare("INSERT INTO raw (body, link) VALUES (?, ?)")
	if err != nil {
		b.Fatal(err)
	}
	s := open(b, filepath.Join(b.TempDir(), "j.db"), sqlite.Options{})
	j, err := journal.Open(b.Context(), s, journal.Options{SessionID: "s"})
	if err == nil {
		err = j.Create(b.Context(), "create", "")
	}
	if err != nil {
		b.Fatal(err)
	}
	body, link := make([]byte, 500), make([]byte, 16)
	var ratios []float64
	n := 0
	for b.Loop() {
		const turn = 21 // seven calls
		began := time.Now()
		for range turn {
			if _, err := stmt.Exec(body, link); err != nil {
				b.Fatal(err)
			}
		}
		bare := time.Since(began)
		began = time.Now()
		for range turn / 3 {
			n++
			id := fmt.Sprint(n)
			for _, d := range []journal.Draft{journaltest.Scheduled(id, abi.SideEffectPure), journaltest.Started(id, abi.SideEffectPure), journaltest.Completed(id)} {
				if _, err := j.Commit(b.Context(), journal.Command{ID: id + string(d.Type), Events: []journal.Draft{d}}, journal.CommitOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		}
		ratios = append(ratios, float64(bare)/float64(time.Since(began)))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x-raw")
}
