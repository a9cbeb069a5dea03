package host_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
)

// docs/requirements.md lists what the runtime promises, and which test proves it. It is made
// from testdata/requirements.tsv (id, area, requirement) and from the ids that stand in the
// comment above a test, in its body or in its name, all over the tree.

// requirement is one row of the table.
type requirement struct{ id, area, text string }

// postponed is a pattern of ids with the reason why they are not proven, or not whole.
type postponed struct {
	pattern string
	half    bool
	reason  string
}

// later names rows that are not proven yet, each with the reason. A pattern is an id, or the
// letters of one for all of them; "half" rows are proven in part.
var later = []postponed{
	{"SRV-05", false, "the memory tools come with the built-in tools"},
	{"PKG-07", false, "comes with sample runs of the checker"},
	{"PKG-09", true, "sample runs of the checker come later"},
	{"PKG-10", true, "sample runs of the checker come later"},
	{"PKG-12", false, "comes with sample runs of the checker"},
	{"PKG-13", false, "comes with sample runs of the checker"},
	{"PKG-15", false, "comes with sample runs of the checker"},
	{"BLT", false, "comes with the built-in tools"},
	{"MCP", false, "comes with the MCP client"},
	{"GTW", false, "comes with the tool gateway"},
	{"MC2", false, "comes with the MCP client"},
}

// demanded reports whether a row of this area needs a proof, or a reason why there is none.
func demanded(area string) bool {
	if area == "S1/Built-in tools" {
		return false
	}
	for _, prefix := range []string{"S1/", "DEC/"} {
		if strings.HasPrefix(area, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"S2/defineTool", "SRC/permissions", "SRC/planning", "SRC/exposure"}, area)
}

var (
	idPattern    = regexp.MustCompile(`\b[A-Z][A-Z0-9]{2}-[0-9]{2}\b`)
	proofPattern = regexp.MustCompile("`([^`]+_test\\.go)` (\\w+)")
)

func TestGeneratedRequirements(t *testing.T) {
	rows := readRequirements(t)
	proofs, tests := readProofs(t, os.DirFS(".."))
	for _, problem := range judgeRequirements(rows, proofs) {
		t.Error(problem)
	}
	want := writeRequirements(rows, proofs)
	const path = "../docs/requirements.md"
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run: go test ./host -run TestGenerated -update", err)
	}
	for _, m := range proofPattern.FindAllStringSubmatch(string(have), -1) {
		if !tests[m[1]+" "+m[2]] {
			t.Errorf("docs/requirements.md names a test that does not exist: %s in %s", m[2], m[1])
		}
	}
	if !bytes.Equal(have, want) {
		t.Error("docs/requirements.md is not up to date; run: go test ./host -run TestGenerated -update")
	}
}

func readRequirements(t *testing.T) []requirement {
	t.Helper()
	b, err := os.ReadFile("testdata/requirements.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var rows []requirement
	seen := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		parts := strings.Split(line, "\t")
		if i == 0 {
			continue
		}
		if len(parts) != 3 || !idPattern.MatchString(parts[0]) || seen[parts[0]] {
			t.Fatalf("line %d of the table is no row, or stands twice: %q", i+1, line)
		}
		seen[parts[0]] = true
		rows = append(rows, requirement{parts[0], parts[1], parts[2]})
	}
	return rows
}

