// Package kv keeps keys: which entry is newer, the winner on disk, and views
// for readers.
//
//	Txn ──Resolve──► Commit ──Merge──► disk, synced ──► View ──► Changed, Watcher
//	conditions       effects           one bbolt          immutable
//	                                   transaction
//
// A transaction is resolved against a View into a Commit, which holds what
// changes and no longer under which condition. Merge is the one door by which
// commits come in, whoever sends them: it applies a commit to the head that it
// was made for, and to no other. Hashes chain the commits, so that two
// histories can't be mistaken for each other.
//
// History stands in memory, beside the view, with the entries that each commit
// replaced: a past view is the present one with commits undone, and a Watcher
// is a cursor into the history. It has no queue that could fill, so it never
// loses an event: one that is too slow is told so.
//
// A Snapshot carries a whole state to a node that is too far behind for commits,
// or of another epoch; Restore puts it in the place of what that node had.
//
// Views are immutable and readers never wait. One writer at a time is served by
// a Store's lock. Everything may be used by any number of goroutines, but a
// Watcher by one.
//
// See docs/design/store.md for the reasons.
package kv
