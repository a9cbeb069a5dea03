package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

func journalCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "journal",
		Short: "Look at what happened to calls, and recover after a crash",
		Long: `Look into the journal that bladehost session keeps, and run with --journal FILE:
what happened to each call, whether the file is sound, and what is open after a
crash. docs/journal.md tells the whole story.`,
	}
	for _, make := range []func(*app, *journalFlags) *cobra.Command{journalLs, journalShow, journalVerify, journalRecover, journalExport} {
		f := &journalFlags{}
		sub := make(a, f)
		sub.Flags().StringVar(&f.file, "journal", "", "the journal's `file` (default: that of the state folder)")
		f.given = func() bool { return sub.Flags().Changed("journal") }
		c.AddCommand(sub)
	}
	return c
}

// openJournal opens an existing journal.
func (a *app) openJournal(ctx context.Context, f journalFlags, opt sqlite.Options) (*sqlite.Store, error) {
	p, err := a.places()
	if err != nil {
		return nil, err
	}
	path, err := f.path(p.journalFile())
	if err != nil {
		return nil, err
	}
	opt.MustExist = true
	return sqlite.Open(ctx, path, opt)
}

func journalLs(a *app, f *journalFlags) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the sessions", Args: exactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error { return a.journalLs(c.Context(), *f) },
	}
}

