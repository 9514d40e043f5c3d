// Package accesslog writes one line of JSON for each request.
//
// A line is made and put into a buffer by whoever ends the exchange, and written
// by one goroutine. So a slow or full output never holds a request up: lines are
// dropped then, and counted.
package accesslog
