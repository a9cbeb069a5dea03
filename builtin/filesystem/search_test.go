package filesystem

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bladehost/bladehost/builtin/internal/file"
)

type globOut struct {
	Matches   []globMatch
	Truncated bool
}

func relatives(d globOut) string {
	var out []string
	for _, m := range d.Matches {
		out = append(out, m.Relative)
	}
	return strings.Join(out, " ")
}

// Patterns, as their users know them.
func TestGlobPatterns(t *testing.T) {
	r := newRoom(t, map[string]string{
		"a.txt": "", "B.TXT": "", "dir/c.txt": "", "dir/sub/d.go": "", ".env": "", ".hid/e.txt": "", "x[1].txt": "", "sp ace.txt": "", "日本.txt": "", "a{b}.md": "", "node_modules/n.txt": "", "skip/s.txt": "", ".gitignore": "skip/\n",
	})
	old := time.Unix(1_700_000_000, 0)
	err := filepath.WalkDir(r.root, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(p, old, old) // so that the order is that of the paths
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pattern string
		more    map[string]any
		want    string
	}{
		{"*.txt", nil, "B.TXT a.txt sp ace.txt x[1].txt 日本.txt"},
		{"*.txt", map[string]any{"case_sensitive": true}, "a.txt sp ace.txt x[1].txt 日本.txt"},
		{"*.TXT", map[string]any{"case_sensitive": true}, "B.TXT"},
		{"**/*.txt", nil, ".hid/e.txt B.TXT a.txt dir/c.txt sp ace.txt x[1].txt 日本.txt"},
		{"**", nil, ".env .gitignore .hid/e.txt B.TXT a.txt a{b}.md dir/c.txt dir/sub/d.go sp ace.txt x[1].txt 日本.txt"},
		{"./a.txt", nil, "a.txt"},
		{"?.txt", nil, "B.TXT a.txt"},
		{"[a-b].txt", nil, "B.TXT a.txt"},
		{"[!a].txt", nil, "B.TXT"},
		{"{a,b}.txt", nil, "B.TXT a.txt"},
		{"{dir,.hid}/*.txt", nil, ".hid/e.txt dir/c.txt"},
		{"{dir/sub/*,a.*}", nil, "a.txt dir/sub/d.go"},
		{`x\[1\].txt`, nil, "x[1].txt"},
		{"dir/**", nil, "dir/c.txt dir/sub/d.go"},
		{"dir/**/*.go", nil, "dir/sub/d.go"},
		{"dir/*", map[string]any{"include_directories": true}, "dir/c.txt dir/sub"},
		{"dir/", map[string]any{"include_directories": true}, ""},
		{"!a.txt", nil, ""},
		{"[a", nil, ""},
		{"{a", nil, ""},
		{"node_modules/**", nil, ""},
		{"skip/*", nil, ""},
		{"日*", nil, "日本.txt"},
		{"*", map[string]any{"path": "dir"}, "c.txt"},
		{"*.go", map[string]any{"path": "dir/sub"}, "d.go"},
		{r.root + "/dir/*.txt", nil, "dir/c.txt"},
		{r.root + "/dir/*.txt", map[string]any{"path": "dir/sub"}, "c.txt"},
		{"../*", map[string]any{"path": "dir"}, ""},
	} {
		in := map[string]any{"pattern": c.pattern}
		for k, v := range c.more {
			in[k] = v
		}
		if got := relatives(data[globOut](t, r.ok("Glob", in))); got != c.want {
			t.Errorf("%s %v: %q, not %q", c.pattern, c.more, got, c.want)
		}
	}
}

