package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	driver "github.com/bladehost/bladehost/host/internal/sqlite"
	"github.com/bladehost/bladehost/host/journal"
	. "github.com/bladehost/bladehost/host/journal/journaltest"
	"github.com/bladehost/bladehost/host/journal/sqlite"
)

func must(t testing.TB, s journal.Store, session string, drafts ...journal.Draft) {
	t.Helper()
	if _, err := s.Append(t.Context(), session, drafts, journal.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
}

// fill writes a journal of some size: n ended attempts and two open ones in each
// of two sessions.
func fill(t testing.TB, path string, n int) {
	t.Helper()
	s := open(t, path, sqlite.Options{})
	for _, session := range []string{"one", "two"} {
		must(t, s, session, Created())
		for i := range n {
			a := fmt.Sprint("done-", i)
			list := []journal.Draft{Scheduled(a, abi.SideEffectPure), Requested(a), Resolved(a, "allow"), Started(a, abi.SideEffectPure), Completed(a)}
			for k := range list {
				list[k].CommandID = a
			}
			must(t, s, session, list...)
		}
		must(t, s, session, Scheduled("open", abi.SideEffectPure), Scheduled("ran", abi.SideEffectPure), Started("ran", abi.SideEffectNonIdempotent))
	}
	if _, err := s.Acquire(t.Context(), "one", journal.LeaseRequest{OwnerID: "o", LeaseID: "l", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// view is everything that can be read, as text, or the first error.
func view(ctx context.Context, s *sqlite.Store) (string, error) {
	var b bytes.Buffer
	list, err := s.Sessions(ctx, "", 1000)
	if err != nil {
		return "", err
	}
	for _, i := range list {
		fmt.Fprintf(&b, "%+v\n", i.SessionID)
		sn, err := s.Snapshot(ctx, i.SessionID)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%+v\n", sn)
		for after := int64(0); ; {
			p, err := s.Read(ctx, i.SessionID, journal.ReadOptions{After: after, Limit: 1000})
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "%+v\n", p)
			if after = p.Next; !p.HasMore {
				break
			}
		}
		l, ok, err := s.Lease(ctx, i.SessionID)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%+v %v\n", l, ok)
	}
	return b.String(), nil
}

// DUR-05: the file is private, also one that was not; ids are no paths; nothing
// is left beside it.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "j.db")
	s := open(t, path, sqlite.Options{})
	must(t, s, "../../escape", Created())
	for _, name := range []string{path, path + "-wal"} {
		fi, err := os.Stat(name)
		if err != nil || (runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600) {
			t.Errorf("%s: %v %v", name, fi, err)
		}
	}
	if fi, err := os.Stat(filepath.Dir(path)); err != nil || (runtime.GOOS != "windows" && fi.Mode().Perm() != 0o700) {
		t.Errorf("%v %v", fi, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, path, sqlite.Options{})
	if fi, err := os.Stat(path); err != nil || (runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600) {
		t.Errorf("%v %v", fi, err)
	}
	if n, err := s.Head(t.Context(), "../../escape"); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if _, err := s.Acquire(t.Context(), "../../escape", journal.LeaseRequest{OwnerID: "o", LeaseID: "../x", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var names []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			names = append(names, filepath.Base(p))
		}
		return err
	})
	if err != nil || len(names) != 3 || names[0] != "j.db" || names[1] != "j.db-lock" { // the third tells that the owner of the lease has ended
		t.Errorf("left: %v %v", names, err)
	}
}

// What is no journal is not opened as one, with a word about what it is.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string, content []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	foreign := func(name string, statements ...string) string {
		p := filepath.Join(dir, name)
		s := open(t, p, sqlite.Options{})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := driver.Open(p, driver.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range statements {
			if _, err := db.Exec(q); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	whole := foreign("whole.db")
	b, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		must       bool
		code       abi.Code
		word       string
	}{
		{"missing", filepath.Join(dir, "none.db"), true, abi.CodeJournalMissing, "no journal"},
		{"a folder", dir, false, abi.CodeIO, "not a file"},
		{"below a file", filepath.Join(whole, "x.db"), false, abi.CodeIO, "not a directory"},
		{"empty", at("empty.db", nil), false, abi.CodeJournalCorrupt, "cut off"},
		{"text", at("text.db", bytes.Repeat([]byte("hello "), 1000)), false, abi.CodeJournalVersion, "no journal"},
		{"short", at("short.db", []byte("SQLite format 3\x00")), false, abi.CodeJournalVersion, ""},
		{"another application", foreign("app.db", "PRAGMA application_id = 7"), false, abi.CodeJournalVersion, "something else"},
		{"newer", foreign("newer.db", "PRAGMA user_version = 99"), false, abi.CodeJournalVersion, "newer"},
		{"no version", foreign("none0.db", "PRAGMA user_version = 0"), false, abi.CodeJournalCorrupt, ""},
		{"a table more", foreign("more.db", "CREATE TABLE x (y)"), false, abi.CodeJournalCorrupt, "by hand"},
		{"a trigger", foreign("trigger.db", "CREATE TRIGGER x AFTER INSERT ON events BEGIN DELETE FROM events; END"), false, abi.CodeJournalCorrupt, "by hand"},
		{"a table less", foreign("less.db", "DROP TABLE commands"), false, abi.CodeJournalCorrupt, "by hand"},
		{"half a page", at("half.db", b[:2048]), false, "", ""},
		{"half", at("halves.db", b[:len(b)/2/4096*4096]), false, abi.CodeJournalCorrupt, "damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := sqlite.Open(t.Context(), c.path, sqlite.Options{MustExist: c.must})
			if err == nil {
				_ = s.Close()
				t.Fatal("it was opened")
			}
			if (c.code != "" && abi.CodeOf(err) != c.code) || !strings.Contains(err.Error(), c.word) {
				t.Errorf("%s: %v", abi.CodeOf(err), err)
			}
		})
	}
}

// DUR-04: a byte changed anywhere is reported, or everything that can be read is
// what was written; then verify says so or the byte was of no use.
func TestFlippedBytes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j.db")
	fill(t, path, 30)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, path, sqlite.Options{})
	want, err := view(t.Context(), s)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	const page = 4096
	reported, harmless := 0, 0
	for p := 0; p < len(whole)/page; p++ {
		for k := range 24 {
			if (slow || testing.Short()) && (p+k)%24 != 0 {
				continue
			}
			off := p*page + (k*709+p*131)%page
			if k < 8 {
				off = p*page + k + map[bool]int{true: 100}[p == 0]*(k%2) // the head of the page
			}
			b := bytes.Clone(whole)
			b[off] ^= 1 << (k % 8)
			bad := filepath.Join(dir, "bad.db")
			if err := os.WriteFile(bad, b, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := func() (string, error) {
				s, err := sqlite.Open(t.Context(), bad, sqlite.Options{})
				if err != nil {
					return "", err
				}
				defer func() { _ = s.Close() }()
				return view(t.Context(), s)
			}()
			for _, suffix := range []string{"-wal", "-shm"} {
				_ = os.Remove(bad + suffix)
			}
			switch {
			case err != nil:
				reported++
				if abi.CodeOf(err) == "" {
					t.Errorf("byte %d: an error without a code: %v", off, err)
				}
			case got != want:
				t.Fatalf("byte %d of page %d was changed, and something else is read without an error", off%page, p)
			default:
				harmless++
			}
		}
	}
	t.Logf("%d pages: %d flips reported, %d changed nothing that is read", len(whole)/page, reported, harmless)
	if reported < harmless/4 {
		t.Errorf("only %d of %d reported", reported, reported+harmless)
	}
}

