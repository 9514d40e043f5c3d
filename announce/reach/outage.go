package reach

import "time"

// Quiet is the least time between two log lines about lost connections.
const Quiet = 10 * time.Second

// Outage makes one log line of many lost connections. The zero Outage has had no connection.
type Outage struct {
	began bool      // there was a connection, or a line that there is none
	told  bool      // the latest line said that the connection is lost
	last  time.Time // when a line last said so
	count int       // connections and attempts lost since, of which nothing was said
}

// Lost is told of each connection and each attempt that failed. tell is whether to log it,
// untold how many there were of which nothing was said.
func (o *Outage) Lost() (untold int, tell bool) {
	if o.told || !o.last.IsZero() && time.Since(o.last) < Quiet {
		o.count++
		return 0, false
	}
	untold = o.count
	o.began, o.told, o.last, o.count = true, true, time.Now(), 0
	return untold, true
}

// Over is told of each connection that was made, and how many attempts that took. tell is
// whether to log it: no line is due if none said that there was no connection.
func (o *Outage) Over() (attempts int, tell bool) {
	attempts, tell = o.count, !o.began || o.told
	o.began, o.told, o.count = true, false, 0
	return attempts, tell
}
