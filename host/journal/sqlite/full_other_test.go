//go:build !linux

package sqlite_test

// The limits of TestFileSizeLimit are set on Linux only.
const limitEnv = "BLADEHOST_JOURNAL_LIMIT"

func limited(string) int { return 1 }
