// Package wasitest runs guests against package wasi in tests: single command modules
// ([Run]) and a checkout of the public wasi-testsuite ([RunSuite]).
package wasitest
