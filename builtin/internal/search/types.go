package search

import (
	_ "embed"
	"strings"
)

// typeList names the kinds of files that Grep knows, a line each: the name and patterns for names of files, as
// ripgrep 13 has them.
//
//go:embed types.txt
var typeList string

// types are the patterns by the name of the kind.
func types() map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(typeList) {
		if name, globs, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			out[name] = strings.Split(globs, ", ")
		}
	}
	return out
}
