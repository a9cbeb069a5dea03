package host_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
)

// The house: which room may import which, and who owns a third-party module.
// docs/house.md says the same for people; design by changing this table first.
//
// The tree is walked here and not asked from "go list": the test cache would not
// notice a new file.

const module = "github.com/bladehost/bladehost"

// room is one row of the map. A package belongs to the room with the longest
// path that is its own or above it.
type room struct {
	path string
	// may lists rooms that it may import. "x/*" is every room below x.
	may []string
	// owns lists third-party modules, by path prefix, that nobody else imports.
	owns []string
	// tests lists what only test files may import beside that.
	tests []string
}

var rooms = []room{
	{path: "abi"},
	{path: "pdk", may: []string{"abi", "pdk", "pdk/*"}},
	{path: "host/tool", may: []string{"abi", "host/internal/strictjson", "host/tool", "host/tool/*"}, owns: []string{"github.com/google/jsonschema-go"}},
	{path: "host/caps/fs", may: []string{"abi", "host/tool", "host/caps/fs"}},
	{path: "host/caps/http", may: []string{"abi", "host/tool"}, owns: []string{"golang.org/x/net"}},
	{path: "host/caps/secrets", may: []string{"abi", "host/tool"}, owns: []string{"github.com/zalando/go-keyring"}},
	{path: "host/policy", may: []string{"abi", "host/tool", "host/internal/strictjson", "host/internal/lockfile"}},
	{path: "host/agentloop", may: []string{"abi", "host", "host/tool", "host/internal/schema", "host/internal/strictjson"}},
	{path: "host/journal", may: []string{"abi", "host/tool", "host", "host/internal/sqlite", "host/internal/strictjson", "host/internal/lockfile", "host/journal", "host/journal/*"}},
	{path: "host/store", may: []string{"abi", "host/internal/lockfile", "host/internal/strictjson", "host/internal/wasm", "host/store"}},
	{path: "host/install", may: []string{"abi", "host/store", "host/internal/*"}, owns: []string{"github.com/Masterminds/semver"}},
	{path: "host/internal/strictjson", may: []string{"abi"}, owns: []string{"github.com/go-json-experiment/json"}},
	{path: "host/internal/schema", may: []string{"abi", "host/internal/strictjson"}, owns: []string{"github.com/santhosh-tekuri/jsonschema", "golang.org/x/text"}},
	{path: "host/internal/lockfile", owns: []string{"github.com/gofrs/flock"}},
	{path: "host/internal/sqlite", owns: []string{"modernc.org"}},
	// Builders of guests, for tests only.
	{path: "host/internal/guesttest"},
	{path: "host/internal/wasm", may: []string{"abi"}},
	{path: "host/internal/engine", may: []string{"abi", "host/tool", "host/caps/fs", "host/internal/strictjson", "host/internal/wasm", "host/internal/lockfile", "host/internal/engine", "host/internal/engine/*"},
		owns: []string{"github.com/tetratelabs/wazero", "github.com/extism"}},
	{path: "host", may: []string{"abi", "host/tool", "host/policy", "host/caps/fs", "host/caps/http", "host/caps/secrets", "host/store", "host/internal/*"}},
	{path: "builtin/internal/args", may: []string{"abi"}},
	{path: "builtin/internal/file", may: []string{"abi", "host/tool", "host/caps/fs"}},
	{path: "builtin/internal/search", may: []string{"abi", "host/tool", "host/caps/fs", "builtin/internal/file"}, owns: []string{"github.com/bmatcuk/doublestar", "github.com/wasilibs/go-re2"}},
	{path: "builtin/filesystem", may: []string{"abi", "host/tool", "host/policy", "host/caps/fs", "builtin/internal/*"}, owns: []string{"github.com/aymanbagabas/go-udiff", "github.com/ledongthuc/pdf", "golang.org/x/image"}, tests: []string{"host"}},
	{path: "builtin/system", may: []string{"abi", "host/tool"}, tests: []string{"host", "host/policy"}},
	{path: "builtin/shell", may: []string{"abi", "host/tool", "host/policy", "builtin/internal/*"}, owns: []string{"mvdan.cc/sh"}, tests: []string{"host"}},
	{path: "builtin/web", may: []string{"abi", "host/tool", "host/caps/http", "builtin/internal/*"}, owns: []string{"github.com/JohannesKaufmann/html-to-markdown", "codeberg.org/readeck/go-readability", "golang.org/x/net/html"}, tests: []string{"host"}},
	{path: "builtin/subagents", may: []string{"abi", "host/tool", "builtin/shell", "builtin/internal/*"}, tests: []string{"host"}},
	{path: "builtin/todos", may: []string{"abi", "host/tool", "builtin/internal/*"}, tests: []string{"host", "host/policy"}},
	{path: "builtin", may: []string{"abi", "host/tool", "builtin/*"}, tests: []string{"host", "host/policy"}},
	{path: "cmd/bladehost", may: []string{"abi", "pdk", "host", "host/tool", "host/policy", "host/caps/*", "host/store", "host/install", "host/journal", "host/journal/*", "host/agentloop", "builtin", "builtin/web"},
		owns: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term", "github.com/vbauerster/mpb", "go.yaml.in/yaml"}, tests: []string{"github.com/rogpeppe/go-internal"}},
	// The root holds tests of the whole tree only.
	{path: "", may: []string{"abi", "host", "host/tool", "host/caps/*", "pdk", "cmd/bladehost"}},
}

// shared may be imported anywhere: they have no owner.
var shared = []string{"golang.org/x/sys"}

// testOnly may be imported by any test.
var testOnly = []string{"github.com/google/go-cmp", "go.uber.org/goleak", "pgregory.net/rapid", "github.com/rogpeppe/go-internal"}

// Budgets, and the files and functions that are excused, each with its reason.
const (
	maxFileLines = 500
	maxFuncLines = 80
)

var excused = map[string]string{
	"abi/codes.go": "one table: a row a code",
}

// skipped folders hold no code of this module.
func skipped(rel string) bool {
	base := filepath.Base(rel)
	return base == "testdata" || base == "docs" || (strings.HasPrefix(base, ".") && rel != ".") || rel == "plugins" || base == "node_modules"
}

func TestHouse(t *testing.T) {
	for _, f := range checkHouse(os.DirFS("..")) {
		t.Error(f)
	}
}

// checkHouse walks a tree and says what breaks the law.
func checkHouse(tree fs.FS) []string {
	var found []string
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped(p) {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(p, ".go") {
			found = append(found, checkFile(tree, p)...)
		}
		return nil
	})
	if err != nil {
		found = append(found, err.Error())
	}
	sort.Strings(found)
	return found
}

