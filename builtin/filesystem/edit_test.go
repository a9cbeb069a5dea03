package filesystem

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host"
)

// What a text becomes: strategies, line ends, and how new_string is adapted.
func TestEditMatching(t *testing.T) {
	for _, c := range []struct {
		name, text, old, fresh string
		all                    bool
		want, strategy         string
	}{
		{"plain", "a b c", "b", "x", false, "a x c", strategyExact},
		{"dollars are letters", "a", "a", "$1 $& \\1", false, "$1 $& \\1", strategyExact},
		{"delete", "a\nb\nc\n", "b\n", "", false, "a\nc\n", strategyExact},
		{"all, without overlaps", "aaaa", "aa", "b", true, "bb", strategyExact},
		{"all", "foo bar foo", "foo", "x", true, "x bar x", strategyExact},
		{"LF in a CR LF file", "one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2\n3", false, "1\r\n2\r\n3\r\nthree\r\n", strategyExact},
		{"new lines in a CR LF file", "one\r\ntwo\r\n", "one", "1\n1b", false, "1\r\n1b\r\ntwo\r\n", strategyExact},
		{"CR LF in an LF file", "one\ntwo\n", "one\r\ntwo", "1\r\n2", false, "1\n2\n", strategyExact},
		{"LF for CR LF", "one\r\ntwo\r\n", "one\r\n", "1\n", false, "1\r\ntwo\r\n", strategyExact},
		{"mixed ends, only the place changes", "a\nb\r\nc\nd\n", "b\nc", "x\ny", false, "a\nx\ny\nd\n", strategyExact},
		{"several in CR LF", "x\r\ny\r\nx\r\ny\r\n", "x\ny", "z", true, "z\r\nz\r\n", strategyExact},
		{"curly quotes", "say “hello” and ‘x’\n", "say \"hello\"", "tell \"hello\"", false, "tell “hello” and ‘x’\n", strategyQuotes},
		{"new curly quotes", "“a”", "\"a\"", "\"b c\" (\"d\")", false, "“b c” (“d”)", strategyQuotes},
		{"an apostrophe", "it’s mine", "it's mine", "it's ours, isn't it", false, "it’s ours, isn’t it", strategyQuotes},
		{"straight where the file is straight", "\"a\"", "“a”", "“b c” “d”", false, "\"b c\" \"d\"", strategyQuotes},
		{"escapes", "a\tb\n", "a\\tb", "c\\td\\n", false, "c\td\n\n", strategyUnescape},
		{"doubled escapes", "a\nb", "a\\\\nb", "x", false, "x", strategyUnescape},
		{"indentation", "def f():\n    if x:\n        y\n", "  if x:\n      y", "  if z:\n      w", false, "def f():\n    if z:\n        w\n", strategyIndent},
		{"indentation, bare new text", "def f():\n    if x:\n        y\n", "  if x:\n      y", "IF", false, "def f():\n    IF\n", strategyIndent},
		{"tabs for blanks", "\tif x:\n\t\ty\n", "  if x:\n  \ty", "  a\n  \tb\n\n  c", false, "\ta\n\t\tb\n\n\tc\n", strategyIndent},
		{"indentation in a CR LF file", "\ta\r\n\tb\r\n", "  a\n  b", "  c\n  d", false, "\tc\r\n\td\r\n", strategyIndent},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(t, map[string]string{"f": c.text})
			r.ok("Read", map[string]any{"file_path": "f"})
			res := r.run("Edit", map[string]any{"file_path": "f", "old_string": c.old, "new_string": c.fresh, "replace_all": c.all})
			if res.IsError() {
				t.Fatalf("%s: %s", res.Error.Code, res.Error.Message)
			}
			if got := r.get("f"); got != c.want || res.Metadata["match_strategy"] != c.strategy {
				t.Errorf("%q by %v, not %q by %s", got, res.Metadata["match_strategy"], c.want, c.strategy)
			}
		})
	}
}

