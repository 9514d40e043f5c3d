package http1_test

import "time"

// pass lets fake time go by. Outside of a synctest bubble, whose clock begins in
// the year 2000, it panics: no test waits in real time for a while to be over.
func pass(d time.Duration) {
	if time.Now().Year() > 2001 {
		panic("pass is for fake time")
	}
	<-time.After(d)
}
