package file

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/caps/fs"
	"github.com/bladehost/bladehost/host/tool"
)

// What History keeps.
const (
	// maxVersions are the copies kept of one file in one session.
	maxVersions = 10
	// maxCopy is the largest file of which a copy is kept, in bytes.
	maxCopy = 256 << 20
	// keepSessions is how long the copies of a session stay after its last change.
	keepSessions = 30 * 24 * time.Hour
)

// Snapshot is a copy of a file as it was before a message of a session changed it.
type Snapshot struct {
	SessionID string    `json:"sessionId"`
	MessageID string    `json:"messageId"`
	Path      string    `json:"filePath"`
	Version   int       `json:"version"`
	SHA256    string    `json:"backupFileName"`
	Size      int64     `json:"size"`
	Time      time.Time `json:"timestamp"`
}

// History keeps copies of files before they are changed, as raw bytes named by their
// SHA-256, in a folder a session: dir/file-history/<session>/. The folders and files are
// the user's alone (0700, 0600). Safe for concurrent use in one process; another process
// sees what is complete.
type History struct {
	// temp is set where the folder is a private one that goes with the sessions.
	temp bool

	mu     sync.Mutex
	dir    string
	err    error
	pruned bool
}

// OpenHistory keeps copies below dir; empty means a private temporary folder, made
// when it is first needed, in which the copies of a session go when it ends. Copies of sessions
// that changed nothing for 30 days are removed.
func OpenHistory(dir string) *History {
	if dir == "" {
		return &History{temp: true}
	}
	return &History{dir: filepath.Join(dir, "file-history")}
}

// folder is the folder of a session, made if make is set.
func (h *History) folder(session string, create bool) (string, error) {
	if h.dir == "" && h.err == nil {
		if !create {
			return "", iofs.ErrNotExist
		}
		h.dir, h.err = os.MkdirTemp("", "bladehost-files-")
	}
	if h.err != nil {
		return "", h.err
	}
	sum := sha256.Sum256([]byte(session))
	dir := filepath.Join(h.dir, hex.EncodeToString(sum[:16]))
	if !create {
		return dir, nil
	}
	if !h.temp && !h.pruned {
		h.pruned = true
		h.prune()
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// prune removes what was not touched for long.
func (h *History) prune() {
	list, _ := os.ReadDir(h.dir) // a folder that is not there has nothing to prune
	for _, e := range list {
		if fi, err := e.Info(); err == nil && time.Since(fi.ModTime()) > keepSessions {
			_ = os.RemoveAll(filepath.Join(h.dir, e.Name())) // next time, then
		}
	}
}

// Keep stores the content of the target before message changes it. A second change by
// the same message keeps the first copy: that is what a restore goes back to.
func (h *History) Keep(session, message string, t *Target, content io.Reader) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	dir, err := h.folder(session, true)
	if err != nil {
		return err
	}
	list, err := readIndex(dir)
	if err != nil {
		return err
	}
	key, version := t.Key(), 0
	for _, s := range list {
		if s.Path != key {
			continue
		}
		if s.MessageID == message {
			return nil
		}
		version = max(version, s.Version)
	}
	s := Snapshot{SessionID: session, MessageID: message, Path: key, Version: version + 1, Time: time.Now().UTC()}
	if s.SHA256, s.Size, err = storeBlob(dir, content); err != nil {
		return err
	}
	list = append(list, s)
	if n := count(list, key); n > maxVersions {
		list = slices.Delete(list, slices.IndexFunc(list, func(s Snapshot) bool { return s.Path == key }), slices.IndexFunc(list, func(s Snapshot) bool { return s.Path == key })+1)
	}
	if err := writeIndex(dir, list); err != nil {
		return err
	}
	sweep(dir, list)
	return nil
}

func count(list []Snapshot, path string) (n int) {
	for _, s := range list {
		if s.Path == path {
			n++
		}
	}
	return n
}

// storeBlob stores bytes under their hash.
func storeBlob(dir string, r io.Reader) (name string, size int64, err error) {
	f, err := os.CreateTemp(dir, "new-*") // 0600, a random name, O_EXCL
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already once it has its name
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, sum), io.LimitReader(r, maxCopy+1))
	if err == nil && size > maxCopy {
		err = errors.New("the file is too large to keep a copy")
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return "", 0, err
	}
	name = hex.EncodeToString(sum.Sum(nil))
	return name, size, os.Rename(f.Name(), filepath.Join(dir, name))
}

