package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/announce/reach"
	"grapevine/gateway/spec"
)

// session is what a command works with: an agent to ask, a place for data and one for what is said beside it.
type session struct {
	*program
	agent *client
	out   output
	quiet bool
}

// session reads the flags that all commands share.
func (p *program) session(c *urfave.Context) (*session, error) {
	if err := refusePlanned(c.Command); err != nil {
		return nil, err
	}
	format := c.String("output")
	if !slices.Contains(formats, format) {
		return nil, usageError("--output %q: not one of %s%s", format, strings.Join(formats, ", "), spec.DidYouMean(format, slices.Values(formats)))
	}
	timeout, err := time.ParseDuration(c.String("timeout"))
	if err != nil || timeout <= 0 {
		return nil, usageError("--timeout %q: not a duration above zero, like 10s or 1m", c.String("timeout"))
	}
	place, err := locate(c.String("addr"))
	if err != nil {
		return nil, err
	}
	s := &session{
		program: p,
		agent:   newClient(place, timeout),
		out:     output{w: p.stdout, format: format, style: styleFor(p.stdout, c.Bool("no-color"))},
		quiet:   c.Bool("quiet"),
	}
	s.agent.node = c.String("node")
	if c.Bool("verbose") {
		s.agent.trace = p.stderr
	}
	return s, nil
}

// say tells a person what happened, beside the data.
func (s *session) say(format string, values ...any) {
	if !s.quiet {
		fmt.Fprintf(s.stderr, format+"\n", values...)
	}
}

// confirm asks before something is destroyed. Where nobody can answer, only --yes will do.
func (s *session) confirm(ctx context.Context, question string) error {
	if !s.canAsk() {
		return &failure{code: exitRefused, problem: question + "? Refused without --yes, since nobody can be asked here"}
	}
	fmt.Fprintf(s.stderr, "%s? [y/N] ", question)
	answer := make(chan string, 1) // the reader can't be stopped: it may outlive the question
	go func() { answer <- readWord(s.stdin) }()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case word := <-answer:
		if !slices.Contains([]string{"y", "yes"}, strings.ToLower(word)) {
			return &failure{code: exitRefused, problem: question + "? Not confirmed"}
		}
		return nil
	}
}

// canAsk says whether somebody is there who could answer.
func (s *session) canAsk() bool { return isTerminal(s.stdin) && isTerminal(s.stderr) }

// readWord is the first word of the next line, empty at the end of the input.
func readWord(r io.Reader) (word string) {
	fmt.Fscanln(r, &word)
	return word
}

// locate finds the agent that --addr names, or that is there where it is empty.
func locate(address string) (reach.Place, error) {
	p, err := reach.Locate("--addr", address)
	if err != nil {
		return p, usageError("%s", err)
	}
	return p, nil
}
