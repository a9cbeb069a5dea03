package journal_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/journaltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func memory(t *testing.T, clock func() time.Time) journal.Store {
	s := journal.NewMemory(clock)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestMemory(t *testing.T) { journaltest.Run(t, memory) }
