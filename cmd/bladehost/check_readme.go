package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bladehost/bladehost/abi"
)

// section is one part of a README: its heading and what follows up to the next
// heading of the same or a higher level.
type section struct {
	level   int
	heading string
	// body has the sections below it too; text is what it says beside headings.
	body, text string
}

// readmeTopics are the sections a README must have: PKG-14. They are found by
// words of their headings.
var readmeTopics = []struct{ what, words, fix string }{
	{"permissions", `permission|capabilit|grant`, "say which folders, hosts and secrets it asks for and why; or that it needs none"},
	{"environment variables", `environment|variables?\b`, "name each variable it reads; or say that it reads none"},
	{"side effects", `side.?effect`, "say what its tools change outside, and what happens when a call is repeated"},
	{"a usage example", `example|usage|quick ?start|getting started`, "show one bladehost run command and what it prints, as a code block"},
}

// readme checks the README of the source folder, or one beside the file that is
// about this plugin: V17 and V21.
func (c *checker) readme(ref string) {
	dir := c.dir
	if dir == "" {
		if abi.ValidPackageName(ref) {
			return // installed
		}
		dir = filepath.Dir(ref)
	}
	name, text, err := findReadme(dir)
	switch {
	case err != nil:
		c.add("V17", sevError, name, "write it as a plain file of text", "%v", err)
		return
	case c.dir == "" && (text == "" || c.manifest == nil || !aboutPlugin(text, c.manifest.Name)):
		return // some other README
	case text == "":
		c.add("V17", sevError, "README.md", "write one with the tools, permissions, environment variables, side effects and an example; bladehost new makes such a one", "the folder has no README.md, or an empty one")
		return
	}
	if c.dir != "" && !hasLicence(dir) {
		c.add("V22", sevWarn, "LICENSE", "add the text of the licence as LICENSE", "the folder has no licence")
	}
	c.readmeText(name, text)
}

func (c *checker) readmeText(name, text string) {
	sections := readSections(text)
	for _, topic := range readmeTopics {
		re := regexp.MustCompile(`(?i)` + topic.words)
		found, filled := false, false
		for _, s := range sections {
			if re.MatchString(s.heading) {
				found = true
				filled = filled || strings.TrimSpace(s.text) != "" && (topic.what != "a usage example" || strings.Contains(s.body, "```") || strings.Contains(s.body, "\n    "))
			}
		}
		switch {
		case !found:
			c.add("V17", sevError, name, topic.fix, "no section about %s", topic.what)
		case !filled:
			c.add("V17", sevError, name, topic.fix, "the section about %s says nothing", topic.what)
		}
	}
	if c.manifest == nil {
		return
	}
	for _, t := range c.manifest.Tools {
		if !mentions(text, t.Name) {
			c.add("V17", sevError, name, "describe it under Tools", "the tool %s is not in it", clip(t.Name))
		}
	}
	caps := c.manifest.Requested()
	for _, e := range caps.Env {
		if !mentions(text, e.Name) {
			c.add("V17", sevError, name, "describe it under Environment variables", "the variable %s is not in it", clip(e.Name))
		}
	}
	for _, s := range caps.Secrets {
		if !mentions(text, s.Name) {
			c.add("V17", sevError, name, "describe it under Permissions", "the secret %s is not in it", clip(s.Name))
		}
	}
	if !regexp.MustCompile(`(?i)\bmemory\b`).MatchString(text) {
		c.add("V21", sevWarn, name, "say for which size of input how much memory it takes", "it does not say how much memory the plugin takes")
	}
}

func mentions(text, word string) bool {
	return regexp.MustCompile(`(?:^|[^A-Za-z0-9_-])` + regexp.QuoteMeta(word) + `(?:$|[^A-Za-z0-9_-])`).MatchString(text)
}

const maxReadme = 1 << 20

// findReadme reads the README of a folder; text is empty where there is none.
func findReadme(dir string) (name, text string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "README.md", "", err
	}
	for _, want := range []string{"readme.md", "readme.markdown", "readme", "readme.txt"} {
		for _, d := range list {
			if strings.ToLower(d.Name()) != want {
				continue
			}
			fi, err := os.Stat(filepath.Join(dir, d.Name()))
			if err != nil {
				return d.Name(), "", err
			}
			if !fi.Mode().IsRegular() || fi.Size() > maxReadme {
				return d.Name(), "", fmt.Errorf("%s is no file of at most %s", d.Name(), sizeText(maxReadme))
			}
			b, err := os.ReadFile(filepath.Join(dir, d.Name()))
			return d.Name(), strings.ReplaceAll(string(b), "\r\n", "\n"), err
		}
	}
	return "README.md", "", nil
}

