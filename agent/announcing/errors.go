package announcing

import "fmt"

// DeniedError is why gateway/config/announce does not let an announcement in.
type DeniedError struct{ Reason string }

func (e *DeniedError) Error() string { return e.Reason }

// TooManyError says that the node holds as many instances as it may.
type TooManyError struct{ Most int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("this node holds %d instances, which is the most: announce it at another node's agent", e.Most)
}

// NoLeaseError says that there is no such lease, or no more.
type NoLeaseError struct{ What string }

func (e *NoLeaseError) Error() string { return e.What }

// RefusedError says why something can't be done to an instance as it is now.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// StoppingError says that the agent takes nothing new because it stops.
type StoppingError struct{}

func (*StoppingError) Error() string { return "the agent is stopping: announce it again in a moment" }
