package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin"
)

func historyCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "history",
		Short: "List and restore files as they were before tools changed them",
		Long: `Before Edit, Write or NotebookEdit changes a file, a copy of it is kept in the state
folder: the last ten of each file in a session, for 30 days after its last change.
List them, and put a file back as it was.`,
	}
	c.AddCommand(historyLs(a), historyRestore(a))
	return c
}

func historyLs(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "ls [FILE]", Short: "List the copies, the oldest first", Args: rangeArgs(0, 1),
		RunE: func(_ *cobra.Command, args []string) error { return a.historyLs(args) },
	}
}

func (a *app) historyLs(args []string) error {
	path := ""
	if len(args) > 0 {
		var err error
		if path, err = realFile(args[0]); err != nil {
			return err
		}
	}
	_, all, err := a.copies(path)
	if err != nil {
		return err
	}
	if a.json {
		writeJSON(a.out, map[string]any{"copies": all})
		return nil
	}
	if len(all) == 0 {
		a.note("there are no copies")
		return nil
	}
	rows := [][]string{}
	for _, s := range all {
		rows = append(rows, []string{s.Time.Format("2006-01-02 15:04:05"), s.SessionID, s.MessageID, fmt.Sprint(s.Size), s.Path})
	}
	return a.table([]string{"TIME (UTC)", "SESSION", "MESSAGE", "BYTES", "FILE"}, rows)
}

func historyRestore(a *app) *cobra.Command {
	var session, message string
	c := &cobra.Command{
		Use: "restore FILE", Short: "Put a file back as it was before a change",
		Long: `Put a file back as it was before a change: the latest that there is a copy of, or the
latest of a session or a message.`,
		Args: exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.historyRestore(c.Context(), args[0], session, message)
		},
	}
	c.Flags().StringVar(&session, "session", "", "the `id` of the session that changed the file")
	c.Flags().StringVar(&message, "message", "", "the `id` of the message that changed the file")
	return c
}

func (a *app) historyRestore(ctx context.Context, file, session, message string) error {
	path, err := realFile(file)
	if err != nil {
		return err
	}
	h, all, err := a.copies(path)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s builtin.Snapshot) bool {
		return (session != "" && s.SessionID != session) || (message != "" && s.MessageID != message)
	})
	if len(all) == 0 {
		return usage("there is no such copy of %s; bladehost history ls lists those there are", path)
	}
	s := all[len(all)-1]
	root := filepath.Dir(path)
	for root != filepath.Dir(root) { // the folder may have gone too
		if fi, err := os.Stat(root); err == nil && fi.IsDir() {
			break
		}
		root = filepath.Dir(root)
	}
	if err := h.Restore(ctx, []string{root}, s.SessionID, s.MessageID, path); err != nil {
		return err
	}
	if a.json {
		writeJSON(a.out, map[string]any{"restored": s})
		return nil
	}
	return a.line(fmt.Sprintf("%s is as it was before %s (session %s, message %s)", path, s.Time.Format("2006-01-02 15:04:05"), s.SessionID, s.MessageID))
}

// copies are the copies of a file, or of all.
func (a *app) copies(path string) (*builtin.History, []builtin.Snapshot, error) {
	p, err := a.places()
	if err != nil {
		return nil, nil, err
	}
	h := builtin.OpenHistory(p.state)
	all, err := h.All()
	if err != nil {
		return nil, nil, abi.NewError(abi.CodeIO, "the copies of changed files: %v", err)
	}
	if all == nil {
		all = []builtin.Snapshot{}
	}
	return h, slices.DeleteFunc(all, func(s builtin.Snapshot) bool { return path != "" && s.Path != path }), nil
}

// realFile is a path as copies are noted: absolute, and with links followed as far as it exists.
func realFile(path string) (string, error) {
	abs, err := absPath(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for p := abs; ; p = filepath.Dir(p) {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(real, rest), nil
		}
		if p == filepath.Dir(p) {
			return abs, nil
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}