// What must not be found, or not be taken for one place.
func TestEditRefused(t *testing.T) {
	for _, c := range []struct {
		name, text, old string
		code            abi.Code
		count           int
	}{
		{"nowhere", "abc", "x", file.CodeNoMatch, 0},
		{"twice", "foo\n bar foo\n", "foo", file.CodeNotUnique, 2},
		{"two spellings of quotes", "“a” \"a\"", "“a\"", file.CodeNotUnique, 2},
		{"two indentations", "  a\n  b\n    a\n    b\n", "\ta\n\tb", file.CodeNotUnique, 2},
		{"unindented text is taken as it is", "  a\n  b", "a\nb", file.CodeNoMatch, 0},
		{"one line has no indentation of its own", "  x", "    x", file.CodeNoMatch, 0},
		{"a backslash that is none", "C:\\temp", "C:\\\\temp", file.CodeNoMatch, 0},
		{"twice in CR LF", "x\r\ny\r\nx\r\ny\r\n", "x\ny", file.CodeNotUnique, 2},
	} {
		r := newRoom(t, map[string]string{"f": c.text})
		r.ok("Read", map[string]any{"file_path": "f"})
		res := r.run("Edit", map[string]any{"file_path": "f", "old_string": c.old, "new_string": "new"})
		if res.Error == nil || res.Error.Code != c.code || r.get("f") != c.text {
			t.Errorf("%s: %+v, the file has %q", c.name, res, r.get("f"))
			continue
		}
		if c.code == file.CodeNotUnique {
			var d struct {
				Matches []place
				Count   int
			}
			if err := json.Unmarshal(res.Error.Details, &d); err != nil || d.Count != c.count || len(d.Matches) != c.count {
				t.Errorf("%s: %s", c.name, res.Error.Details)
			}
		}
	}
	// Columns are UTF-16 units, from 1.
	r := newRoom(t, map[string]string{"f": "a\n😀é x\n x"})
	r.ok("Read", map[string]any{"file_path": "f"})
	res := r.run("Edit", map[string]any{"file_path": "f", "old_string": "x", "new_string": "y"})
	if string(res.Error.Details) != `{"count":2,"matches":[{"line":2,"column":5},{"line":3,"column":2}]}` {
		t.Errorf("%s", res.Error.Details)
	}
}

// The handed vectors of the helpers.
func TestEditHelpers(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/builtin/edit-helpers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range splitLines(raw) {
		var c struct {
			Fn, Input, Content, Search string
			Output                     *string
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		n++
		if c.Fn == "unescape" {
			if got := unescape(c.Input); got != *c.Output {
				t.Errorf("unescape %q: %q, not %q", c.Input, got, *c.Output)
			}
			continue
		}
		f := byIndent(t.Context(), c.Content, c.Search, "")
		var got *string
		if len(f.spans) > 0 {
			s := c.Content[f.spans[0].from:f.spans[0].to]
			got = &s
		}
		if (got == nil) != (c.Output == nil) || (got != nil && *got != *c.Output) {
			t.Errorf("%q in %q: %v", c.Search, c.Content, f.spans)
		}
	}
	if n < 19 {
		t.Errorf("only %d vectors", n)
	}
}

// What is said where nothing matches: similar places, the best first, and the lines around.
func TestEditNoMatchHelps(t *testing.T) {
	var lines []string
	for i := 1; i <= 100; i++ {
		lines = append(lines, fmt.Sprintf("func number%d() int { return %d }", i, i*7919))
	}
	r := newRoom(t, map[string]string{"f": strings.Join(lines, "\n")})
	r.ok("Read", map[string]any{"file_path": "f"})
	res := r.run("Edit", map[string]any{"file_path": "f", "old_string": "func numbr50() int { return 395950 }", "new_string": "x"})
	var d noMatchDetails
	if err := json.Unmarshal(res.Error.Details, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.FuzzyMatches) != 3 || d.FuzzyMatches[0].Line != 50 || d.FuzzyMatches[0].Similarity < 0.9 || d.ExcerptRange != [2]int{41, 60} || d.TotalLines != 100 || d.SearchStringLength != 36 {
		t.Errorf("%s", res.Error.Details)
	}
	if !strings.Contains(res.ModelText(), "line 50 (9") || !strings.Contains(res.ModelText(), "      50: func number50") {
		t.Errorf("%s", res.ModelText())
	}
	// Long texts do not take long: the comparisons are bounded.
	r.put("big", strings.Repeat(strings.Repeat("ab", 100)+"\n", 40_000))
	r.ok("Read", map[string]any{"file_path": "big"})
	r.fails("Edit", map[string]any{"file_path": "big", "old_string": strings.Repeat("ba", 101) + "c", "new_string": "x"}, file.CodeNoMatch, xErr)
}

// Bytes that are not replaced stay: encodings, marks, line ends, mode.
func TestEditKeepsTheFile(t *testing.T) {
	r := newRoom(t, nil)
	for name, c := range map[string]struct{ before, after []byte }{
		"bom":     {[]byte("\xef\xbb\xbfold\r\nx"), []byte("\xef\xbb\xbfnew\r\nx")},
		"utf16le": {enc(t, file.UTF16LE, "old é😀\r\n"), enc(t, file.UTF16LE, "new é😀\r\n")},
		"utf16be": {enc(t, file.UTF16BE, "old é😀"), enc(t, file.UTF16BE, "new é😀")},
		"latin1":  {[]byte("old \xe9\xff\r\n"), []byte("new \xe9\xff\r\n")},
	} {
		if err := errors.Join(os.WriteFile(r.path(name), c.before, 0o600), os.Chmod(r.path(name), 0o640)); err != nil { // whatever the umask
			t.Fatal(err)
		}
		r.ok("Read", map[string]any{"file_path": name})
		r.ok("Edit", map[string]any{"file_path": name, "old_string": "old", "new_string": "new"})
		if got := r.get(name); got != string(c.after) {
			t.Errorf("%s: %q, not %q", name, got, c.after)
		}
		if fi, err := os.Stat(r.path(name)); err != nil || fi.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v %v", name, fi.Mode(), err)
		}
	}
	// Latin-1 stays Latin-1, or nothing is written.
	r.ok("Edit", map[string]any{"file_path": "latin1", "old_string": "new", "new_string": "ü"})
	if got := r.get("latin1"); got != "\xfc \xe9\xff\r\n" {
		t.Errorf("%q", got)
	}
	r.fails("Edit", map[string]any{"file_path": "latin1", "old_string": "ü", "new_string": "Ã©"}, file.CodeEncoding, vErr)
}

