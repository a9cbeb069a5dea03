package main

import (
	"strconv"
	"strings"
)

// parseSize reads a size such as 64MiB, 1G or 1048576; empty is 0. All units are
// powers of 1024.
func parseSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	low := strings.ToLower(strings.TrimSpace(s))
	low = strings.TrimSuffix(strings.TrimSuffix(low, "b"), "i")
	shift := 0
	if n := len(low); n > 0 {
		switch low[n-1] {
		case 'k':
			shift = 10
		case 'm':
			shift = 20
		case 'g':
			shift = 30
		}
		if shift > 0 {
			low = strings.TrimSpace(low[:n-1])
		}
	}
	n, err := strconv.ParseInt(low, 10, 64)
	if err != nil || n <= 0 || n > (1<<62)>>shift {
		return 0, usage("%q is no size; write 64MiB or 1GiB", s)
	}
	return n << shift, nil
}

// sizeText is a size for a person.
func sizeText(n int64) string {
	switch {
	case n >= 10<<20:
		return strconv.FormatInt(n>>20, 10) + " MiB"
	case n >= 10<<10:
		return strconv.FormatInt(n>>10, 10) + " KiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
