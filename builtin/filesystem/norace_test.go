//go:build !race

package filesystem

const raced = false
