// Package memnet is a network in memory for tests: hosts that listen, dial and
// send packets, with delay, loss, repeats, partitions and crashes as the test
// wants them.
//
//	Network ── Host 10.0.0.1 ── Listen, Dial       net.Conn: ordered, whole, late
//	        └─ Host 10.0.0.2 ── ListenPacket       net.PacketConn: lossy, in any order
//
// It starts no goroutine and works inside a testing/synctest bubble: all that
// waits, waits on a channel or a timer. Delays and losses of each link are drawn
// from the network's seed, so that a run repeats as far as the order of its
// goroutines does.
//
// A stream behaves as TCP does. What is written while the way is blocked arrives
// after it is healed, at once and not after a backoff. A connection of which one
// end was closed gives EOF and then resets; writing blocks when the reader is
// too far behind. Everything may be used by any number of goroutines.
package memnet
