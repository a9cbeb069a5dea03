//go:build race

package sqlite_test

// slow says that everything takes ten times as long.
const slow = true
