package journal_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/journaltest"
)

var rounds = flag.Int("rounds", 50, "rounds of TestKillLoop")

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(child(dir)) // a process that is killed
	}
	goleak.VerifyTestMain(m)
}

func memory(t *testing.T, clock func() time.Time) journal.Store {
	s := journal.NewMemory(clock)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// DUR-01 DUR-02 DUR-03 DUR-11 RTM-05: the suite of every store.
func TestMemory(t *testing.T) { journaltest.Run(t, memory) }
