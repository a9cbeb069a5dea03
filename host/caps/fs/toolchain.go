package fs

import (
	"fmt"
	"strconv"
	"strings"
)

// minGo is the oldest Go release whose os.Root contains: before it a trailing slash
// could leave the root (CVE-2026-39822).
const minGo = "go1.26.5"

// CheckToolchain refuses versions of Go whose os.Root has known escapes. version has the
// form of runtime.Version. What is not a release (for instance devel) passes.
func CheckToolchain(version string) error {
	v, ok := releaseOf(version)
	if !ok {
		return nil
	}
	least, _ := releaseOf(minGo)
	for i := range v {
		if v[i] != least[i] {
			if v[i] < least[i] {
				return fmt.Errorf("built with %s, whose os.Root does not contain: %s or newer is needed", version, minGo)
			}
			return nil
		}
	}
	return nil
}

// releaseOf reads goX.Y.Z; a release candidate counts as the release's .0.
func releaseOf(version string) (v [3]int, ok bool) {
	s, ok := strings.CutPrefix(version, "go")
	if !ok {
		return v, false
	}
	s, _, _ = strings.Cut(s, " ")
	for i, part := range strings.SplitN(s, ".", 3) {
		if n := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' }); n >= 0 {
			part = part[:n]
		}
		n, err := strconv.Atoi(part)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}