func checkFile(tree fs.FS, p string) []string {
	src, err := fs.ReadFile(tree, p)
	if err != nil {
		return []string{err.Error()}
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, p, src, parser.ParseComments)
	if err != nil {
		return []string{err.Error()}
	}
	dir := filepath.ToSlash(filepath.Dir(p))
	if dir == "." {
		dir = ""
	}
	home, ok := roomOf(dir)
	if !ok {
		return []string{fmt.Sprintf("%s: the folder is in no room; add a row to the table in host/house_test.go", p)}
	}
	test := strings.HasSuffix(p, "_test.go")
	var found []string
	for _, im := range f.Imports {
		path := strings.Trim(im.Path.Value, `"`)
		if why := mayImport(home, path, test); why != "" {
			found = append(found, fmt.Sprintf("%s imports %s: %s", p, path, why))
		}
	}
	if !test {
		found = append(found, checkSizes(set, f, p, src)...)
	}
	return found
}

func checkSizes(set *token.FileSet, f *ast.File, p string, src []byte) []string {
	var found []string
	if n := strings.Count(string(src), "\n"); n > maxFileLines && excused[p] == "" {
		found = append(found, fmt.Sprintf("%s has %d lines, at most %d are allowed: part it", p, n, maxFileLines))
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		n := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1
		if n > maxFuncLines && excused[p+":"+fn.Name.Name] == "" {
			found = append(found, fmt.Sprintf("%s: func %s has %d lines, at most %d are allowed", p, fn.Name.Name, n, maxFuncLines))
		}
		if fn.Recv == nil && fn.Name.Name == "init" && !strings.HasPrefix(p, "pdk/conformance") {
			found = append(found, p+": func init is not allowed")
		}
	}
	return found
}

func roomOf(dir string) (room, bool) {
	best, found := room{}, false
	for _, r := range rooms {
		inside := dir == r.path || (r.path != "" && strings.HasPrefix(dir, r.path+"/"))
		if inside && (!found || len(r.path) > len(best.path)) {
			best, found = r, true
		}
	}
	return best, found
}

// mayImport is "" if a room may import a path.
func mayImport(home room, path string, test bool) string {
	if path == module || strings.HasPrefix(path, module+"/") {
		return mayImportOwn(home, strings.TrimPrefix(strings.TrimPrefix(path, module), "/"), test)
	}
	first, _, _ := strings.Cut(path, "/")
	if !strings.Contains(first, ".") {
		return "" // the standard library
	}
	if prefixed(shared, path) || (test && (prefixed(testOnly, path) || prefixed(home.tests, path))) {
		return ""
	}
	if prefixed(home.owns, path) {
		return ""
	}
	for _, r := range rooms {
		if prefixed(r.owns, path) {
			return fmt.Sprintf("%s belongs to %s", path, r.path)
		}
	}
	return "nobody owns this module; give it one owner in host/house_test.go"
}

func mayImportOwn(home room, dir string, test bool) string {
	to, ok := roomOf(dir)
	if !ok {
		return "it is in no room"
	}
	if to.path == home.path {
		return ""
	}
	if slices.Contains(home.may, to.path) || slices.ContainsFunc(home.may, func(m string) bool {
		base, star := strings.CutSuffix(m, "/*")
		return star && strings.HasPrefix(to.path, base+"/")
	}) {
		return ""
	}
	if test && slices.Contains(home.tests, to.path) {
		return "" // tools are tested in a session
	}
	if test && (to.path == "host/tool" || to.path == "host/internal/wasm" || to.path == "host/internal/guesttest" || to.path == "pdk") {
		return "" // suites and builders that tests share
	}
	return fmt.Sprintf("%s may not import %s", named(home.path), named(to.path))
}

func named(path string) string {
	if path == "" {
		return "the root"
	}
	return path
}

func prefixed(list []string, path string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}