const indexFile = "index.jsonl"

func readIndex(dir string) (list []Snapshot, err error) {
	b, err := os.ReadFile(filepath.Join(dir, indexFile))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseIndex(b), nil
}

// parseIndex reads an index. Lines that are none, as a crash could leave, are skipped.
func parseIndex(b []byte) (list []Snapshot) {
	for line := range bytes.Lines(b) {
		var s Snapshot
		if json.Unmarshal(line, &s) == nil && validHash(s.SHA256) && s.Path != "" {
			list = append(list, s)
		}
	}
	return list
}

func validHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && hex.EncodeToString(b) == s
}

func writeIndex(dir string, list []Snapshot) error {
	f, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already once it has its name
	w := bufio.NewWriter(f)
	for _, s := range list {
		line, err := abi.Marshal(s)
		if err != nil {
			_ = f.Close() // the first error counts
			return err
		}
		_, _ = w.Write(append(line, '\n')) // Flush says
	}
	err = w.Flush()
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, indexFile))
}

// sweep removes blobs that no snapshot names.
func sweep(dir string, list []Snapshot) {
	entries, _ := os.ReadDir(dir) // next time, then
	for _, e := range entries {
		if validHash(e.Name()) && !slices.ContainsFunc(list, func(s Snapshot) bool { return s.SHA256 == e.Name() }) {
			_ = os.Remove(filepath.Join(dir, e.Name())) // next time, then
		}
	}
}

// List are the copies of a session, oldest first.
func (h *History) List(session string) ([]Snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dir, err := h.folder(session, false)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readIndex(dir)
}

// All are the copies of all sessions, oldest first.
func (h *History) All() (all []Snapshot, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	entries, err := os.ReadDir(h.dir)
	if errors.Is(err, iofs.ErrNotExist) || h.dir == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		list, err := readIndex(filepath.Join(h.dir, e.Name()))
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if s.SessionID != "" {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Snapshot) int { return a.Time.Compare(b.Time) })
	return all, nil
}

// Restore puts a file back as it was before a message changed it. Roots are the folders in
// which files may be written, as of the session. The bytes are checked against their hash.
// The session has to read the file again before it changes it.
func (h *History) Restore(ctx context.Context, roots []string, session, message, path string) error {
	a, err := Open(tool.Snapshot{Roots: roots}, nil)
	if err != nil {
		return err
	}
	defer a.Close()
	t, err := a.File("/path", path)
	if err != nil {
		return err
	}
	data, err := h.content(session, message, t.Key())
	if err != nil {
		return Error(abi.TypeExecution, CodeNotFound, "there is no copy of %s from before message %q in session %q: %v", path, message, session, err).Because(err)
	}
	var old *fs.Info
	if st, err := t.Stat(); err == nil {
		old = &st
	} else if abi.CodeOf(err) != CodeNotFound {
		return err
	}
	_, err = t.Replace(ctx, old, data, true)
	return err
}

func (h *History) content(session, message, path string) ([]byte, error) {
	list, err := h.List(session)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(s Snapshot) bool { return s.MessageID == message && s.Path == path })
	if i < 0 {
		return nil, iofs.ErrNotExist
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	dir, err := h.folder(session, false)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, list[i].SHA256))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != list[i].SHA256 {
		return nil, errors.New("the copy is damaged")
	}
	return b, nil
}

// End is told that a session has ended: in a temporary folder its copies go.
func (h *History) End(session string) error {
	if !h.temp {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	dir, err := h.folder(session, false)
	if err != nil {
		return nil // nothing was kept
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if os.Remove(h.dir) == nil { // the last session of this folder
		h.dir = ""
	}
	return nil
}

// Dir is where the copies are, or "" while there is no folder.
func (h *History) Dir() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dir
}