// A file that someone changed since it was read is not changed, down to the last moment.
func TestEditModified(t *testing.T) {
	r := newRoom(t, map[string]string{"a": "one\n", "b": "one\n", "c": "one\n"})
	for _, f := range []string{"a", "b", "c"} {
		r.ok("Read", map[string]any{"file_path": f})
	}
	edit := func(f string) map[string]any {
		return map[string]any{"file_path": f, "old_string": "one", "new_string": "two"}
	}
	// The same size and the same time: only the bytes tell.
	fi, err := os.Stat(r.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	r.put("a", "One one"[4:]+"\n")
	r.put("a", "onE\n")
	if err := os.Chtimes(r.path("a"), fi.ModTime(), fi.ModTime()); err != nil {
		t.Fatal(err)
	}
	res := r.fails("Edit", edit("a"), file.CodeModified, vErr)
	if string(res.Error.Details) != `{"externalModification":true}` {
		t.Errorf("%s", res.Error.Details)
	}
	r.fails("Write", map[string]any{"file_path": "a", "content": "x"}, file.CodeModified, vErr)
	// Another time, backwards too, with the same bytes is no change.
	for _, d := range []time.Duration{time.Hour, -time.Hour} {
		if err := os.Chtimes(r.path("b"), time.Now().Add(d), time.Now().Add(d)); err != nil {
			t.Fatal(err)
		}
	}
	r.ok("Edit", edit("b"))
	// After a change of its own the session need not read again.
	r.ok("Edit", map[string]any{"file_path": "b", "old_string": "two", "new_string": "three"})
	r.ok("Write", map[string]any{"file_path": "b", "content": "four"})
	// Read anew, it may be changed.
	r.ok("Read", map[string]any{"file_path": "a"})
	r.ok("Edit", map[string]any{"file_path": "a", "old_string": "onE", "new_string": "two"})
	// Replaced by a file that was never read.
	r.put("other", "one\nmore")
	if err := os.Rename(r.path("other"), r.path("c")); err != nil {
		t.Fatal(err)
	}
	r.fails("Edit", edit("c"), file.CodeModified, vErr)
}

// Calls for one file at once change it one after the other, and none is lost.
func TestEditConcurrent(t *testing.T) {
	r := newRoom(t, map[string]string{"f": "0:a 1:a 2:a 3:a 4:a 5:a 6:a 7:a"})
	r.ok("Read", map[string]any{"file_path": "f"})
	done := make(chan *abi.Result)
	for i := range 8 {
		go func() { // the loop below takes each result
			res, err := r.s.Run(t.Context(), host.Call{Tool: "Edit", Input: r.input(map[string]any{"file_path": "f", "old_string": fmt.Sprintf("%d:a", i), "new_string": fmt.Sprintf("%d:b", i)})})
			if err != nil {
				res = abi.Failure(abi.AsError(err))
			}
			done <- res
		}()
	}
	for range 8 {
		if res := <-done; res.IsError() {
			t.Errorf("%+v", res.Error)
		}
	}
	if got := r.get("f"); got != "0:b 1:b 2:b 3:b 4:b 5:b 6:b 7:b" {
		t.Error(got)
	}
}

// What a caller is told.
func TestEditResult(t *testing.T) {
	r := newRoom(t, map[string]string{"f": "a\nb\nc\nd\ne\nf\n😀g\nh\ni\nj\nk\nl\n"})
	r.ok("Read", map[string]any{"file_path": "f"})
	res := r.runIn(r.s, host.Call{Tool: "Edit", MessageID: "m1", Input: r.input(map[string]any{"file_path": "f", "old_string": "😀g", "new_string": "G"})})
	for k, want := range map[string]any{
		"kind": "edit", "matches_found": 1, "replacements_made": 1, "replace_all": false, "old_string_length": 3, "new_string_length": 1, "original_size": 26, "new_size": 24, "size_diff": -2,
		"snapshot_created": true, "session_id": "s1", "message_id": "m1", "oldContent": "a\nb\nc\nd\ne\nf\n😀g\nh\ni\nj\nk\nl\n",
		"diff_snippet": "\n<<<DIFF>>>\n{\"patch\":\"Index: file\\n===================================================================\\n--- file\\n+++ file\\n@@ -3,9 +3,9 @@\\n c\\n d\\n e\\n f\\n-😀g\\n+G\\n h\\n i\\n j\\n k\\n\",\"startLine\":3,\"matchLine\":7}\n<<</DIFF>>>\n",
	} {
		if got := res.Metadata[k]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %v, not %v", k, got, want)
		}
	}
	if string(res.Model) != `{"file_path":"`+r.path("f")+`","replacements":1,"total_matches":1}` || res.Display == nil {
		t.Errorf("%s", res.Model)
	}
	// Large contents are given by their hash only.
	r.put("big", strings.Repeat("x", maxContent)+"needle")
	r.ok("Read", map[string]any{"file_path": "big"})
	res = r.ok("Edit", map[string]any{"file_path": "big", "old_string": "needle", "new_string": "n"})
	if res.Metadata["oldContent"] != nil || len(fmt.Sprint(res.Metadata["oldSha256"])) != 64 {
		t.Error("the content is in the metadata")
	}
}

