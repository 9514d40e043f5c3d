package kv

import (
	"math"
	"os"
)

// noFreelist stands in a meta page for the freelist of a file that has none,
// because it was written with bbolt's NoFreelistSync.
const noFreelist = math.MaxUint64

// CheckFile checks the structure of a bbolt file before bbolt maps it, as Open
// does for a store's own file. Whoever else keeps a bbolt file calls it while
// holding the file's lock: opening a damaged one may end the process, and from
// a goroutine that nobody can guard. What the records hold is not judged.
//
// The error is a *CorruptError without a path, or what reading gave.
func CheckFile(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	meta, err := newestMeta(file, info.Size())
	if err != nil {
		return err
	}
	if meta.freelist != noFreelist {
		return checkImage(file, info.Size())
	}
	c := &pageChecker{file: file, meta: meta, seen: make([]bool, meta.pages)}
	c.seen[0], c.seen[1] = true, true
	return c.tree(meta.root, nil, nil)
}
