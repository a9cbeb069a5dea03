package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

//go:embed scaffold/*.tmpl
var scaffold embed.FS

// scaffoldFiles are the files of a new plugin by their templates.
var scaffoldFiles = []struct{ template, file string }{
	{"go.mod", "go.mod"},
	{"main.go", "main.go"},
	{"main_test.go", "main_test.go"},
	{"README.md", "README.md"},
	{"LICENSE", "LICENSE"},
	{"gitignore", ".gitignore"},
	{"kit.mod", kitFolder + "/go.mod"},
	{"kit.md", kitFolder + "/README.md"},
	{"LICENSE", kitFolder + "/LICENSE"},
}

// kitFolder is where a new plugin has the kit.
const kitFolder = "third_party/bladehost"

func newCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "new NAME [DIR]",
		Short: "Make the folder of a new Go plugin",
		Long: `Make the folder of a new Go plugin with one tool, its test, a README and a
licence. The kit it needs comes out of this program, so that the plugin builds
and tests without a network. NAME is blade-tool-x or @scope/blade-tool-x; DIR is
the last part of it where it is left out, and must not exist.`,
		Example: `  bladehost new blade-tool-demo
  bladehost build ./blade-tool-demo && bladehost check ./blade-tool-demo`,
		Args:              rangeArgs(1, 2),
		ValidArgsFunction: fixedWords(),
		RunE:              func(c *cobra.Command, args []string) error { return a.newPlugin(c.Context(), args) },
	}
}

func (a *app) newPlugin(ctx context.Context, args []string) error {
	name := args[0]
	switch {
	case !abi.ValidPackageName(name):
		return usage("%q is no name of a plugin: write blade-tool-x or @scope/blade-tool-x in lower-case kebab-case%s", clip(name), perhaps(name))
	case abi.GenericPackageName(name):
		return usage("%q says nothing about what the plugin is for; name the capability or the system", name)
	}
	p := newScaffold(name)
	dir := p.Last
	if len(args) > 1 {
		dir = args[1]
	}
	if err := makeFolder(ctx, dir, p.write); err != nil {
		return err
	}
	if a.json {
		writeJSON(a.out, map[string]any{"dir": dir, "name": name, "tool": p.Tool})
		return nil
	}
	here := dir
	if !filepath.IsAbs(dir) {
		here = "./" + filepath.ToSlash(filepath.Clean(dir))
	}
	a.note("next: bladehost check %s && bladehost run %s %s '{\"text\":\"one two three\"}'", here, here, p.Tool)
	return a.line(dir)
}

// perhaps is a valid name that was perhaps meant.
func perhaps(name string) string {
	words := strings.FieldsFunc(strings.ToLower(strings.TrimPrefix(name, abi.PackagePrefix)), func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') })
	if s := abi.PackagePrefix + strings.Join(words, "-"); abi.ValidPackageName(s) && !abi.GenericPackageName(s) {
		return "; did you mean " + s + "?"
	}
	return ""
}

// scaffoldData is what the templates are filled with.
type scaffoldData struct {
	Name, Last, Module string
	// Tool is the name of the tool, Var the one of its function.
	Tool, Var        string
	Version, Require string
}

func newScaffold(name string) *scaffoldData {
	last := path.Base(name)
	var tool strings.Builder
	for word := range strings.SplitSeq(strings.TrimPrefix(last, abi.PackagePrefix), "-") {
		tool.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	p := &scaffoldData{Name: name, Last: last, Module: last, Tool: tool.String(), Version: versionText(), Require: "v0.0.0"}
	if p.Tool[0] >= '0' && p.Tool[0] <= '9' {
		p.Tool = "Tool" + p.Tool
	}
	p.Tool = p.Tool[:min(len(p.Tool), 64)]
	p.Var = strings.ToLower(p.Tool[:1]) + p.Tool[1:]
	if isGoWord(p.Var) {
		p.Var += "Tool"
	}
	if v := versionText(); strings.HasPrefix(v, "v") && abi.ValidVersion(v[1:]) && !strings.Contains(v, "+") {
		p.Require = v
	}
	return p
}

// isGoWord reports whether a name means something else in the template already.
func isGoWord(s string) bool {
	return contains(strings.Fields("break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var "+
		"init main plugin pdk context strings string int error len any nil words in"), s)
}

// write makes all files below dir.
func (p *scaffoldData) write(dir string) error {
	t, err := template.ParseFS(scaffold, "scaffold/*.tmpl")
	if err != nil {
		return err
	}
	for _, f := range scaffoldFiles {
		var b bytes.Buffer
		if err := t.ExecuteTemplate(&b, f.template+".tmpl", p); err != nil {
			return err
		}
		if err := writeBelow(dir, f.file, b.Bytes()); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		source fs.FS
		folder string
	}{{abi.Source(), "abi"}, {pdk.Source(), "pdk"}} {
		err := fs.WalkDir(part.source, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(part.source, name)
			if err != nil {
				return err
			}
			return writeBelow(dir, path.Join(kitFolder, part.folder, name), b)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func writeBelow(dir, file string, b []byte) error {
	p := filepath.Join(dir, filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return os.WriteFile(p, b, 0o644)
}

// makeFolder makes a new folder with what fill puts into it. Nobody sees half of
// it, and a folder that is there is left alone.
func makeFolder(ctx context.Context, dir string, fill func(string) error) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return usage("%s exists already; name another folder", dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return abi.NewError(abi.CodeIO, "%v", err)
	}
	parent := filepath.Dir(filepath.Clean(dir))
	tmp, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return abi.NewError(abi.CodeIO, "%s cannot be made: %v", dir, err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // it is gone when all went well
	if err := fill(tmp); err != nil {
		return abi.NewError(abi.CodeIO, "%s cannot be made: %v", dir, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return abi.NewError(abi.CodeIO, "%s cannot be made: %v", dir, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return abi.NewError(abi.CodeIO, "%s cannot be made: %v", dir, err)
	}
	return nil
}
