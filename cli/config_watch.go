package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
	"grapevine/kv"
)

func (p *program) configWatch() *urfave.Command {
	return &urfave.Command{
		Name: "watch", Usage: "stream the changes of a prefix", ArgsUsage: "PREFIX",
		Description: "One line for each change, or one JSON object with -o json, until it is interrupted. A connection that\n" +
			"breaks is made again, and goes on where it stopped. The event reset says that changes were missed,\n" +
			"because they are no longer held: read the prefix again.\n" +
			"--exec runs a shell command for each event, with GRAPEVINE_EVENT (put, delete, reset), GRAPEVINE_KEY and\n" +
			"GRAPEVINE_REV in its environment and the value on its standard input.",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "since", Usage: "begin with what changed after revision `REV`"},
			&urfave.StringFlag{Name: "exec", Usage: "run `COMMAND` for each event, instead of printing it"},
			&urfave.BoolFlag{Name: "once", Usage: "end after the first event"},
		},
		Action: p.runConfigWatch,
	}
}

func (p *program) runConfigWatch(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	prefix := c.Args().First()
	if err := checkPrefix(prefix); err != nil {
		return err
	}
	since := c.String("since")
	if since != "" {
		if _, err := kv.ParseRev(since, 0); err != nil {
			return usageError("--since: %v", err)
		}
	}
	w := &watch{session: s, prefix: prefix, cursor: since, command: c.String("exec"), once: c.Bool("once")}
	return w.follow(c.Context)
}

// watch follows a prefix over as many connections as it takes.
type watch struct {
	*session
	prefix  string
	cursor  string // the revision that was seen last; empty: from now on
	command string
	once    bool
	begun   bool // an agent took the watch at least once
	missed  bool // a reset is still to be told
}

const (
	// silence is how long a connection may say nothing before it counts as dead: the agent says something every 15 s.
	silence = 45 * time.Second
	// firstPause and longestPause bound the wait before the next connection. It doubles, and a random part of it is
	// left out, so that the watchers of an agent that restarts don't come back all at once.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

var (
	errDone    = errors.New("done") // the one event that --once waits for has come
	errMissed  = errors.New("changes were missed that are no longer held")
	errSilence = errors.New("the connection went silent")
)

// lostError is the end of a connection that is worth another one.
type lostError struct{ error }

// follow ends when it is done, when the agent refuses, or with ctx.
func (w *watch) follow(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		before := w.cursor
		err := w.stream(ctx)
		lost, again := errors.AsType[lostError](err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errDone):
			return nil
		case !again:
			return err
		case w.cursor != before:
			pause = firstPause
		}
		w.say("%v; connecting again", lost)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// stream follows one connection to its end.
func (w *watch) stream(ctx context.Context) error {
	connection, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body, err := w.agent.stream(connection, w.request())
	if err != nil {
		return w.refused(err)
	}
	defer body.Close()
	w.begun = true
	quiet := time.AfterFunc(silence, func() { cancel(errSilence) })
	defer quiet.Stop()
	for e, err := range events(heard{body, quiet}) {
		if err != nil {
			return lostError{cmp.Or(context.Cause(connection), err)}
		}
		quiet.Stop() // what --exec takes is not the agent's silence
		if err := w.take(ctx, e); err != nil {
			return err
		}
	}
	return lostError{errors.New("the agent ended the stream")}
}

func (w *watch) request() request {
	query := url.Values{"prefix": {w.prefix}}
	if w.cursor != "" {
		query.Set("since", w.cursor)
	}
	return request{
		method: http.MethodGet, path: "/v1/watch", query: query, key: w.prefix,
		next: "agent config list " + w.prefix,
	}
}

// refused tells an agent that is away, which may come back when it was there before, from one that says no.
func (w *watch) refused(err error) error {
	if code := exitCode(err); w.begun && (code == exitUnreachable || code == exitFailure) {
		return lostError{err}
	}
	return err
}

// heard measures silence: from the beginning of one read to the next.
type heard struct {
	io.Reader
	quiet *time.Timer
}

func (h heard) Read(p []byte) (int, error) {
	h.quiet.Reset(silence)
	return h.Reader.Read(p)
}

// change is an event as it is printed.
type change struct {
	Type     string          `json:"type"` // put, delete or reset
	Key      string          `json:"key,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
	Encoding api.Encoding    `json:"encoding,omitempty"`
	ModRev   string          `json:"modRev"` // of a reset: the revision from which on nothing is missed any more
	By       string          `json:"by,omitempty"`
	At       time.Time       `json:"at,omitzero"`
}

// take handles one event, and remembers how far the stream has come once that is done.
func (w *watch) take(ctx context.Context, e event) error {
	var err error
	switch e.name {
	case "put", "delete":
		var c change
		if err := json.Unmarshal([]byte(e.data), &c); err != nil {
			return fmt.Errorf("event %s: %w", e.name, err)
		}
		c.Type = e.name
		err = w.emit(ctx, c)
	case "reset":
		w.missed, w.cursor = true, ""
		return lostError{errMissed}
	case "sync":
		err = w.synced(ctx, e)
	}
	w.cursor = cmp.Or(e.id, w.cursor)
	return err
}

// synced tells of a reset only now that the new stream has begun: who reads the prefix again then misses nothing
// between that and the stream.
func (w *watch) synced(ctx context.Context, e event) error {
	if w.cursor == "" {
		w.say("watching %s from revision %s", w.prefix, shortRev(e.id))
	}
	if !w.missed {
		return nil
	}
	w.missed = false
	return w.emit(ctx, change{Type: "reset", ModRev: e.id})
}

// emit prints a change or runs the command for it.
func (w *watch) emit(ctx context.Context, c change) (err error) {
	switch {
	case w.command != "":
		err = w.exec(ctx, c)
	case w.out.format == formatTable:
		_, err = fmt.Fprintln(w.out.w, c.line())
	default:
		err = w.out.next(c, c.Key)
	}
	if err == nil && w.once {
		err = errDone
	}
	return err
}

// exec runs the command of --exec for one event. A command that fails is reported and the watch goes on, unless this
// was the only event.
func (w *watch) exec(ctx context.Context, c change) error {
	value, err := bare(c.Value, c.Encoding)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "sh", "-c", w.command)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(value), w.stdout, w.stderr
	command.Env = append(os.Environ(), "GRAPEVINE_EVENT="+c.Type, "GRAPEVINE_KEY="+c.Key, "GRAPEVINE_REV="+c.ModRev)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = time.Second // for a command that leaves others behind, with its output open
	err = command.Run()
	if err == nil || ctx.Err() != nil {
		return nil
	}
	f := &failure{code: exitFailure, problem: fmt.Sprintf("%s: --exec %q: %v", c.Key, w.command, err)}
	if w.once {
		return f
	}
	f.tell(w.stderr, w.out.style, looks)
	return nil
}

// line is a change on one line for a person.
func (c change) line() string {
	switch c.Type {
	case "put":
		return printable(fmt.Sprintf("put     %s  rev %s  by %s  %s", c.Key, shortRev(c.ModRev), c.By, compact(c.Value)))
	case "delete":
		return printable(fmt.Sprintf("delete  %s  rev %s  by %s", c.Key, shortRev(c.ModRev), c.By))
	}
	return "reset   changes were missed: read the prefix again"
}
