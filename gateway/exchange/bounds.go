package exchange

import "time"

// Bounds are how long one attempt may take. Each must be positive.
type Bounds struct {
	// Timeout is from the request's end to the response's head.
	Timeout time.Duration
	// Idle is the longest silence between bytes of either body.
	Idle time.Duration
	// Connect is the longest wait for a connection.
	Connect time.Duration
}
