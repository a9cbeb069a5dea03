package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

// What decides about permissions is read only from a file that nobody else could
// have made.
func TestOwnFileRefuses(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := put("good", "text", 0o600)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		name, says string
		f          OwnFile
	}{
		{"a link", "regular file", OwnFile{Path: link}},
		{"a folder", "regular file", OwnFile{Path: dir}},
		{"too large", "more than 3 bytes", OwnFile{Path: good, MaxBytes: 3}},
		{"others may write", "chmod 600", OwnFile{Path: put("open", "text", 0o666)}},
	} {
		if c.says == "chmod 600" && runtime.GOOS == "windows" {
			continue
		}
		b, err := c.f.Read()
		if b != nil || abi.CodeOf(err) != abi.CodeIO || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.f.Path) {
			t.Errorf("%s: %q, %v", c.name, b, err)
		}
	}
	if b, err := (OwnFile{Path: filepath.Join(dir, "open"), Anyone: true}).Read(); string(b) != "text" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := (OwnFile{Path: filepath.Join(dir, "missing")}).Read(); b != nil || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := (OwnFile{Path: put("empty", "", 0o600)}).Read(); b == nil || len(b) != 0 || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// Changes at the same time are all kept, and a failed one changes nothing.
func TestOwnFileChanges(t *testing.T) {
	f := OwnFile{Path: filepath.Join(t.TempDir(), "deep", "file")}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := f.Change(t.Context(), func(old []byte) ([]byte, error) { return fmt.Appendf(old, "%d\n", i), nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b, err := f.Read()
	if err != nil || strings.Count(string(b), "\n") != 20 {
		t.Fatalf("%q, %v", b, err)
	}
	if err := f.Change(t.Context(), func([]byte) ([]byte, error) { return nil, os.ErrInvalid }); err == nil {
		t.Error("no error")
	}
	if again, _ := f.Read(); string(again) != string(b) {
		t.Errorf("%q", again)
	}
	if fi, err := os.Stat(f.Path); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	names, err := os.ReadDir(filepath.Dir(f.Path))
	if err != nil || len(names) != 2 { // the file and its lock
		t.Errorf("%v, %v", names, err)
	}
}

// A grant that has expired can still be revoked by its id.
func TestRevokeExpired(t *testing.T) {
	s := OpenGrants(filepath.Join(t.TempDir(), "grants.json"))
	if err := os.WriteFile(s.path, fmt.Appendf(nil, `{"version":1,"grants":[{"id":"g-1","plugin":"blade-tool-x","sha256":%q,"kind":"net","value":"a.example.com","scope":"plugin","created":"2020-01-01T00:00:00Z","expires":"2020-01-02T00:00:00Z"}]}`, digestA), 0o600); err != nil {
		t.Fatal(err)
	}
	gone, err := s.Revoke(t.Context(), func(g Grant) bool { return g.ID == "g-1" })
	if err != nil || len(gone) != 1 {
		t.Errorf("%v, %v", gone, err)
	}
}