// FuzzEdit: what locate finds can be replaced: spans are in order, inside and without overlaps; what
// is outside of them stays; and replacing by the text itself changes nothing.
func FuzzEdit(f *testing.F) {
	for _, s := range [][3]string{{"a\r\nb", "a\nb", "c"}, {"“x”", "\"x\"", "\"y\""}, {"  a\n  b\n", "    a\n    b", "c"}, {"a\tb", "a\\tb", "\\n"}, {"aaa", "a", ""}, {"\r\n\r\n", "\n", "\r"}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, text, old, fresh string) {
		text, old, fresh = strings.ToValidUTF8(text, "?"), strings.ToValidUTF8(old, "?"), strings.ToValidUTF8(fresh, "?")
		if old == "" {
			return
		}
		m := locate(t.Context(), text, old, fresh)
		at := 0
		for _, s := range m.spans {
			if s.from < at || s.to < s.from || s.to > len(text) {
				t.Fatalf("%q in %q: %v", old, text, m.spans)
			}
			at = s.to
		}
		if len(m.spans) == 0 {
			return
		}
		after := applied(text, m)
		if !strings.HasPrefix(after, text[:m.spans[0].from]) || !strings.HasSuffix(after, text[m.spans[len(m.spans)-1].to:]) {
			t.Errorf("%q in %q by %q: %q", old, text, fresh, after)
		}
		if m.strategy == strategyExact && !strings.Contains(text+old+fresh, "\r") && after != strings.ReplaceAll(text, old, fresh) {
			t.Errorf("%q", after)
		}
		excerpt(text, m.spans, m.fresh) // does not panic
		if back := locate(t.Context(), text, old, old); back.strategy == strategyExact && !strings.Contains(text+old, "\r") && applied(text, back) != text {
			t.Errorf("%q in %q changes it", old, text)
		}
	})
}

// BenchmarkEdit: one change in a file of 10 MB, from the call to the disk.
func BenchmarkEdit(b *testing.B) {
	r := newRoom(b, map[string]string{"f": strings.Repeat("a line of text that is about fifty letters long...\n", 200_000) + "needle0\n"})
	if res := r.runIn(r.s, host.Call{Tool: "Read", Input: r.input(map[string]any{"file_path": "f"})}); res.IsError() {
		b.Fatal(res.Error)
	}
	// Read takes at most 10 MiB at once; the first Edit then sees the whole.
	i := 0
	for b.Loop() {
		in := r.input(map[string]any{"file_path": "f", "old_string": fmt.Sprintf("needle%d\n", i), "new_string": fmt.Sprintf("needle%d\n", i+1)})
		if res := r.runIn(r.s, host.Call{Tool: "Edit", Input: in}); res.IsError() {
			b.Fatal(res.Error)
		}
		i++
	}
	b.ReportMetric(float64(len(r.get("f")))/1e6, "MB")
}
