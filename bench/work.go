//go:build linux

package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
)

// kind is what is measured.
type kind string

const (
	closedLoop kind = "closed" // each connection sends as soon as it is answered: CPU per request
	openLoop   kind = "open"   // a fixed schedule: latency
	idleConns  kind = "idle"   // connections that do nothing: memory
	oneChange  kind = "change" // one route is added while requests come at a fixed rate: errors, and when it is served
)

// work is one thing to be measured on each peer.
type work struct {
	kind    kind
	body    string // of wire.Bodies
	conns   int
	workers int
	routes  int // 0: one route for everything
	rate    int // requests per second, of an open loop and of a change
}

const (
	// fixedRate is one that every peer can serve on one CPU with time to spare.
	fixedRate = 2000
	// changeRate leaves time for the change itself.
	changeRate  = 1000
	changeConns = 16
	// idleCount fits the usual limit on open files twice: a relay has two for each connection.
	idleCount = 5000
	// idleSweeps is the most that are done of memory, which hardly varies.
	idleSweeps = 3
)

func (w work) String() string {
	switch w.kind {
	case idleConns:
		return fmt.Sprintf("idle/%dc", w.conns)
	case oneChange:
		return fmt.Sprintf("change/%dr", w.routes)
	}
	name := fmt.Sprintf("%s/%dw/%dc/%s", w.kind, w.workers, w.conns, w.body)
	if w.routes > 0 {
		name += fmt.Sprintf("/%dr", w.routes)
	}
	if w.rate > 0 {
		name += fmt.Sprintf("/%dps", w.rate)
	}
	return name
}

// path is that of the last route, which is the dearest one where routes are tried in turn.
func (w work) path() string {
	prefixes := prefixes(w.routes)
	if len(prefixes) == 0 {
		return "/bench/" + w.body
	}
	return prefixes[len(prefixes)-1] + w.body
}

func prefixes(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("/service%05d/v1/", i))
	}
	return all
}

// fresh tells that the peer is started for this measurement alone.
func (w work) fresh() bool { return w.kind == idleConns || w.kind == oneChange }

// allWork is sorted so that what the same running peers can do stands together.
func allWork() []work {
	var all []work
	for _, workers := range []int{1, 2} {
		for _, conns := range []int{64, 512} {
			for _, body := range []string{"100", "1k", "64k", "1m"} {
				all = append(all, work{kind: closedLoop, body: body, conns: conns, workers: workers})
			}
		}
	}
	all = append(all, work{kind: openLoop, body: "1k", conns: 64, workers: 1, rate: fixedRate})
	for _, routes := range []int{10, 1000, 10000} {
		all = append(all, work{kind: closedLoop, body: "100", conns: 64, workers: 1, routes: routes})
	}
	for _, routes := range []int{1000, 10000} {
		all = append(all, work{kind: oneChange, body: "100", conns: changeConns, workers: 1, routes: routes, rate: changeRate})
	}
	all = append(all, work{kind: idleConns, body: "100", conns: idleCount, workers: 1})
	slices.SortStableFunc(all, func(a, b work) int {
		return cmp.Or(compareBool(a.fresh(), b.fresh()), cmp.Compare(a.routes, b.routes), cmp.Compare(a.workers, b.workers))
	})
	return all
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func chosenWork(pattern string) ([]work, error) {
	choice, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	chosen := slices.DeleteFunc(allWork(), func(w work) bool { return !choice.MatchString(w.String()) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no work matches %q; there are: %v", pattern, allWork())
	}
	return chosen, nil
}
