package breaker

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// State is where a Breaker stands.
type State int

// The states, in the order of the metric's values.
const (
	Closed State = iota
	HalfOpen
	Open
)

var stateNames = [...]string{"closed", "half-open", "open"}

// String is the state's name in lists, logs and metrics.
func (s State) String() string { return stateNames[s] }

// Outcome is how a call ended.
type Outcome int

// The outcomes.
const (
	// Success says that what was called is well.
	Success Outcome = iota
	// Failure says that it is not.
	Failure
	// Void says nothing of it: the caller gave up, or never got so far. As a
	// probe, it makes room for another one.
	Void
)

var (
	errFailure = errors.New("failure")
	errVoid    = errors.New("void")
)

func (o Outcome) err() error {
	switch o {
	case Failure:
		return errFailure
	case Void:
		return errVoid
	}
	return nil
}

// Change is a step from one state to another.
type Change struct {
	From, To State
	At       time.Time
	// Reset tells that a person made it.
	Reset bool
}

// machine is the library's breaker. Its one-step form costs no allocation for a
// function that was bound before, which its two-step form does.
type machine = gobreaker.CircuitBreaker[struct{}]

// Breaker counts how calls end, and lets them pass or not. New makes one.
type Breaker struct {
	policy Policy
	tell   func(Change)
	at     atomic.Pointer[machine]
	// until is when an open one becomes half-open, in Unix nanoseconds.
	until atomic.Int64

	// untold is set while changes has some.
	untold atomic.Bool
	// mu guards changes. It is held for moments, also where the machine's own lock
	// is.
	mu      sync.Mutex
	changes []Change
	// telling is held while tell is called, so that changes are told in order.
	telling sync.Mutex
}

// New makes a closed breaker. tell is told of each change, one at a time and in
// order, by the goroutine of some call. It must not call the breaker.
func New(policy Policy, tell func(Change)) *Breaker {
	b := &Breaker{policy: policy, tell: tell}
	b.at.Store(b.newMachine())
	return b
}

func (b *Breaker) newMachine() *machine {
	var m *machine
	m = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  uint32(b.policy.Probes),
		Interval:     b.policy.Window,
		BucketPeriod: (b.policy.Window + buckets - 1) / buckets,
		Timeout:      b.policy.Break,
		ReadyToTrip:  b.policy.trips,
		IsExcluded:   func(err error) bool { return err == errVoid },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if b.at.Load() == m { // else it was reset, and calls from before come to their end
				b.changed(Change{From: states[from], To: states[to], At: time.Now()})
			}
		},
	})
	return m
}

var states = map[gobreaker.State]State{gobreaker.StateClosed: Closed, gobreaker.StateHalfOpen: HalfOpen, gobreaker.StateOpen: Open}

// Policy is what the breaker was made with.
func (b *Breaker) Policy() Policy { return b.policy }

// Call is a function that a Breaker may let pass, kept by who calls it often: to
// bind it costs memory, to call it does not.
type Call struct {
	b     *Breaker
	do    func() Outcome
	bound func() (struct{}, error)
}

// NewCall binds do.
func NewCall(do func() Outcome) *Call {
	c := &Call{do: do}
	c.bound = c.run
	return c
}

func (c *Call) run() (struct{}, error) {
	c.b.settle() // it may have become half-open for this call
	return struct{}{}, c.do().err()
}

// Do calls c, unless the breaker lets none pass: then it is false at once. A Call
// is in one Do at a time. A panic of its function counts as a failure.
func (b *Breaker) Do(c *Call) (passed bool) {
	c.b = b
	_, err := b.at.Load().Execute(c.bound)
	b.settle()
	return err != gobreaker.ErrOpenState && err != gobreaker.ErrTooManyRequests
}

// Fail counts a failure that showed after its call had ended well. It counts
// while the breaker is closed: half-open, only probes say how things are now.
func (b *Breaker) Fail() {
	if b.State() == Closed {
		b.Do(NewCall(func() Outcome { return Failure }))
	}
}

// State is where it stands now.
func (b *Breaker) State() State {
	state := states[b.at.Load().State()]
	b.settle()
	return state
}

// Counts are how the calls ended that count now: of the window while it is
// closed, of the probes while it is half-open.
func (b *Breaker) Counts() (successes, failures int) {
	m := b.at.Load()
	m.State() // brings them up to date
	c := m.Counts()
	b.settle()
	return int(c.TotalSuccesses), int(c.TotalFailures)
}

// Wait is how long it stays open still, 0 when it does not.
func (b *Breaker) Wait() time.Duration {
	return max(0, time.Until(time.Unix(0, b.until.Load())))
}

// Reset closes the breaker and forgets what it has counted. Calls that are under
// way count no more. It gives the state before.
func (b *Breaker) Reset() State {
	before := b.State()
	b.at.Store(b.newMachine())
	b.changed(Change{From: before, To: Closed, At: time.Now(), Reset: true})
	b.settle()
	return before
}

// changed notes a change; it is called under the machine's lock, under which
// nobody may wait.
func (b *Breaker) changed(c Change) {
	var until int64
	if c.To == Open {
		until = c.At.Add(b.policy.Break).UnixNano()
	}
	b.until.Store(until)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes = append(b.changes, c)
	b.untold.Store(true)
}

// settle tells what has changed.
func (b *Breaker) settle() {
	if b.untold.Load() {
		b.tellAll()
	}
}

func (b *Breaker) tellAll() {
	b.telling.Lock()
	defer b.telling.Unlock()
	b.mu.Lock()
	changes := b.changes
	b.changes = nil
	b.untold.Store(false)
	b.mu.Unlock()
	for _, c := range changes {
		b.tell(c)
	}
}
