package main

import (
	"strings"

	"github.com/bladehost/bladehost/host"
)

// suggest returns names that are close to what was typed, best first. Two
// neighbouring letters that changed places count as close.
func suggest(typed string, names []string) []string {
	if near := host.Suggest(typed, names); len(near) > 0 || len(typed) > 64 {
		return near
	}
	var out []string
	for i := 1; i < len(typed); i++ {
		b := []byte(typed)
		b[i-1], b[i] = b[i], b[i-1]
		for _, n := range names {
			if strings.EqualFold(string(b), n) && !contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// didYouMean is the end of a message about a name that is not there, or "".
func didYouMean(typed string, names []string) string {
	if near := suggest(typed, names); len(near) > 0 {
		return "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}
