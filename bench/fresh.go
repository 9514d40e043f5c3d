//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"grapevine/bench/wire"
)

// measureFresh starts each peer anew for each measurement.
func (p *plan) measureFresh(ctx context.Context, w work) {
	sweeps := p.sweeps
	if w.kind == idleConns {
		sweeps = min(sweeps, idleSweeps)
	}
	for sweep := range sweeps {
		for _, which := range p.peers {
			if ctx.Err() != nil {
				return
			}
			if which.name() == relayName && w.kind == oneChange {
				continue
			}
			r, err := p.start(ctx, which, w)
			if err != nil {
				p.problem(which.name(), []work{w}, err)
				continue
			}
			var got row
			if w.kind == idleConns {
				got, err = p.holdIdle(ctx, r, w)
			} else {
				got, err = p.changeUnderLoad(ctx, r, w)
			}
			if err != nil {
				got.Problem = err.Error()
			}
			if ctx.Err() == nil {
				p.record(w, r, sweep, got)
			}
			p.stopAll([]*running{r})
		}
	}
}

// idleSettle is how long connections do nothing before memory is read again.
const idleSettle = 2 * time.Second

// holdIdle opens connections, sends one request on each and then nothing.
func (p *plan) holdIdle(ctx context.Context, r *running, w work) (row, error) {
	var held []net.Conn
	defer func() {
		for _, conn := range held {
			conn.Close()
		}
	}()
	before, err := r.process.usage()
	if err != nil {
		return row{}, err
	}
	got := row{Client: "own"}
	for range w.conns {
		if ctx.Err() != nil {
			return got, ctx.Err()
		}
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.setup.port))
		if err != nil {
			return got, err
		}
		held = append(held, conn)
		got.Requests++
		if err := askOn(conn, w.path()); err != nil {
			got.Failed++
			got.Reason = err.Error()
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(idleSettle):
	}
	after, err := r.process.usage()
	if err != nil {
		return got, err
	}
	got.Idle = float64(after.resident-before.resident) / float64(w.conns)
	got.Resident = before.resident
	return got, nil
}

func askOn(conn net.Conn, path string) error {
	conn.SetDeadline(time.Now().Add(stopPatience))
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", path, wire.Host, strings.Join(wire.Fields, "\r\n")); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

const (
	addedPrefix = "/added/v1/"
	// changeMargin is how long requests come before the change, and after it is served: the old workers of a peer that
	// starts new ones close their connections then.
	changeMargin = time.Second
)

// changeUnderLoad adds a route while requests come, and asks for it until it answers. Requests go to the first route, so
// that a peer that tries routes in turn can serve the rate.
func (p *plan) changeUnderLoad(ctx context.Context, r *running, w work) (row, error) {
	type outcome struct {
		row row
		err error
	}
	loaded := make(chan outcome, 1)
	stop := make(chan struct{})
	first := w
	first.routes = 1
	go func() {
		got, err := p.runLoad(ctx, r.setup.port, first, readyPatience+2*changeMargin, func() error { return nil }, stop)
		loaded <- outcome{got, err}
	}()
	pause(ctx, changeMargin)
	begun := time.Now()
	changed := r.setup
	changed.prefixes = append(slices.Clone(changed.prefixes), addedPrefix)
	err := r.peer.change(ctx, r.process, changed)
	unanswered := 0
	if err == nil {
		unanswered, err = r.process.awaitStatus(ctx, r.setup.port, addedPrefix+w.body, http.StatusOK)
	}
	live := time.Since(begun)
	pause(ctx, changeMargin)
	close(stop)
	got := <-loaded
	got.row.Live = live
	got.row.Requests += unanswered
	got.row.Failed += unanswered
	return got.row, errors.Join(err, got.err)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
