package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"grapevine/announce/reach"
	"grapevine/kv"
)

const (
	// attempt bounds one try to reach the agent, from the dial to the head of its answer.
	attempt = 5 * time.Second
	// silence is how long an agent may say nothing: three of the comments that it sends
	// every 15 s to show that it lives.
	silence = 45 * time.Second
)

var (
	errNoAnswer = fmt.Errorf("no answer within %v", attempt)
	errSilent   = fmt.Errorf("nothing was heard from the agent for %v", silence)
)

// Options say whom to follow. The zero value follows the agent of this host.
type Options struct {
	// Agent is unix:///path/agent.sock or http://host:port. Empty: the environment variable
	// AGENT_ADDR, else the first of ./grapevine-data/agent.sock and /run/grapevine/agent.sock
	// that exists, else http://127.0.0.1:8500, looked for anew at each attempt.
	Agent string
	// Store keeps what was heard, as local values, so that a restart serves it before the
	// agent is heard. It may be the gateway's Keeper too. Nil keeps nothing.
	Store *kv.Store
	// Logger hears when the agent is lost and when it is back. Nil discards.
	Logger *slog.Logger
}

// Source is a gateway.Source that shows what an agent does.
type Source struct {
	agent  string
	store  *kv.Store
	logger *slog.Logger
	dial   reach.Dial
	mirror *kv.Mirror
	kept   kv.View // what the store has, for keep alone

	mu     sync.Mutex // guards status
	status Status
}

// Status is how a Source stands with its agent.
type Status struct {
	// Following says that the view is what the agent shows, but for what is on its way.
	Following bool
	// Heard is when the agent was last heard while that was so; zero: not since the start. What
	// is served is as old as that, if it is not Following.
	Heard time.Time
	// Err is why it is not following; nil while it is, and before the first attempt has failed.
	Err error
}

// New makes a Source, which shows what Store has of an earlier run until Run has heard the
// agent. Instances are orphaned until then: nobody vouches for them. The error says what
// is wrong with the agent's address, or that what was kept can't be read.
func New(o Options) (*Source, error) {
	if _, err := reach.Locate("Agent", o.Agent); err != nil {
		return nil, err
	}
	s := &Source{agent: o.Agent, store: o.Store, logger: o.Logger, dial: reach.DialPlace, mirror: kv.NewMirror()}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("what was kept of the agent's state can't be read: %w", err)
	}
	return s, nil
}

// View is what was heard last.
func (s *Source) View() kv.View { return s.mirror.View() }

// Changed is closed at the next change. It is taken before View.
func (s *Source) Changed() <-chan struct{} { return s.mirror.Changed() }

// Status tells how it stands with the agent.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Waiting says why a gateway should get no traffic so far: nothing is known of what it is
// to serve. It is for gateway.Options.
func (s *Source) Waiting() string {
	if s.View().Head() == (kv.Head{}) {
		return "it has not heard yet from the agent that it follows"
	}
	return ""
}

// Run follows the agent until ctx ends, and keeps what it hears. The error is nil: an agent
// that can't be reached, or makes no sense, is tried again for ever. Call it once.
func (s *Source) Run(ctx context.Context) error {
	var keeping sync.WaitGroup
	defer keeping.Wait()
	if s.store != nil {
		keeping.Go(func() { s.keep(ctx) })
	}
	var pauses reach.Backoff
	var outage reach.Outage
	for ctx.Err() == nil {
		began := time.Now()
		err := s.follow(ctx, func(p reach.Place) { s.tellFound(&outage, p) })
		if ctx.Err() != nil {
			break
		}
		s.lost(err)
		s.tellLost(&outage, err)
		pauses.Held(time.Since(began))
		wait(ctx, pauses.Pause())
	}
	return nil
}

// heard notes that the view is the agent's.
func (s *Source) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = Status{Following: true, Heard: time.Now()}
}

func (s *Source) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Following, s.status.Err = false, err
}

// follow brings one stream into the mirror, until that ends, and says why. following is
// called when the state is there.
func (s *Source) follow(ctx context.Context, following func(reach.Place)) error {
	p, err := reach.Locate("Agent", s.agent)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(attempt, func() { cancel(errNoAnswer) })
	defer quiet.Stop()
	body, err := s.open(ctx, p)
	if err != nil {
		return fmt.Errorf("agent at %s: %w", p, because(ctx, err))
	}
	defer body.Close()
	quiet.Stop()
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()

	events, told := newEvents(body), telling{mirror: s.mirror}
	for {
		e, err := events.next()
		before := told.whole
		if err == nil {
			watch.Reset(silence)
			err = told.take(e)
		}
		if err != nil {
			return fmt.Errorf("agent at %s: %w", p, because(ctx, err))
		}
		if told.whole {
			s.heard()
		}
		if told.whole && !before {
			following(p)
		}
	}
}

// open asks for the stream. Its body is the caller's to close.
func (s *Source) open(ctx context.Context, p reach.Place) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Base+"/v1/watch?prefix=gateway&state=1", nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{ // which speaks to the agent and nobody else, whatever proxy the environment names
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx, p) },
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, refusal(response)
	}
	return response.Body, nil
}

// because is why a stream ended: what ended it, rather than how that showed.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the agent closed the connection")
	}
	return err
}
