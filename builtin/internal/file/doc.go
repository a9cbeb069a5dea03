// Package file is the one owner of what the file tools share: which paths a call may
// use (Access, Target), what a session has read and may therefore change (State),
// encodings and line endings (Text), replacing a file safely (Replace), and copies of
// what was replaced (History).
package file