// DUR-04: a file cut off after any page is reported.
func TestTruncation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j.db")
	fill(t, path, 30)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(whole); n += 2048 {
		bad := filepath.Join(dir, "bad.db")
		if err := os.WriteFile(bad, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(t.Context(), bad, sqlite.Options{})
		if err == nil {
			_ = s.Close()
			t.Fatalf("cut at %d of %d, and opened", n, len(whole))
		}
		if code := abi.CodeOf(err); code != abi.CodeJournalCorrupt && code != abi.CodeJournalVersion {
			t.Errorf("cut at %d: %s %v", n, code, err)
		}
		for _, suffix := range []string{"-wal", "-shm"} {
			_ = os.Remove(bad + suffix)
		}
	}
}

// A log that is cut off or damaged loses only what stands behind the damage: each
// prefix of what was acknowledged, never anything else.
func TestTornLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j.db")
	s := open(t, path, sqlite.Options{})
	must(t, s, "s", Created())
	for i := range 20 {
		must(t, s, "s", Scheduled(fmt.Sprint(i), abi.SideEffectPure))
	}
	want := All(t, s, "s")
	db, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	whole := 0
	stride := 1031
	if slow || testing.Short() {
		stride = 24007
	}
	for n := 0; n <= len(log); n += stride {
		for _, flip := range []bool{false, true} {
			torn := filepath.Join(dir, "torn.db")
			b := bytes.Clone(log)
			if flip && n < len(b) {
				b[n] ^= 0x10
			} else {
				b = b[:n]
			}
			if err := errors.Join(os.WriteFile(torn, db, 0o600), os.WriteFile(torn+"-wal", b, 0o600)); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(torn + "-shm")
			s, err := sqlite.Open(t.Context(), torn, sqlite.Options{})
			if err != nil {
				t.Fatalf("cut at %d: %v", n, err)
			}
			got := All(t, s, "s")
			r, err := s.Verify(t.Context(), "", nil)
			if err != nil || r.Found != 0 {
				t.Fatalf("cut at %d: %+v %v", n, r, err)
			}
			for i, e := range got {
				if e.EventID != want[i].EventID {
					t.Fatalf("cut at %d: event %d is another", n, i+1)
				}
			}
			if len(got) == len(want) {
				whole++
			}
			_ = s.Close()
		}
	}
	if whole == len(log)/stride {
		t.Error("nothing was ever cut off")
	}
}