func (a *app) journalLs(ctx context.Context, f journalFlags) error {
	s, err := a.openJournal(ctx, f, sqlite.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it only read
	all := []journal.SessionInfo{}
	err = eachSession(ctx, s, func(i journal.SessionInfo) error { all = append(all, i); return nil })
	if err != nil {
		return err
	}
	if a.json {
		writeJSON(a.out, map[string]any{"journal": s.Path(), "sessions": all})
		return nil
	}
	if len(all) == 0 {
		a.note("the journal %s has no sessions", s.Path())
		return nil
	}
	rows := [][]string{}
	for _, i := range all {
		state := "open"
		if i.Closed {
			state = "closed"
		}
		rows = append(rows, []string{i.SessionID, state, fmt.Sprint(i.Head), fmt.Sprint(i.Open), i.LastAt, leaseText(i.Lease)})
	}
	return a.table([]string{"SESSION", "STATE", "EVENTS", "OPEN CALLS", "LAST EVENT", "LEASE"}, rows)
}

func leaseText(l *journal.Lease) string {
	switch {
	case l == nil:
		return "none"
	case l.Released:
		return fmt.Sprintf("given back (token %d)", l.Token)
	}
	return fmt.Sprintf("%s until %s (token %d)", l.OwnerID, l.ExpiresAt, l.Token)
}

// eachSession goes through all sessions, by id.
func eachSession(ctx context.Context, s journal.Store, f func(journal.SessionInfo) error) error {
	for after := ""; ; {
		list, err := s.Sessions(ctx, after, journal.MaxPage)
		if err != nil {
			return err
		}
		for _, i := range list {
			if err := f(i); err != nil {
				return err
			}
			after = i.SessionID
		}
		if len(list) < journal.MaxPage {
			return nil
		}
	}
}

// eachEvent goes through the events of a session that must be there.
func eachEvent(ctx context.Context, s journal.Store, session string, f func(journal.Event) error) error {
	limit := 500
	for after := int64(0); ; {
		p, err := s.Read(ctx, session, journal.ReadOptions{After: after, Limit: limit})
		if abi.CodeOf(err) == abi.CodeJournalCorrupt && limit > 1 {
			limit = 1 // up to the damage
			continue
		}
		if err != nil {
			return err
		}
		if p.Head == 0 {
			return abi.NewError(abi.CodeJournalMissing, "the journal has no session %q; bladehost journal ls lists those it has", session)
		}
		for _, e := range p.Events {
			if err := f(e); err != nil {
				return err
			}
		}
		if after = p.Next; !p.HasMore {
			return nil
		}
	}
}

func journalShow(a *app, f *journalFlags) *cobra.Command {
	var attempt string
	c := &cobra.Command{
		Use: "show SESSION", Short: "Show the events of a session", Args: exactArgs(1),
		Long: "Show the events of a session, oldest first. With --json a line each, as they are kept.",
		RunE: func(c *cobra.Command, args []string) error {
			return a.journalShow(c.Context(), *f, args[0], attempt)
		},
	}
	c.Flags().StringVar(&attempt, "attempt", "", "only those of this tool `attempt`")
	return c
}

func (a *app) journalShow(ctx context.Context, f journalFlags, session, attempt string) error {
	s, err := a.openJournal(ctx, f, sqlite.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it only read
	const head = "%6s  %-24s  %-20s  %s\n"
	if !a.json {
		if err := a.text(fmt.Sprintf(head, "EVENT", "RECORDED", "TYPE", "WHAT")); err != nil {
			return err
		}
	}
	found := false
	err = eachEvent(ctx, s, session, func(e journal.Event) error {
		if attempt != "" && e.ToolAttemptID != attempt {
			return nil
		}
		found = true
		if a.json {
			writeJSON(a.out, e)
			return nil
		}
		return a.text(fmt.Sprintf(head, fmt.Sprint(e.Sequence), e.RecordedAt, e.Type, printable(journalRow(eventText(e)))))
	})
	if err == nil && !found {
		return abi.NewError(abi.CodeJournalMissing, "session %q has no tool attempt %q", session, attempt)
	}
	return err
}

// journalRow keeps a text on one row of a table.
func journalRow(s string) string {
	const most = 160
	r := []rune(s)
	if len(r) > most {
		r = append(r[:most], '…')
	}
	for i := range r {
		if r[i] == '\n' || r[i] == '\t' {
			r[i] = ' '
		}
	}
	return string(r)
}

// eventText says what an event is about.
func eventText(e journal.Event) string {
	var d struct {
		ToolName   string               `json:"toolName"`
		ToolCallID string               `json:"toolCallId"`
		SideEffect string               `json:"sideEffect"`
		Input      json.RawMessage      `json:"input"`
		Result     json.RawMessage      `json:"result"`
		Artifact   *journal.ArtifactRef `json:"artifact"`
		Error      *journal.ErrorData   `json:"error"`
		Reason     string               `json:"reason"`
		Decision   string               `json:"decision"`
		Message    string               `json:"message"`
		Source     string               `json:"source"`
	}
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return err.Error()
	}
	text := e.ToolAttemptID
	for _, part := range []string{d.ToolName, d.SideEffect, d.Source, d.Decision, d.Reason, d.Message, string(d.Input)} {
		if part != "" {
			text += " " + part
		}
	}
	if d.Error != nil {
		text += " " + d.Error.Message
		if d.Error.Code != "" {
			text += " [" + d.Error.Code + "]"
		}
	}
	if d.Result != nil {
		text += " " + string(d.Result)
	}
	if d.Artifact != nil {
		text += " artifact " + d.Artifact.Handle
	}
	return text
}

func journalVerify(a *app, f *journalFlags) *cobra.Command {
	return &cobra.Command{
		Use: "verify [SESSION]", Short: "Check the whole file, or one session", Args: rangeArgs(0, 1),
		Long: `Read every event and check it: that it is what was written, that it follows from
those before it, and that everything it is found by leads to it. It ends with an
error if anything is wrong.`,
		RunE: func(c *cobra.Command, args []string) error {
			session := ""
			if len(args) > 0 {
				session = args[0]
			}
			return a.journalVerify(c.Context(), *f, session)
		},
	}
}

func (a *app) journalVerify(ctx context.Context, f journalFlags, session string) error {
	s, err := a.openJournal(ctx, f, sqlite.Options{NoCheck: true, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it only read
	if session != "" {
		if n, err := s.Head(ctx, session); err == nil && n == 0 {
			return abi.NewError(abi.CodeJournalMissing, "the journal has no session %q; bladehost journal ls lists those it has", session)
		}
	}
	bar := a.newProgress("verify")
	r, err := s.Verify(ctx, session, func(done, total int64) {
		bar.show(abi.Progress("events", float64(done), float64(total)))
	})
	bar.close()
	if err != nil {
		return err
	}
	if a.json {
		writeJSON(a.out, r)
	} else if err := a.text(verifyText(r)); err != nil {
		return err
	}
	if r.Found > 0 {
		e := abi.NewError(abi.CodeJournalCorrupt, "the journal %s has %d problems", r.Path, r.Found)
		if a.json {
			return &toldError{exitOf(e.Code, e.Type)}
		}
		return e
	}
	return nil
}

func verifyText(r *sqlite.Report) string {
	text := fmt.Sprintf("%s: format %d, %d bytes, %d sessions, %d events, %d open calls\n", r.Path, r.Format, r.Bytes, r.Sessions, r.Events, r.Open)
	for _, p := range r.Problems {
		line := p.Text
		if p.Sequence > 0 {
			line = fmt.Sprintf("event %d: %s", p.Sequence, line)
		}
		if p.SessionID != "" {
			line = fmt.Sprintf("session %s: %s", p.SessionID, line)
		}
		text += "  " + printable(line) + "\n"
	}
	if n := r.Found - int64(len(r.Problems)); n > 0 {
		text += fmt.Sprintf("  and %d more\n", n)
	}
	if r.Found == 0 {
		text += "everything is as it was written\n"
	}
	return text
}

func journalExport(a *app, f *journalFlags) *cobra.Command {
	return &cobra.Command{
		Use: "export [SESSION]", Short: "Write events as JSON lines", Args: rangeArgs(0, 1),
		Long: `Write the events of a session, or of all, to standard output: a line of JSON
each. Of a damaged file it writes what can be read, and ends with an error.`,
		RunE: func(c *cobra.Command, args []string) error { return a.journalExport(c.Context(), *f, args) },
	}
}

func (a *app) journalExport(ctx context.Context, f journalFlags, args []string) error {
	s, err := a.openJournal(ctx, f, sqlite.Options{NoCheck: true, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it only read
	out := &counting{w: a.out}
	bar := a.exportProgress()
	defer bar.close()
	session := ""
	if len(args) > 0 {
		session = args[0]
	}
	done, failed := 0, 0
	var first error
	err = s.Salvage(ctx, session, func(e journal.Event) error {
		writeJSON(out, e)
		if done++; done%1000 == 0 {
			bar.show(abi.Progress(fmt.Sprintf("%d events", done), -1, -1))
		}
		return out.err
	}, func(l sqlite.Lost) {
		failed++
		a.note("%s", lostText(l))
		if first == nil {
			first = l.Why
		}
	})
	if err == nil && failed > 0 {
		err = abi.NewError(abi.CodeJournalCorrupt, "the journal %s is damaged: %d events were written, some could not be read; see above", s.Path(), done).Because(first)
	}
	return err
}

// lostText says what could not be read.
func lostText(l sqlite.Lost) string {
	switch {
	case l.SessionID == "" && l.First == 0:
		return fmt.Sprintf("the record of all sessions: %v", l.Why)
	case l.First == 0:
		return fmt.Sprintf("session %s: how many events it had is not known: %v", l.SessionID, l.Why)
	case l.First == l.Last:
		return fmt.Sprintf("session %s: event %d is lost: %v", l.SessionID, l.First, l.Why)
	}
	return fmt.Sprintf("session %s: events %d to %d are lost: %v", l.SessionID, l.First, l.Last, l.Why)
}

// exportProgress shows how far an export is, unless the events are on the same
// terminal.
func (a *app) exportProgress() *progress {
	if a.outTTY {
		return &progress{a: a, name: "export"}
	}
	return a.newProgress("export")
}

// counting remembers the first error of a writer.
type counting struct {
	w   io.Writer
	err error
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if err != nil && c.err == nil {
		c.err = abi.NewError(abi.CodeIO, "the output cannot be written: %v", err)
	}
	return n, err
}
