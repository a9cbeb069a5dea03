package sqlite_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/journaltest"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

var update = flag.Bool("update", false, "write the fixture of the format of today, if there is none")

func TestMain(m *testing.M) {
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

func TestStore(t *testing.T) {
	journaltest.Run(t, func(t *testing.T, clock func() time.Time) journal.Store {
		return open(t, filepath.Join(t.TempDir(), "a b?c#d%20.db"), sqlite.Options{Clock: clock})
	})
}