// readProofs finds the tests of the tree: for each id the tests that name it, as "file function",
// and the set of all tests.
func readProofs(t *testing.T, tree fs.FS) (proofs map[string][]string, tests map[string]bool) {
	t.Helper()
	proofs, tests = map[string][]string{}, map[string]bool{}
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := filepath.Base(p); base == "testdata" || base == "node_modules" || base == "target" || (strings.HasPrefix(base, ".") && p != ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, "_test.go") || p == "host/requirements_test.go" { // this file names ids of its own
			return nil
		}
		src, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		for name, text := range testsOf(t, p, src) {
			tests[p+" "+name] = true
			for _, id := range idPattern.FindAllString(text, -1) {
				if proof := p + " " + name; !slices.Contains(proofs[id], proof) {
					proofs[id] = append(proofs[id], proof)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range proofs {
		sort.Strings(list)
	}
	return proofs, tests
}

// testsOf returns the tests of a file with what belongs to each: its name (with _ for -), the
// comment directly above it, and its body.
func testsOf(t *testing.T, path string, src []byte) map[string]string {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || fn.Body == nil || !regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)`).MatchString(fn.Name.Name) {
			continue
		}
		body := src[set.Position(fn.Body.Pos()).Offset:set.Position(fn.Body.End()).Offset]
		out[fn.Name.Name] = strings.ReplaceAll(fn.Name.Name, "_", "-") + "\n" + fn.Doc.Text() + "\n" + string(body)
	}
	return out
}

// reasonFor is why a row is not proven yet, or "".
func reasonFor(id string) (reason string, half bool) {
	for _, l := range later {
		if l.pattern == id || strings.HasPrefix(id, l.pattern+"-") {
			return l.reason, l.half
		}
	}
	return "", false
}

// judgeRequirements says what is wrong with the rows and the proofs.
func judgeRequirements(rows []requirement, proofs map[string][]string) []string {
	var found []string
	known, letters := map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		known[r.id], letters[r.id[:3]] = true, true
		reason, half := reasonFor(r.id)
		switch n := len(proofs[r.id]); {
		case n == 0 && reason == "" && demanded(r.area):
			found = append(found, fmt.Sprintf("%s (%s) has neither a test nor a reason: %s", r.id, r.area, r.text))
		case n == 0 && half:
			found = append(found, fmt.Sprintf("%s is said to be proven in part, but no test names it", r.id))
		case n > 0 && reason != "" && !half && slices.ContainsFunc(later, func(l postponed) bool { return l.pattern == r.id }):
			found = append(found, fmt.Sprintf("%s is proven by %s, but there is still a reason why not", r.id, proofs[r.id][0]))
		}
	}
	for id, list := range proofs {
		if letters[id[:3]] && !known[id] {
			found = append(found, fmt.Sprintf("%s names %s, which is no requirement", list[0], id))
		}
	}
	for _, l := range later {
		if !known[l.pattern] && !letters[l.pattern] {
			found = append(found, fmt.Sprintf("the reason for %q belongs to no requirement", l.pattern))
		}
	}
	sort.Strings(found)
	return found
}

func writeRequirements(rows []requirement, proofs map[string][]string) []byte {
	var b bytes.Buffer
	counts := map[string]int{}
	var body bytes.Buffer
	area := ""
	for _, r := range rows {
		if r.area != area {
			area = r.area
			fmt.Fprintf(&body, "\n## %s\n\n| id | requirement | state |\n|---|---|---|\n", area)
		}
		reason, half := reasonFor(r.id)
		var state string
		switch list := proofs[r.id]; {
		case len(list) == 0 && reason != "":
			state = "later: " + reason
			counts["later"]++
		case len(list) == 0:
			state = "open"
			counts["open"]++
		default:
			var names []string
			for _, p := range list {
				file, fn, _ := strings.Cut(p, " ")
				names = append(names, "`"+file+"` "+fn)
			}
			state = "done: " + strings.Join(names, ", ")
			counts["done"]++
			if half {
				state += "; later: " + reason
			}
		}
		fmt.Fprintf(&body, "| %s | %s | %s |\n", r.id, strings.ReplaceAll(r.text, "|", `\|`), state)
	}
	b.WriteString("# What the runtime promises\n\n<!-- Generated by go test ./host -run TestGenerated -update from host/testdata/requirements.tsv and the tests. -->\n\n" +
		"Each row is one promise with the tests that prove it. A test proves a row whose id stands in the comment\n" +
		"above it, in its body or in its name. S1 and S2 are the two contracts that the host fulfils, SRC what users of\n" +
		"other hosts expect, DEC what was decided here.\n\n")
	fmt.Fprintf(&b, "%d rows: %d done, %d later, %d open.\n", len(rows), counts["done"], counts["later"], counts["open"])
	b.Write(body.Bytes())
	return b.Bytes()
}

// The judge finds what it should: a row without a proof, an id that is none, a reason for
// nothing; and comments that are not directly above a test do not count.
func TestRequirementsAreJudged(t *testing.T) {
	rows := []requirement{{"RES-01", "S1/ToolResult", "x"}, {"PKG-09", "S1/Package", "x"}, {"BLT-01", "S1/Built-in tools", "x"}, {"GTW-01", "S2/RemoteToolSpec", "x"}}
	found := strings.Join(judgeRequirements(rows, map[string][]string{"RES-99": {"a_test.go TestA"}}), "\n")
	for _, want := range []string{"RES-01 (S1/ToolResult) has neither", "PKG-09 is said to be proven in part", "names RES-99, which is no requirement", `the reason for "PKG-07" belongs to no requirement`} {
		if !strings.Contains(found, want) {
			t.Errorf("%q is not in\n%s", want, found)
		}
	}
	if strings.Contains(found, "BLT-01") || strings.Contains(found, "GTW-01") {
		t.Errorf("%s", found)
	}
	src := "package x\n\n// PRM-01: not above a test\n\n// PRM-02: above.\nfunc TestA(t *testing.T) {\n\t// PRM-03\n}\n\n// PRM-04\nfunc helper() {}\n\n// PRM-05\nfunc FuzzB(f *testing.F) { _ = \"PRM-06\" }\n\nfunc Test_PRM_07(t *testing.T) {}\n"
	got := testsOf(t, "x_test.go", []byte(src))
	for name, want := range map[string]string{"TestA": "[PRM-02 PRM-03]", "FuzzB": "[PRM-05 PRM-06]", "Test_PRM_07": "[PRM-07]"} {
		if ids := fmt.Sprint(idPattern.FindAllString(got[name], -1)); ids != want {
			t.Errorf("%s: %s, want %s", name, ids, want)
		}
	}
	if len(got) != 3 {
		t.Errorf("%v", got)
	}
}
