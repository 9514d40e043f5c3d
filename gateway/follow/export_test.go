package follow

import (
	"bytes"
	"context"
	"net"

	"grapevine/announce/reach"
	"grapevine/kv"
)

// MaxEvent is the largest event.
const MaxEvent = maxEvent

// Silence is how long an agent may say nothing.
const Silence = silence

// Dial has a source connect otherwise.
func (s *Source) Dial(dial func(context.Context) (net.Conn, error)) {
	s.dial = func(ctx context.Context, _ reach.Place) (net.Conn, error) { return dial(ctx) }
}

// Tell brings a stream into a mirror, until it ends.
func Tell(mirror *kv.Mirror, stream []byte) error {
	events, told := newEvents(bytes.NewReader(stream)), telling{mirror: mirror}
	for {
		e, err := events.next()
		if err == nil {
			err = told.take(e)
		}
		if err != nil {
			return err
		}
	}
}
