package http1

import (
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// errSlowClient is a client that did not take, or send, the next bytes in time.
var errSlowClient = errors.New("the client is too slow")

// tooSlow tells whether a write ended because the client did not take it in time.
func tooSlow(err error) bool {
	return err == errSlowClient || errors.Is(err, os.ErrDeadlineExceeded)
}

// alarm is a deadline of one side of a connection. Its owner sets and rests it,
// the sweeper lets it ring. The zero alarm rests.
type alarm struct {
	// due is when it rings by the coarse clock, 0 when it rests, or rang. It rings
	// by compare-and-swap, so that an alarm that was rested in time never does.
	due atomic.Int64
	// exact tells that the connection has a deadline of its own.
	exact atomic.Bool
}

const rang = -1

// set makes it ring in d by the coarse clock. One that rang stays so.
func (a *alarm) set(now int64, d time.Duration) {
	if due := a.due.Load(); due != rang {
		a.due.CompareAndSwap(due, now+int64(d)+int64(sweepEvery)) // now may be as old as a round
	}
}

// rest is false when it rang before.
func (a *alarm) rest() bool {
	due := a.due.Load()
	return due == 0 || due != rang && a.due.CompareAndSwap(due, 0)
}

// ring tells whether it is due. Only the sweeper calls it.
func (a *alarm) ring(now int64) bool {
	due := a.due.Load()
	return due > 0 && due <= now && a.due.CompareAndSwap(due, rang)
}

// armRead bounds the reads until restRead.
func (w *wire) armRead(d time.Duration) {
	if d < exactBelow {
		w.in.exact.Store(true)
		_ = w.conn.SetReadDeadline(time.Now().Add(d)) // closed already, then
		return
	}
	w.in.set(w.clock.Load(), d)
}

// restRead is false when the bound has passed.
func (w *wire) restRead() bool {
	if w.in.exact.Load() {
		w.in.exact.Store(false)
		return w.conn.SetReadDeadline(time.Time{}) == nil
	}
	return w.in.rest()
}

// armWrite bounds the writes until restWrite.
func (w *wire) armWrite(d time.Duration) {
	if d < exactBelow {
		w.out.exact.Store(true)
		_ = w.conn.SetWriteDeadline(time.Now().Add(d)) // as above
		return
	}
	w.out.set(w.clock.Load(), d)
}

// restWrite is false when the bound has passed.
func (w *wire) restWrite() bool {
	if w.out.exact.Load() {
		w.out.exact.Store(false)
		return w.conn.SetWriteDeadline(time.Time{}) == nil
	}
	return w.out.rest()
}

// stopReads ends the read that is under way, and those to come.
func (w *wire) stopReads() { _ = w.conn.SetReadDeadline(longAgo) }

// sweep ends what is late by the coarse clock.
func (w *wire) sweep(now int64) {
	if w.in.ring(now) {
		w.stopReads()
	}
	w.sweepWrites(now)
}