// aboutPlugin reports whether the first heading of a README names the plugin.
func aboutPlugin(text, name string) bool {
	s := readSections(text)
	return len(s) > 0 && mentions(s[0].heading, name)
}

func hasLicence(dir string) bool {
	list, _ := os.ReadDir(dir) // findReadme read it
	for _, d := range list {
		n := strings.ToLower(d.Name())
		if strings.HasPrefix(n, "license") || strings.HasPrefix(n, "licence") || strings.HasPrefix(n, "copying") {
			return true
		}
	}
	return false
}

// readSections parts a Markdown text by its headings: # and underlined ones.
// What stands in a code block is no heading.
func readSections(text string) []section {
	lines := strings.Split(text, "\n")
	type mark struct{ line, level, body int }
	var marks []mark
	var heads []string
	fence := ""
	for i, l := range lines {
		trimmed := strings.TrimSpace(l)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
		case strings.HasPrefix(l, "#"):
			level := len(l) - len(strings.TrimLeft(l, "#"))
			marks, heads = append(marks, mark{i, level, i + 1}), append(heads, strings.Trim(l, "# \t"))
		case i > 0 && trimmed != "" && strings.TrimSpace(lines[i-1]) != "" && (strings.Trim(trimmed, "=") == "" || strings.Trim(trimmed, "-") == ""):
			level := 1
			if trimmed[0] == '-' {
				level = 2
			}
			marks, heads = append(marks, mark{i - 1, level, i + 1}), append(heads, strings.TrimSpace(lines[i-1]))
		}
	}
	var out []section
	for i, m := range marks {
		end, next := len(lines), len(lines)
		for j := len(marks) - 1; j > i; j-- {
			next = marks[j].line
			if marks[j].level <= m.level {
				end = marks[j].line
			}
		}
		s := section{level: m.level, heading: heads[i], body: strings.Join(lines[m.body:end], "\n"), text: strings.Join(lines[m.body:next], "\n")}
		if strings.TrimSpace(s.text) == "" && end > next {
			s.text = s.body // all of it stands in the sections below
		}
		out = append(out, s)
	}
	return out
}

const (
	maxSourceFiles = 5000
	maxSourceFile  = 1 << 20
)

// source looks for variables that the Go source reads but the manifest does not
// ask for: PKG-08, V10. Kits and other modules inside the folder are not looked at.
func (c *checker) source() {
	if c.dir == "" || c.manifest == nil {
		return
	}
	asked := map[string]bool{}
	for _, e := range c.manifest.Requested().Env {
		asked[e.Name] = true
	}
	one := regexp.MustCompile(`\bos\.(?:Getenv|LookupEnv)\(\s*(?:"([^"]*)"|` + "`([^`]*)`" + `)\s*\)`)
	all := regexp.MustCompile(`\bos\.(?:Environ|ExpandEnv)\(`)
	files := 0
	_ = filepath.WalkDir(c.dir, func(p string, d fs.DirEntry, err error) error { // what cannot be read did not build
		if err != nil || files > maxSourceFiles {
			return fs.SkipAll
		}
		if d.IsDir() {
			if p != c.dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "vendor" || d.Name() == "testdata" || isModule(p)) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		files++
		if fi, err := d.Info(); err != nil || fi.Size() > maxSourceFile {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return nil
		}
		rel, err := filepath.Rel(c.dir, p)
		if err != nil {
			rel = p
		}
		where := func(i int) string {
			return fmt.Sprintf("%s:%d", filepath.ToSlash(rel), 1+bytes.Count(b[:i], []byte("\n")))
		}
		for _, m := range one.FindAllSubmatchIndex(b, -1) {
			name := string(one.Expand(nil, []byte("$1$2"), b, m))
			if !asked[name] {
				c.add("V10", sevWarn, where(m[0]), "add it to capabilities.env, or make it a setting: config", "it reads the variable %s, which the manifest does not ask for: it is never set", clip(name))
			}
		}
		for _, m := range all.FindAllIndex(b, -1) {
			c.add("V10", sevWarn, where(m[0]), "read single variables that the manifest asks for", "it reads all variables, but sees only those that the manifest asks for")
		}
		return nil
	})
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}
