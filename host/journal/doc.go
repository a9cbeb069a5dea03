// Package journal keeps what happens to each tool call where a crash cannot take
// it away, so that afterwards it is known of every call whether it ran, may be
// repeated, or must be looked at.
//
// A [Store] keeps numbered events of sessions: [Memory], or the SQLite file of
// package journal/sqlite. A [Journal] is one session on a store: it holds every
// command to the state machine of tool attempts before it is written, and a
// command that is sent twice is written once. A [Recorder] writes a journal from
// the lifecycle callbacks of a host's session:
//
//	store, _ := sqlite.Open(ctx, "journal.db", sqlite.Options{})
//	own, _ := journal.Open(ctx, store, journal.Options{SessionID: id})
//	opt.Lifecycle, opt.Runtime = own.Recorder(journal.RecorderOptions{}), own.Guard()
//
// A [Guard] holds the session's lease, so that two processes never run one
// session at once. After a crash [Journal.Plan] says what is left open, and
// [Journal.Reconcile], [Journal.ResolvePermission], [Journal.Cancel] and
// [Journal.Replay] settle it.
//
// Events have schema version 4. Model, request and turn events are not kept, so
// the model attempt that asked for a call counts as completed. Progress and data
// of results are never kept. docs/journal.md is for operators.
package journal
