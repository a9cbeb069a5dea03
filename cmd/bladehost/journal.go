package main

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

// journalFlags say where calls are kept.
type journalFlags struct {
	file string
	off  bool
	// given reports whether a file was named: an empty name is an unset variable.
	given func() bool
}

func (f *journalFlags) add(fs *pflag.FlagSet, def string) {
	fs.StringVar(&f.file, "journal", "", "keep what happens to each call in this `file` (default "+def+")")
	fs.BoolVar(&f.off, "no-journal", false, "keep nothing")
	f.given = func() bool { return fs.Changed("journal") }
}

// path is the journal's file, or "" for none.
func (f journalFlags) path(def string) (string, error) {
	named := f.given()
	switch {
	case f.off && named:
		return "", usage("--journal and --no-journal exclude each other")
	case f.off:
		return "", nil
	case named:
		return absPath(f.file)
	}
	return def, nil
}

// journalFile is the journal of sessions that name none.
func (p places) journalFile() string { return filepath.Join(p.state, "journal.db") }

// kept is a session that is kept in a journal. A nil one is not.
type kept struct {
	a     *app
	store *sqlite.Store
	guard *journal.Guard
	j     *journal.Journal
	s     *host.Session
}

// keep opens the journal, takes the session's lease and sets both in the
// session's options. end must follow.
func (a *app) keep(ctx context.Context, path string, opt *host.SessionOptions) (*kept, error) {
	if path == "" {
		return nil, nil
	}
	if opt.ID == "" {
		opt.ID = "session_" + strings.ToLower(rand.Text())
	}
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		if a.journalFlag(path) == "" {
			a.note("note: --no-journal works without one, --journal FILE with another")
		}
		return nil, err
	}
	k := &kept{a: a, store: store}
	if err := k.own(ctx, opt.ID, 0); err != nil {
		return nil, errors.Join(err, k.close())
	}
	if err := k.j.Create(ctx, "create", ""); err != nil {
		return nil, errors.Join(err, k.close())
	}
	if n := len(k.j.Attempts()); n > 0 {
		a.note("note: calls of an earlier run of the session are open (%d); see bladehost journal recover %s%s", n, quoted(opt.ID), a.journalFlag(path))
	}
	opt.Lifecycle, opt.Runtime = k.j.Recorder(journal.RecorderOptions{Place: placeOf(*opt)}), k.guard
	return k, nil
}

// placeOf is where the calls of a session are made.
func placeOf(opt host.SessionOptions) *journal.Place {
	c := opt.Context.Capabilities
	if c == nil || c.Filesystem == nil {
		return nil
	}
	return &journal.Place{Cwd: c.Filesystem.Cwd, Roots: c.Filesystem.Roots}
}

// journalFlag is the flag that names a journal, where one must be named.
func (a *app) journalFlag(path string) string {
	if p, err := a.places(); err == nil && p.journalFile() == path {
		return ""
	}
	return " --journal " + quoted(path)
}

// quoted is a word as a shell takes it.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@+=,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// own takes the lease of a session and opens its journal.
func (k *kept) own(ctx context.Context, id string, wait time.Duration) error {
	var err error
	if k.guard, err = journal.Acquire(ctx, k.store, id, journal.GuardOptions{Wait: wait}); err != nil {
		return err
	}
	k.j, err = journal.Open(ctx, k.store, journal.Options{SessionID: id, Guard: k.guard})
	return err
}

// attach lets the lease be handed over only when the session has cleaned up.
func (k *kept) attach(s *host.Session) {
	if k != nil {
		k.s = s
		k.guard.SetBusy(s.Pending)
	}
}

// end closes the session in the journal. Calls that still run keep it open: what
// comes of them is not known.
func (k *kept) end(reason string) error {
	if k == nil {
		return nil
	}
	if k.s != nil && k.s.Pending() != nil {
		return nil // a tool still runs: the session stays this process's until its very end
	}
	ctx, cancel := context.WithTimeout(context.Background(), abi.CleanupTime)
	defer cancel()
	err := k.guard.Err()
	if err == nil && len(k.j.Attempts()) == 0 {
		err = k.j.End(ctx, reason)
	}
	return errors.Join(err, k.close())
}

func (k *kept) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), abi.CleanupTime)
	defer cancel()
	var err error
	if k.guard != nil {
		err = k.guard.Release(ctx)
	}
	return errors.Join(err, k.store.Close())
}

// reasonOf is the reason of a session_closed.
func reasonOf(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return "shutdown"
	case err != nil:
		return "error"
	}
	return "completed"
}
