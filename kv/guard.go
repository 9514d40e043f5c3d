package kv

import (
	"fmt"
	"runtime/debug"
)

// fault is a panic, or an access to a page of the mapped file that the disk
// could not give, while bbolt ran.
type fault struct{ reason any }

func (f *fault) Error() string { return fmt.Sprint(f.reason) }

// guard runs fn, which works on bbolt, and turns a panic into a *fault. bbolt
// maps its file into memory and trusts it: on a damaged or shrunken file it
// panics or touches addresses that are not there. The latter would end the
// process; SetPanicOnFault makes a panic of it, for this goroutine only.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if reason := recover(); reason != nil {
			err = &fault{reason: reason}
		}
	}()
	return fn()
}
