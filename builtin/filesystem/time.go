package filesystem

import "time"

// isoTime is a time in nanoseconds since 1970 as ISO 8601 in UTC, to the millisecond.
func isoTime(ns int64) string {
	return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000Z")
}
