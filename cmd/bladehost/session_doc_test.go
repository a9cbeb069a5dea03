package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bladehost/bladehost/abi"
)

// Every line that docs/session.md shows is one that the schema allows, and it has
// every type that there is.
func TestSessionDocument(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root(t), "docs", "session.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	schema := readSessionSchema(t)
	shown := 0
	for _, block := range regexp.MustCompile("(?s)```jsonl\n(.*?)```").FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSpace(line)
			shown++
			switch {
			case strings.HasPrefix(line, "> "):
				if err := schema.in(line[2:]); err != nil {
					t.Error(err)
				}
				if _, bad := parseLine([]byte(line[2:])); bad != nil {
					t.Errorf("%s: %v", line, bad)
				}
			case strings.HasPrefix(line, "< "):
				if err := schema.out(line[2:]); err != nil {
					t.Error(err)
				}
			default:
				t.Errorf("whose line is %s?", line)
			}
		}
	}
	if shown < 20 {
		t.Errorf("only %d lines are shown", shown)
	}
	for kind, m := range lineMembers {
		if !strings.Contains(text, "### `"+kind+"`") {
			t.Errorf("there is no section about %s", kind)
		}
		for _, k := range append(append([]string{}, m.need...), m.may...) {
			if !strings.Contains(text, "`"+k+"`") && !strings.Contains(text, `"`+k+`"`) {
				t.Errorf("the member %s of %s is not described", k, kind)
			}
		}
	}
	// Codes that the text names are codes.
	known := map[string]bool{}
	for _, d := range abi.Codes() {
		known[string(d.Code)] = true
	}
	for _, m := range regexp.MustCompile("`([A-Z]+_[A-Z_]+)`").FindAllStringSubmatch(text, -1) {
		if !known[m[1]] {
			t.Errorf("%s is no code", m[1])
		}
	}
}
