// Package todos has the built-in tool TodoWrite: the list by which a model keeps
// track of what it is doing. Each session has one.
package todos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// Options configures the tools about todos.
type Options struct {
	// StateDir keeps the list of each session in a file, so that a session that is
	// taken up again has it. Empty means that lists end with their session.
	StateDir string
}

// Tools are the tools of the group todos.
func Tools(o Options) []tool.Tool {
	return []tool.Tool{newWrite(&lists{dir: o.StateDir, open: map[string]*todoList{}})}
}

// Codes of the tools about todos.
const (
	codeSeveral abi.Code = "multiple_in_progress"
	codeIO      abi.Code = "io_error"
)

// lists are the lists of all sessions.
type lists struct {
	dir   string
	prune sync.Once

	mu   sync.Mutex
	open map[string]*todoList
}

// todoList is the list of one session.
type todoList struct {
	mu    sync.Mutex
	read  bool
	items []item
}

// of is the list of a session. A call without a session has an empty one of its own.
func (l *lists) of(session string) *todoList {
	if session == "" {
		return &todoList{read: true}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.open[session]
	if t == nil {
		t = &todoList{read: l.dir == ""}
		l.open[session] = t
	}
	return t
}

// EndSession forgets the list of a session; a file of it stays.
func (l *lists) EndSession(_ context.Context, sessionID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, sessionID)
	return nil
}

// stored is the file of a list. The session is in it to tell lists apart.
type stored struct {
	Session string `json:"sessionId"`
	Todos   []item `json:"todos"`
}

// path is the file of a session. Its name is a digest: a session's id may hold any
// character.
func (l *lists) path(session string) string {
	sum := sha256.Sum256([]byte(session))
	return filepath.Join(l.dir, "todos", hex.EncodeToString(sum[:])+".json")
}

// maxFile bounds a file that is read, in bytes: an input cannot be larger.
const maxFile = 2 * abi.MaxInput

// load reads the list that an earlier process kept. One that cannot be read is no
// list: the next write makes a new one.
func (l *lists) load(session string) []item {
	p := l.path(session)
	if fi, err := os.Lstat(p); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxFile {
		return nil
	}
	b, err := os.ReadFile(p) //nolint:gosec // a name of our own
	if err != nil {
		return nil
	}
	var s stored
	if json.Unmarshal(b, &s) != nil || s.Session != session {
		return nil
	}
	for _, it := range s.Todos {
		if it.Content == "" || !it.Status.valid() || !it.Priority.valid() {
			return nil
		}
	}
	return s.Todos
}

// save replaces the file of a list as a whole.
func (l *lists) save(session string, items []item) (err error) {
	if l.dir == "" || session == "" {
		return nil
	}
	b, err := abi.Marshal(stored{session, items})
	if err != nil {
		return err
	}
	p := l.path(session)
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		return err
	}
	l.prune.Do(func() { l.forget(time.Now().Add(-keepFiles)) })
	f, err := os.CreateTemp(filepath.Dir(p), ".new-*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(f.Name())))
		}
	}()
	if _, err := f.Write(b); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), p)
}

// keepFiles is how long the list of a session that nobody takes up again is kept.
const keepFiles = 30 * 24 * time.Hour

// forget removes the files that were last written before a time. What cannot be
// removed stays until the next time.
func (l *lists) forget(before time.Time) {
	dir := filepath.Join(l.dir, "todos")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && fi.Mode().IsRegular() && fi.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
