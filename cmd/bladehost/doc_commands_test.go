package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var docFence = regexp.MustCompile("(?s)```(sh|console)\n(.*?)```")

// docCommand is a command that a document shows, and what it says is printed.
type docCommand struct{ line, prints string }

// docCommands are the commands of a document that start bladehost.
func docCommands(t *testing.T, path string) (list []docCommand) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), path))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range docFence.FindAllStringSubmatch(string(b), -1) {
		for line := range strings.Lines(m[2]) {
			line = strings.TrimSuffix(line, "\n")
			rest, prompt := strings.CutPrefix(line, "$ ")
			switch {
			case m[1] == "console" && !prompt && len(list) > 0:
				list[len(list)-1].prints += line + "\n"
			case m[1] == "sh" || prompt:
				list = append(list, docCommand{line: rest})
			}
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s shows no command", path)
	}
	return list
}

// TestDocCommands types what the documents show. A request to GitHub is kept from
// leaving the machine by a denial: that far, all of the command has been understood.
func TestDocCommands(t *testing.T) {
	install := "exec bladehost install $HASH\nexec bladehost install %s/plugins/blade-tool-github\n"
	docs := []struct {
		path, before string
	}{
		{"docs/permissions.md", fmt.Sprintf(install, "$ROOT")},
		{"plugins/blade-tool-hash/README.md", ""},
		{"plugins/blade-tool-jq/README.md", ""},
		{"plugins/blade-tool-github/README.md", fmt.Sprintf(install, "$ROOT") + "exec bladehost secret set GITHUB_TOKEN -- printf hello\n"},
	}
	dir := t.TempDir()
	for _, d := range docs {
		var b strings.Builder
		b.WriteString("symlink plugins -> $ROOT/plugins\n" + d.before)
		for k, c := range docCommands(t, d.path) {
			quoted := strings.ReplaceAll(c.line, "'", "''")
			switch {
			case strings.Contains(c.line, "--allow-net api.github.com"):
				fmt.Fprintf(&b, "! exec sh -c '%s --deny-net api.github.com'\nstderr 'api.github.com:443 is blocked'\n", quoted)
			default:
				fmt.Fprintf(&b, "exec sh -c '%s'\n", quoted)
			}
			if strings.HasPrefix(c.line, "bladehost config set blade-tool-github baseUrl=") { // one of two ways that the README shows
				b.WriteString("exec bladehost config get blade-tool-github\nexec bladehost config unset blade-tool-github baseUrl\n")
			}
			if c.prints != "" {
				fmt.Fprintf(&b, "cmp stdout prints%d\n", k)
			}
		}
		b.WriteString("-- data/a.txt --\na\n-- big.iso --\nlarge\n-- log.jsonl --\n{\"user\":\"ada\"}\n-- SHA256SUMS --\n" +
			"87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7  data/a.txt\n")
		for k, c := range docCommands(t, d.path) {
			if c.prints != "" {
				fmt.Fprintf(&b, "-- prints%d --\n%s", k, c.prints)
			}
		}
		name := strings.NewReplacer("/", "_", ".md", "").Replace(d.path) + ".txtar"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := scriptParams(t)
	p.Dir = dir
	testscript.Run(t, p)
}