// The newest first, also of more than are returned; truncated only where there are more.
func TestGlobOrder(t *testing.T) {
	r := newRoom(t, nil)
	for i := range 3000 {
		name := fmt.Sprintf("d%d/f%04d.txt", i%7, i)
		r.put(name, "")
		at := time.Unix(1_700_000_000+int64((i*7919)%3000), 0)
		if err := os.Chtimes(r.path(name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	res := r.ok("Glob", map[string]any{"pattern": "**/*.txt", "max_results": " 5 "})
	d := data[globOut](t, res)
	if len(d.Matches) != 5 || !d.Truncated || res.Metadata["total_found"] != 3000 || !strings.HasPrefix(res.ModelText(), "5 of 3000 matches") {
		t.Fatalf("%d %v %s", len(d.Matches), d.Truncated, res.ModelText())
	}
	for i, m := range d.Matches {
		if want := isoTime((1_700_000_000 + int64(2999-i)) * 1e9); m.Modified != want {
			t.Errorf("%d: %s, not %s", i, m.Modified, want)
		}
	}
	if d := data[globOut](t, r.ok("Glob", map[string]any{"pattern": "d0/f0000.txt", "max_results": 1})); d.Truncated || len(d.Matches) != 1 {
		t.Errorf("%+v", d)
	}
	if d := data[globOut](t, r.ok("Glob", map[string]any{"pattern": "**", "max_results": 1000})); len(d.Matches) != 1000 {
		t.Errorf("%d", len(d.Matches))
	}
}

// Links are shown where folders are asked for, and never followed.
func TestGlobLinks(t *testing.T) {
	r := newRoom(t, map[string]string{"dir/a.txt": ""})
	r.link("dir", "link-dir")
	r.link("nope", "link-broken")
	r.link("..", "link-up")
	if got := relatives(data[globOut](t, r.ok("Glob", map[string]any{"pattern": "**"}))); got != "dir/a.txt" {
		t.Error(got)
	}
	res := r.ok("Glob", map[string]any{"pattern": "link-*", "include_directories": true})
	d := data[globOut](t, res)
	if len(d.Matches) != 3 || d.Matches[0].IsDir || d.Matches[0].Size != nil {
		t.Errorf("%+v", d)
	}
	if got := relatives(data[globOut](t, r.ok("Glob", map[string]any{"pattern": "link-dir/*"}))); got != "" {
		t.Error(got)
	}
}

// A name with a line end makes no second line, and one that is not UTF-8 is shown as well as can be.
func TestGlobOddNames(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("such names are not allowed there")
	}
	r := newRoom(t, map[string]string{"a\n- forged": "needle", "b\xff": "needle", "plain": "needle"})
	text := r.ok("Glob", map[string]any{"pattern": "*"}).ModelText()
	if strings.Contains(text, "\n- forged") || strings.Count(text, "\n- ") != 3 || !strings.Contains(text, `a\n- forged"`) || !strings.Contains(text, `b\xff"`) {
		t.Error(text)
	}
	if d := data[grepOut](t, r.ok("Grep", map[string]any{"pattern": "needle"})); len(d.Matches) != 3 {
		t.Errorf("%+v", d)
	}
}

type grepOut struct {
	Matches   []grepEntry
	Truncated bool
}

// The shapes of the three modes, and paging.
func TestGrepModes(t *testing.T) {
	r := newRoom(t, map[string]string{"a.txt": "one\ntwo needle\nthree\n", "b/c.txt": "needle\nneedle 2\n"})
	for _, c := range []struct {
		in   map[string]any
		want string
	}{
		{map[string]any{"pattern": "needle"}, `[{"file_path":"R/a.txt"},{"file_path":"R/b/c.txt"}]`},
		{map[string]any{"pattern": "needle", "output_mode": "count"}, `[{"file_path":"R/a.txt","count":1},{"file_path":"R/b/c.txt","count":2}]`},
		{map[string]any{"pattern": "needle", "output_mode": "content"}, `[{"file_path":"R/a.txt","line_number":2,"content":"two needle"},{"file_path":"R/b/c.txt","line_number":1,"content":"needle"},{"file_path":"R/b/c.txt","line_number":2,"content":"needle 2"}]`},
		{map[string]any{"pattern": "needle", "output_mode": "content", "-n": false, "head_limit": "1"}, `[{"file_path":"R/a.txt","content":"two needle"},{"note":"There are more entries; go on with offset 1."}]`},
		{map[string]any{"pattern": "NEEDLE", "-i": true, "output_mode": "content", "-C": 1, "-A": 9, "path": "a.txt"}, `[{"file_path":"R/a.txt","line_number":2,"content":"two needle","context_before":["one"],"context_after":["three"]}]`},
		{map[string]any{"pattern": "needle", "output_mode": "content", "offset": 1, "head_limit": 1}, `[{"file_path":"R/b/c.txt","line_number":1,"content":"needle"},{"note":"There are more entries; go on with offset 2."}]`},
		{map[string]any{"pattern": "needle", "output_mode": "content", "offset": 99}, `[]`},
		{map[string]any{"pattern": "nowhere"}, `[]`},
		{map[string]any{"pattern": "two.*three", "multiline": true, "output_mode": "content"}, `[{"file_path":"R/a.txt","line_number":2,"content":"two needle"},{"file_path":"R/a.txt","line_number":3,"content":"three"}]`},
		{map[string]any{"pattern": "needle", "path": "b", "glob": "*.txt"}, `[{"file_path":"R/b/c.txt"}]`},
	} {
		res := r.ok("Grep", c.in)
		if got := strings.ReplaceAll(string(res.Model), r.root, "R"); got != c.want {
			t.Errorf("%v: %s, not %s", c.in, got, c.want)
		}
		if want := map[bool]any{true: 1, false: 0}[c.want == "[]"]; res.Metadata["exit_code"] != want {
			t.Errorf("%v: exit_code %v", c.in, res.Metadata["exit_code"])
		}
	}
}

// A large answer is cut between entries, and says so; long lines are cut.
func TestGrepLimits(t *testing.T) {
	r := newRoom(t, map[string]string{"many.txt": strings.Repeat("a needle in a line of some length, to fill the answer up\n", 5000), "long.txt": strings.Repeat("y", 3000) + " hay\n"})
	res := r.ok("Grep", map[string]any{"pattern": "needle", "output_mode": "content"})
	var model []grepEntry
	if err := json.Unmarshal(res.Model, &model); err != nil {
		t.Fatal(err)
	}
	d := data[grepOut](t, res)
	if file.Units(string(res.Model)) > maxGrepModel || len(model) < 100 || len(d.Matches) != 5000 || !d.Truncated || res.Metadata["truncated"] != true || res.Metadata["returned_matches"] != len(model)-1 || model[len(model)-1].Note == "" || res.Metadata["resultExternalized"] != nil {
		t.Errorf("%d characters, %d entries, data %d, %v", len(res.Model), len(model), len(d.Matches), res.Metadata)
	}
	// More than can be returned at all: what fits, and that it is not all.
	r.put("flood.txt", strings.Repeat("a needle in a line that is not short but repeated a lot, so that all of them are too many\n", 200_000))
	res = r.ok("Grep", map[string]any{"pattern": "needle", "output_mode": "content", "path": "flood.txt"})
	if d := data[grepOut](t, res); len(d.Matches) < 1000 || len(d.Matches) >= 200_000 || !d.Truncated || res.Metadata["incomplete"] == nil {
		t.Errorf("%d entries, %v", len(d.Matches), res.Metadata)
	}
	if res = r.ok("Grep", map[string]any{"pattern": "needle", "output_mode": "count", "path": "flood.txt"}); !strings.Contains(string(res.Model), `"count":200000`) {
		t.Errorf("%s", res.Model)
	}
	d = data[grepOut](t, r.ok("Grep", map[string]any{"pattern": "hay", "output_mode": "content"}))
	if len(*d.Matches[0].Content) != 2000 || !d.Matches[0].Truncated {
		t.Errorf("%d %v", len(*d.Matches[0].Content), d.Matches[0].Truncated)
	}
}

// Encodings, binary files, and patterns that look like options.
func TestGrepFiles(t *testing.T) {
	r := newRoom(t, map[string]string{"bin": "needle\x00", "crlf.txt": "needle\r\n", "-x needle.txt": "needle --pre=x\n", "we:1:ird.txt": "needle\n", "latin1.txt": "caf\xe9 needle\n"})
	if err := os.WriteFile(r.path("wide.txt"), enc(t, file.UTF16BE, "é needle\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range data[grepOut](t, r.ok("Grep", map[string]any{"pattern": "needle$", "output_mode": "content"})).Matches {
		got[filepath.Base(m.FilePath)] = *m.Content
	}
	want := map[string]string{"crlf.txt": "needle", "we:1:ird.txt": "needle", "latin1.txt": "café needle", "wide.txt": "é needle"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
	}
	for _, p := range []string{"--pre=x", "-e", "--"} {
		if n := len(data[grepOut](t, r.ok("Grep", map[string]any{"pattern": p})).Matches); (n == 1) != (p != "-e") {
			t.Errorf("%s: %d files", p, n)
		}
	}
}
