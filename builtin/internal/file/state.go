package file

import (
	"context"
	"crypto/sha256"
	"io"
	"sync"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/caps/fs"
)

// Hash is the SHA-256 of a file's bytes.
type Hash [sha256.Size]byte

// record is how a session last saw a file.
type record struct {
	st     fs.Info
	hash   Hash
	hashed bool
}

// State is what sessions have seen of files. A session may change an existing file
// only as it has seen it. The zero value knows nothing; safe for concurrent use.
type State struct {
	// AllowUnread lets a session change what it has not seen. It is set before the first use.
	AllowUnread bool

	mu       sync.Mutex
	sessions map[string]map[string]record
}

// Saw notes that a session has seen the target as st, and its whole content if hash is
// not nil. A nobody's session is not noted.
func (s *State) Saw(session string, t *Target, st fs.Info, hash *Hash) {
	if session == "" {
		return
	}
	r := record{st: st}
	if hash != nil {
		r.hash, r.hashed = *hash, true
	}
	key := t.Key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == nil {
		s.sessions = map[string]map[string]record{}
	}
	files := s.sessions[session]
	if files == nil {
		files = map[string]record{}
		s.sessions[session] = files
	}
	if old, ok := files[key]; ok && hash == nil && old.hashed && unchanged(old.st, st) {
		return // the whole was seen before, and this was a part of it
	}
	files[key] = r
}

// End forgets a session.
func (s *State) End(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
}

// Guard is nil if the session may change the existing target, whose state is st now.
// content gives the hash of the file as it is; it is asked for only where the session
// had seen the whole. Otherwise the error is no_session, not_read or
// modified_externally.
func (s *State) Guard(session string, t *Target, st fs.Info, content func() (Hash, error)) error {
	if session == "" {
		return Error(abi.TypeValidation, CodeNoSession, "%s exists, and a call outside of a session cannot show that it was read before; make the call in a session.", t.Path)
	}
	key := t.Key()
	s.mu.Lock()
	r, ok := s.sessions[session][key]
	s.mu.Unlock()
	if !ok && s.AllowUnread {
		return nil
	}
	if !ok {
		return Error(abi.TypeValidation, CodeNotRead, "%s has not been read in this session. Read it first, then repeat the call.", t.Path)
	}
	if !r.hashed {
		if unchanged(r.st, st) {
			return nil
		}
		return Modified(t)
	}
	h, err := content()
	switch {
	case err != nil:
		return err
	case h != r.hash:
		return Modified(t)
	}
	return nil
}

// Modified is the error for a file that is not as the session saw it.
func Modified(t *Target) error {
	return Error(abi.TypeValidation, CodeModified, "%s was changed by someone else since it was read. Read it again, then repeat the call.", t.Path).
		With(map[string]bool{"externalModification": true})
}

// unchanged reports whether two looks at a file show the same bytes, as far as can be
// told without reading them.
func unchanged(a, b fs.Info) bool {
	return a.Same(b) && a.Size == b.Size && a.Mtim == b.Mtim && a.Type == b.Type
}

// HashOf hashes what can be read from r, and stops when ctx ends.
func HashOf(ctx context.Context, r io.Reader) (Hash, error) {
	h := sha256.New()
	buf := make([]byte, 256<<10)
	for {
		if err := Aborted(ctx); err != nil {
			return Hash{}, err
		}
		n, err := r.Read(buf)
		h.Write(buf[:n])
		if err == io.EOF {
			return Hash(h.Sum(nil)), nil
		}
		if err != nil {
			return Hash{}, err
		}
	}
}
