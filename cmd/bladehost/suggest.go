package main

import (
	"strings"

	"github.com/bladehost/bladehost/host"
)

// didYouMean is the end of a message about a name that is not there, or "".
func didYouMean(typed string, names []string) string {
	if near := host.Suggest(typed, names); len(near) > 0 {
		return "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}
