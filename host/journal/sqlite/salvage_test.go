package sqlite_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
	driver "github.com/bladehost/bladehost/host/internal/sqlite"
	"github.com/bladehost/bladehost/host/journal"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

// salvaged are the events that can still be read, one a line, and how many are told
// to be lost; unknown says that the number of a session's events is not known.
func salvaged(t *testing.T, path string) (lines []string, lost int64, unknown bool, err error) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{ReadOnly: true, NoCheck: true})
	if err != nil {
		return nil, 0, false, err
	}
	defer func() { _ = s.Close() }()
	err = s.Salvage(t.Context(), "", func(e journal.Event) error {
		b, err := json.Marshal(e)
		lines = append(lines, string(b))
		return err
	}, func(l sqlite.Lost) {
		if l.First == 0 {
			unknown = true
		} else {
			lost += l.Last - l.First + 1
		}
	})
	return lines, lost, unknown, err
}

// DUR-04: of a file that was cut off, or has a page that is not what it was, all
// events on other pages are saved, nothing that was not written is, and what is lost
// is told.
func TestSalvage(t *testing.T) {
	const page = 4096
	dir := t.TempDir()
	path := filepath.Join(dir, "j.db")
	fill(t, path, 30)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, lost, unknown, err := salvaged(t, path)
	if err != nil || lost != 0 || unknown || len(all) != 2*(1+30*5+3) {
		t.Fatalf("%d events, %d lost, %v %v", len(all), lost, unknown, err)
	}
	written := map[string]bool{}
	for _, l := range all {
		written[l] = true
	}
	pages := len(whole) / page
	most := 0 // events saved of a file with one bad page, at the most
	try := func(what string, b []byte) {
		bad := filepath.Join(dir, "bad.db")
		if err := os.WriteFile(bad, b, 0o600); err != nil {
			t.Fatal(err)
		}
		got, lost, unknown, err := salvaged(t, bad)
		for _, suffix := range []string{"-wal", "-shm"} {
			_ = os.Remove(bad + suffix)
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, l := range got {
			if !written[l] {
				t.Errorf("%s: %s was never written", what, l)
			}
		}
		if len(got) < len(all) && lost == 0 && !unknown || !unknown && len(got)+int(lost) != len(all) {
			t.Errorf("%s: %d of %d saved, %d lost, %v", what, len(got), len(all), lost, unknown)
		}
		most = max(most, len(got))
		if strings.HasPrefix(what, "without the last") && len(got) < len(all)/2 {
			t.Errorf("%s: only %d of %d saved", what, len(got), len(all))
		}
	}
	for p := 1; p < pages; p++ { // the first page says what the file is
		b := bytes.Clone(whole)
		clear(b[p*page : (p+1)*page])
		try(fmt.Sprint("page ", p), b)
	}
	try("without the last page", whole[:len(whole)-page])
	try("without the last two and a half", whole[:len(whole)-page*5/2])
	try("the half", whole[:len(whole)/2])
	if most < len(all)/2 {
		t.Errorf("at most %d of %d events were saved", most, len(all))
	}
}

// A file that was cut off is verified: the report says what is wrong.
func TestVerifyCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	fill(t, path, 30)
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, fi.Size()-4096); err != nil {
		t.Fatal(err)
	}
	s := open(t, path, sqlite.Options{ReadOnly: true, NoCheck: true})
	r, err := s.Verify(t.Context(), "", nil)
	if err != nil || r.Found == 0 {
		t.Errorf("%+v %v", r, err)
	}
}

// Whatever is not a journal is refused before anything of it is changed: not its
// mode, not its content, and no file appears beside it.
func TestOthersFilesStay(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(path string) error
	}{
		{"another program's", func(path string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			db, err := driver.Open(path, driver.Options{})
			if err != nil {
				return err
			}
			db.SetMaxOpenConns(1)
			return errors.Join(all(db, "CREATE TABLE x (y)", "PRAGMA application_id = 7", "PRAGMA user_version = 3", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA journal_mode = DELETE"), db.Close())
		}},
		{"text", func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("text "), 2000), 0o600) }},
	} {
		for name, opt := range map[string]sqlite.Options{"to write": {}, "to read": {ReadOnly: true}, "to save": {ReadOnly: true, NoCheck: true}} {
			t.Run(c.name+" "+name, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "x.db")
				if err := c.make(path); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, 0o644); err != nil {
					t.Fatal(err)
				}
				state := func() string {
					fi, err := os.Stat(path)
					if err != nil {
						t.Fatal(err)
					}
					b, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					list, err := os.ReadDir(dir)
					if err != nil {
						t.Fatal(err)
					}
					return fmt.Sprint(fi.Mode(), fi.ModTime(), list, string(b))
				}
				before := state()
				if _, err := sqlite.Open(t.Context(), path, opt); abi.CodeOf(err) != abi.CodeJournalVersion {
					t.Fatalf("%v", err)
				}
				if after := state(); after != before {
					t.Errorf("changed from\n%.200s\nto\n%.200s", before, after)
				}
			})
		}
	}
}

func all(db *sql.DB, statements ...string) error {
	for _, q := range statements {
		if _, err := db.Exec(q); err != nil {
			return err
		}
	}
	return nil
}

// Where no file can be made beside it, a journal without a log is read; one with a
// log is not, for that has what was written last. Nothing is written.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j.db")
	fill(t, path, 3)
	for _, suffix := range []string{"-lock", "-shm"} { // a link to itself: it cannot be made
		_ = os.Remove(path + suffix)
		if err := os.Symlink(path+suffix, path+suffix); err != nil {
			t.Skip(err)
		}
	}
	s := open(t, path, sqlite.Options{ReadOnly: true})
	if n, err := s.Head(t.Context(), "one"); n != 1+3*5+3 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if r, err := s.Verify(t.Context(), "", nil); err != nil || r.Found > 0 {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := s.Append(t.Context(), "one", nil, journal.AppendOptions{}); abi.CodeOf(err) != abi.CodeJournalWrite || !strings.Contains(err.Error(), "reading only") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(path+"-wal", []byte("a log"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{ReadOnly: true}); abi.CodeOf(err) != abi.CodeJournalRead || !strings.Contains(err.Error(), "copy both") {
		t.Errorf("%v", err)
	}
}
