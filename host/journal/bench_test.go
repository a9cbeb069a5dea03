package journal_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/sqlite"
	"github.com/bladehost/bladehost/host/tool"
)

// A call of a tool that does nothing, without a journal, with one in memory, and
// with one on disk under a lease. Off, the pipeline has nothing of it but a nil
// check at each boundary.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct {
		name string
		open func() (journal.Store, error)
	}{
		{"off", nil},
		{"memory", func() (journal.Store, error) { return journal.NewMemory(nil), nil }},
		{"sqlite", func() (journal.Store, error) {
			return sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "j.db"), sqlite.Options{})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h, err := host.New(host.Options{Tools: []tool.Tool{&plain{spec: spec("Ok", abi.SideEffectPure), run: text("x")}}})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = h.Close(b.Context()) }()
			opt := host.SessionOptions{ID: "s", Mode: "yolo"}
			if c.open != nil {
				s, err := c.open()
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				g, err := journal.Acquire(b.Context(), s, "s", journal.GuardOptions{})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = g.Release(b.Context()) }()
				j, err := journal.Open(b.Context(), s, journal.Options{SessionID: "s", Guard: g})
				if err == nil {
					err = j.Create(b.Context(), "create", "")
				}
				if err != nil {
					b.Fatal(err)
				}
				opt.Lifecycle, opt.Runtime = j.Recorder(journal.RecorderOptions{}), g
			}
			ses, err := h.NewSession(opt)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if r, err := ses.Run(b.Context(), host.Call{Tool: "Ok", Input: json.RawMessage(`{}`)}); err != nil || r.IsError() {
					b.Fatal(r, err)
				}
			}
		})
	}
}
