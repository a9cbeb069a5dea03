package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// Every outgoing HTTP client is made in host/caps/http: one forgotten client
// elsewhere is a way around all of its gates. Guests have none of their own:
// pdk/pdkhttp goes through the host.
func TestOneHTTPClient(t *testing.T) {
	for _, f := range otherClients(t, os.DirFS("..")) {
		t.Error(f)
	}
	bad := fstest.MapFS{
		"builtin/web/a.go": {Data: []byte("package web\n\nimport \"net/http\"\n\nvar _, _ = http.Get(\"x\")\n")},
		"host/b.go":        {Data: []byte("package host\n\nimport h \"net/http\"\n\nvar _ = &h.Client{}\n")},
		"host/c.go":        {Data: []byte("package host\n\nimport \"net/http\"\n\nvar _ = http.DefaultTransport\n")},
		"host/d.go":        {Data: []byte("package host\n\nimport \"net\"\n\nvar _, _ = net.Dial(\"tcp\", \"x\")\n")},
	}
	if found := otherClients(t, bad); len(found) != len(bad) {
		t.Errorf("of %d wrong files only these were found: %v", len(bad), found)
	}
}

var clientNames = map[string][]string{
	"net/http": {"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm"},
	"net":      {"Dial", "DialTimeout", "Dialer", "DialTCP", "DialUDP"},
}

func otherClients(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped(p) || p == "host/caps/http" || p == "pdk/pdkhttp" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, src, 0)
		if err != nil {
			return err
		}
		if name := usesClient(f); name != "" {
			found = append(found, p+" uses "+name+"; outgoing requests go through host/caps/http")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func usesClient(f *ast.File) string {
	local := map[string]string{}
	for _, im := range f.Imports {
		path := strings.Trim(im.Path.Value, `"`)
		if _, ok := clientNames[path]; !ok {
			continue
		}
		name := path[strings.LastIndexByte(path, '/')+1:]
		if im.Name != nil {
			name = im.Name.Name
		}
		local[name] = path
	}
	used := ""
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		for _, name := range clientNames[local[pkg.Name]] {
			if sel.Sel.Name == name {
				used = pkg.Name + "." + name
			}
		}
		return true
	})
	return used
}
