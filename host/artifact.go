package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// artifactStore keeps what is too large for a model's context. Files are 0600 in
// a folder that is 0700, outside of any workspace. A handle names one file for
// the sessions of this host; guests see handles only.
type artifactStore struct {
	mu     sync.Mutex
	dir    string
	made   bool
	own    bool
	handle map[string]string
}

func newArtifactStore(dir string) *artifactStore {
	return &artifactStore{dir: dir, own: dir == "", handle: map[string]string{}}
}

// artifact is the content of an artifact file of a result.
type artifact struct {
	ToolName     string          `json:"toolName"`
	SessionID    string          `json:"sessionId"`
	ModelContent json.RawMessage `json:"modelContent"`
	CreatedAt    string          `json:"createdAt"`
}

// Artifact is one kept artifact.
type Artifact struct {
	// Handle names it: art-…. Another tool can take it.
	Handle string `json:"handle"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

func (s *artifactStore) folder() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made {
		return s.dir, nil
	}
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "bladehost-artifacts-")
		if err != nil {
			return "", err
		}
		s.dir = dir
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	s.made = true
	return s.dir, nil
}

// put writes one artifact under a name made of parts that are safe in a file
// name; the handle makes it unique.
func (s *artifactStore) put(b []byte, ext string, parts ...string) (Artifact, error) {
	dir, err := s.folder()
	if err != nil {
		return Artifact{}, err
	}
	handle := newID("art")
	for i, p := range parts {
		parts[i] = safeName(p)
	}
	path := filepath.Join(dir, strings.Join(append(parts, handle), "-")+ext)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Artifact{}, err
	}
	_, err = f.Write(b)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(path)
		return Artifact{}, err
	}
	sum := sha256.Sum256(b)
	s.mu.Lock()
	s.handle[handle] = path
	s.mu.Unlock()
	return Artifact{Handle: handle, Path: path, SHA256: hex.EncodeToString(sum[:]), Bytes: len(b)}, nil
}

// open opens an artifact by its handle.
func (s *artifactStore) open(handle string) (*os.File, error) {
	s.mu.Lock()
	path, ok := s.handle[handle]
	s.mu.Unlock()
	if !ok {
		return nil, abi.NewError(abi.CodeRequest, "there is no artifact %q here", clip(handle))
	}
	return os.Open(path)
}

func (s *artifactStore) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.own || s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// safeName keeps letters, digits, dot, underscore and hyphen, other runs become
// one hyphen, and cuts at 64.
func safeName(s string) string {
	var b strings.Builder
	dash := false
	for _, r := range s {
		if r < 0x80 && (r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			b.WriteRune(r)
			dash = false
		} else if !dash {
			b.WriteByte('-')
			dash = true
		}
		if b.Len() >= 64 {
			break
		}
	}
	return strings.TrimLeft(b.String(), ".")
}

// resultArtifact keeps a result's model.
func (s *artifactStore) resultArtifact(session, name string, model json.RawMessage) (Artifact, error) {
	b, err := json.MarshalIndent(artifact{ToolName: name, SessionID: session, ModelContent: model, CreatedAt: now().UTC().Format(time.RFC3339Nano)}, "", "  ")
	if err != nil {
		return Artifact{}, err
	}
	return s.put(b, ".json", session, name, fmt.Sprint(now().UnixMilli()))
}
