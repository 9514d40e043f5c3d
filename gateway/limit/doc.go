// Package limit bounds what is taken on: how many at the same time, and how
// large. What is over a bound is refused at once; nothing waits here.
package limit
