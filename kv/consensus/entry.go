package consensus

import (
	"fmt"

	"grapevine/kv"
)

// The data of a log entry is its kind, one byte, and what the kind says. A later
// form gets the next number.
const kindCommit = 1 // a commit as kv.AppendCommit writes it, with index 0

// encodeEntry makes the data of the log entry that holds a commit.
func encodeEntry(c kv.Commit) []byte { return kv.AppendCommit([]byte{kindCommit}, c) }

// decodeEntry reads what encodeEntry made. Whoever can't read an entry must not
// go on to the next: the nodes that can will have applied it.
func decodeEntry(data []byte) (kv.Commit, error) {
	if len(data) == 0 {
		return kv.Commit{}, fmt.Errorf("is empty")
	}
	if data[0] != kindCommit {
		return kv.Commit{}, fmt.Errorf("is of kind %d, this program knows %d", data[0], kindCommit)
	}
	return kv.DecodeCommit(data[1:])
}
