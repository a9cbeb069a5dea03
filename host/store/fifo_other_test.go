//go:build !unix

package store

import "testing"

// makeFifo is nil where there are no named pipes.
var makeFifo func(*testing.T, string)