// Verify finds what an honest reader of one session would not look at.
func TestVerify(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		change string
		word   string
	}{
		"whole":               {"", ""},
		"an attempt more":     {"INSERT INTO attempts (sid, attempt, turn, call, open, events) VALUES (1, 'x', 't', 'c', 0, x'01')", "tool attempts"},
		"an attempt less":     {"DELETE FROM attempts WHERE attempt = 'done-1' AND sid = 1", "tool attempts"},
		"a command less":      {"DELETE FROM commands WHERE command = 'done-1' AND sid = 1", "commands"},
		"a command elsewhere": {"UPDATE commands SET first = first + 1 WHERE command = 'done-1' AND sid = 1", "commands"},
		"a permission less":   {"DELETE FROM permissions WHERE permission = 'perm-done-1' AND sid = 1", "permission"},
		"an event less":       {"DELETE FROM events WHERE id = (1 << 36) + 4", "event 4"},
		"the last event":      {"DELETE FROM events WHERE id = (SELECT max(id) FROM events)", "last"},
		"an event changed":    {"UPDATE events SET body = CAST(replace(CAST(body AS TEXT), 'allow', 'deny') AS BLOB) WHERE id = (1 << 36) + 4", "check sum"},
		"a session less":      {"DELETE FROM sessions WHERE sid = 2", "sessions"},
		"a head moved":        {"UPDATE sessions SET head = head - 1 WHERE sid = 1", "check sum"},
		"a lease changed":     {"UPDATE leases SET instance = 'abcdefghijklmnopqrstuvwxyz'", "lease"},
		"an event of nobody":  {"INSERT INTO events (id, body, link) VALUES ((9 << 36) + 1, x'00', x'00')", "events"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".db")
			fill(t, path, 5)
			if c.change != "" {
				db, err := driver.Open(path, driver.Options{})
				if err != nil {
					t.Fatal(err)
				}
				change(t, db, c.change)
			}
			s := open(t, path, sqlite.Options{NoCheck: true})
			calls := 0
			r, err := s.Verify(t.Context(), "", func(done, total int64) { calls++ })
			if err != nil {
				t.Fatal(err)
			}
			if calls == 0 {
				t.Error("no progress")
			}
			if c.word == "" {
				if r.Found != 0 || r.Events != 58 || r.Sessions != 2 || r.Open != 4 || r.Format != 1 {
					t.Errorf("%+v", r)
				}
				return
			}
			if r.Found == 0 || !strings.Contains(fmt.Sprintf("%+v", r.Problems), c.word) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func change(t *testing.T, db *sql.DB, q string) {
	t.Helper()
	res, err := db.Exec(q)
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := res.RowsAffected(); n == 0 {
		t.Fatal("nothing was changed")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// makeFixture writes the fixture of the format of today, once: a released one is
// never written again.
func makeFixture(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "j.db")
	fill(t, path, 3)
	s := open(t, path, sqlite.Options{})
	r, err := s.Verify(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := asLines(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("testdata/format-%d", r.Format)
	if _, err := os.Stat(name + ".db"); err == nil {
		return
	}
	b, err := os.ReadFile(path)
	if err := errors.Join(err, os.MkdirAll("testdata", 0o755), os.WriteFile(name+".db", b, 0o644), os.WriteFile(name+".jsonl", lines, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// asLines are the events of a filled file.
func asLines(t *testing.T, s *sqlite.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, session := range []string{"one", "two"} {
		for _, e := range All(t, s, session) {
			if err := json.NewEncoder(&b).Encode(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b.Bytes()
}

// Each released format stays readable: what this version makes of the file is
// what was in it.
func TestFixtures(t *testing.T) {
	if *update {
		makeFixture(t)
	}
	list, err := filepath.Glob("testdata/format-*.db")
	if err != nil || len(list) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, name := range list {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "j.db")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, path, sqlite.Options{})
			r, err := s.Verify(t.Context(), "", nil)
			if err != nil || r.Found != 0 {
				t.Fatalf("%+v %v", r, err)
			}
			for _, session := range []string{"one", "two"} {
				p, err := journal.PlanOf(t.Context(), s, session)
				if err != nil || len(p.Unknown) != 1 || len(p.Retryable) != 1 {
					t.Errorf("%+v %v", p, err)
				}
			}
			want, err := os.ReadFile(strings.TrimSuffix(name, ".db") + ".jsonl")
			if err != nil || !bytes.Equal(want, asLines(t, s)) {
				t.Errorf("the events differ from the fixture's (%v)", err)
			}
			must(t, s, "two", Completed("ran")) // and it goes on
		})
	}
}

// damageBodies makes every event of ended calls unreadable, by SQL.
func damageBodies(t *testing.T, path string) {
	t.Helper()
	db, err := driver.Open(path, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	change(t, db, "UPDATE events SET body = x'00' WHERE CAST(body AS TEXT) LIKE '%done-%'")
}

// A page of large events is cut by its bytes, so that reading takes a bounded
// amount of memory; an event that somebody made huge is not read at all.
func TestLargeEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	s := open(t, path, sqlite.Options{}.Paged(1<<20))
	must(t, s, "s", Created())
	const n = 6
	for i := range n {
		d := Scheduled(fmt.Sprint(i), abi.SideEffectPure)
		d.Data = json.RawMessage(fmt.Sprintf(`{"toolCallId":"c%d","toolName":"T","modelInput":{},"input":{"x":%q},"sideEffect":"pure","interruptBehavior":"block"}`, i, strings.Repeat("x", 300<<10)))
		must(t, s, "s", d)
	}
	p, err := s.Read(t.Context(), "s", journal.ReadOptions{})
	if err != nil || len(p.Events) != 5 || !p.HasMore || p.Next != int64(len(p.Events)) || p.Head != n+1 {
		t.Errorf("%d events, next %d, more %v, %v", len(p.Events), p.Next, p.HasMore, err)
	}
	if got := len(All(t, s, "s")); got != n+1 {
		t.Errorf("%d events", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := driver.Open(path, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	change(t, db, "UPDATE events SET body = zeroblob(40000000) WHERE id = (1 << 36) + 3")
	s = open(t, path, sqlite.Options{})
	if _, err := s.Read(t.Context(), "s", journal.ReadOptions{}); abi.CodeOf(err) != abi.CodeJournalCorrupt {
		t.Errorf("%v", err)
	}
}
