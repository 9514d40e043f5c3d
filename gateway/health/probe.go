package health

import (
	"context"
	"math/rand/v2"
	"time"
)

// verdict is what an address' answers say of it.
type verdict int

const (
	unknown verdict = iota
	up
	down
)

// probe asks one question at its interval, for all who want to know. Its
// goroutine ends with its last subscriber.
type probe struct {
	monitor *Monitor
	check   Check
	asker   *asker
	turn    *turn
	stop    context.CancelFunc

	// The monitor's mu guards what follows.
	subscribers []*subscription
	verdict     verdict
	why         string
	answered    bool // the verdict is not a presumption any more
}

// subscription is one interest in a probe.
type subscription struct {
	probe *probe
	// tell is called with each new verdict, from the probe's goroutine, and
	// maybe once more after the subscription has ended.
	tell func(s *subscription, v verdict, why string)
}

const (
	// jitter is the part of the interval by which a check comes earlier or later,
	// so that nodes and destinations do not ask in step.
	jitter = 0.1
	// firstWithin bounds the wait for the first check, over which those of many
	// destinations that begin together are spread.
	firstWithin = time.Second
)

func (p *probe) run(ctx context.Context) {
	streak := 0 // good answers in a row when positive, else bad ones
	wait := time.Duration(rand.Float64() * float64(min(p.check.Interval, firstWithin)))
	if p.check.Path == "" {
		wait = 0 // somebody waits for it
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begun := time.Now()
		err := p.askInTurn(ctx)
		if ctx.Err() != nil {
			return
		}
		streak = longer(streak, err == nil)
		p.count(streak, err)
		spread := 1 - jitter + 2*jitter*rand.Float64()
		timer.Reset(time.Duration(float64(p.check.Interval)*spread) - time.Since(begun))
	}
}

func longer(streak int, good bool) int {
	if good {
		return max(streak, 0) + 1
	}
	return min(streak, 0) - 1
}

// askInTurn waits until nobody else asks the address.
func (p *probe) askInTurn(ctx context.Context) error {
	select {
	case p.turn.free <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.turn.free }()
	return p.asker.ask(ctx)
}

// count turns the verdict when the streak is long enough. The first answer is
// enough by itself.
func (p *probe) count(streak int, err error) {
	m := p.monitor
	m.mu.Lock()
	next, why := p.verdict, ""
	first := !p.answered
	p.answered = true
	switch {
	case streak > 0 && (p.verdict == unknown || streak >= p.check.Rise):
		next = up
	case streak < 0 && (p.verdict == unknown || -streak >= p.check.Fall):
		next, why = down, err.Error()
	}
	m.counted(p.check.Address, err == nil)
	turned := next != p.verdict
	p.verdict = next
	if turned {
		p.why = why
	}
	subscribers := p.subscribers
	m.mu.Unlock()
	if !turned && !first {
		return
	}
	for _, s := range subscribers {
		s.tell(s, next, why)
	}
}
