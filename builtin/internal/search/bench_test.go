package search

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/builtin/internal/file"
	"github.com/bladehost/bladehost/host/tool"
)

// goTree is the source tree of Go, or skips: about 10,000 files.
func goTree(b *testing.B) *file.Target {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		b.Skip("there is no Go here: ", err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	if _, err := os.Stat(root); err != nil {
		b.Skip("there is no source tree of Go here")
	}
	a, err := file.Open(tool.Snapshot{Roots: []string{root}, Cwd: root}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(a.Close)
	t, err := a.Folder("")
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func ripgrep(b *testing.B, args ...string) {
	b.Helper()
	rg := LookRipgrep("")
	if rg == "" {
		b.Skip("ripgrep is not installed")
	}
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), rg, append([]string{"--no-config"}, args...)...)
		if out, err := cmd.Output(); err != nil || len(out) == 0 {
			b.Fatal(err)
		}
	}
}

var benchPatterns = []string{`ReadFrom`, `[A-Z]\w+Error\b`, `(?i)readfrom`, `func \w+\(ctx`, `\w+\s+=\s+\w+\(\)$`}

// BenchmarkGrep: within three times of ripgrep, on the source of Go.
func BenchmarkGrep(b *testing.B) {
	for i, p := range benchPatterns {
		for _, m := range []Mode{ModeFiles, ModeContent} {
			for _, rg := range []string{"", LookRipgrep("")} {
				name := map[bool]string{true: "native", false: "with-rg"}[rg == ""]
				b.Run(fmt.Sprintf("%d/%s/%s", i, m, name), func(b *testing.B) {
					t := goTree(b)
					for b.Loop() {
						if _, err := Grep(b.Context(), GrepQuery{Start: t, Pattern: p, Mode: m, Ripgrep: rg}); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			b.Run(fmt.Sprintf("%d/%s/rg", i, m), func(b *testing.B) {
				t := goTree(b)
				args := []string{"-n", "--sort", "none", "-e", p, t.Path}
				if m == ModeFiles {
					args = append([]string{"-l"}, args...)
				}
				ripgrep(b, args...)
			})
		}
	}
}

// BenchmarkGlob: within one and a half times of ripgrep's list.
func BenchmarkGlob(b *testing.B) {
	b.Run("glob", func(b *testing.B) {
		t := goTree(b)
		for b.Loop() {
			a, err := Glob(b.Context(), GlobQuery{Start: t, Pattern: "**/*.go", Max: 1000})
			if err != nil || len(a.Matches) != 1000 {
				b.Fatal(len(a.Matches), err)
			}
		}
	})
	b.Run("rg", func(b *testing.B) {
		t := goTree(b)
		ripgrep(b, "--files", "-g", "*.go", t.Path)
	})
}
