package gateway

import (
	"bytes"
	"encoding/json"
	"strings"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// probe is a question that the gateway answers itself.
type probe int

const (
	noProbe probe = iota
	probeLive
	probeReady
)

// probePaths are the paths that probes ask, in lower case. "Started" means
// ready: the table is live.
func probePaths(ready *spec.Ready) map[string]probe {
	paths := spec.DefaultProbePaths()
	if chosen := ready.Paths; chosen != nil {
		paths.Live = orDefault(chosen.Live, paths.Live)
		paths.Ready = orDefault(chosen.Ready, paths.Ready)
		paths.Startup = orDefault(chosen.Startup, paths.Startup)
	}
	probes := map[string]probe{}
	for _, path := range paths.Live {
		probes[strings.ToLower(string(path))] = probeLive
	}
	for _, path := range append(paths.Ready, paths.Startup...) {
		probes[strings.ToLower(string(path))] = probeReady
	}
	return probes
}

// orDefault tells a list that is not given (nil) from one that is empty.
func orDefault(list, otherwise []spec.Prefix) []spec.Prefix {
	if list == nil {
		return otherwise
	}
	return list
}

// answerProbe answers liveness from the process alone, and readiness from the
// table. Case and a trailing slash don't matter.
func (c *chain) answerProbe(x *exchange.Exchange, kind probe) {
	switch {
	case x.Request.Method != "GET" && x.Request.Method != "HEAD":
		x.Fail(exchange.Problem{
			Status: 405, Code: "method_not_allowed", Detail: "Probes take GET and HEAD.",
			Fields: exchange.Fields{{Name: []byte("Allow"), Value: []byte("GET, HEAD")}},
		})
	case kind == probeLive:
		x.Respond(200, "application/json", []byte("{\"status\":\"alive\"}\n"))
	case wantsDetails(&x.Request):
		answerDetails(x, c.details(c.table))
	default:
		c.answerReady(x)
	}
}

// wantsDetails tells whether a probe asks for more than yes or no: by ?verbose, or
// by naming the type that the details have.
func wantsDetails(r *exchange.Request) bool {
	_, query, _ := bytes.Cut(r.Target, []byte("?"))
	for pair := range bytes.SplitSeq(query, []byte("&")) {
		if name, value, _ := bytes.Cut(pair, []byte("=")); string(name) == "verbose" {
			return string(value) != "0" && string(value) != "false"
		}
	}
	return bytes.Contains(bytes.ToLower(r.Fields.Get("Accept")), []byte("application/json"))
}

func answerDetails(x *exchange.Exchange, r Readiness) {
	document, err := json.Marshal(r)
	if err != nil { // it is made of texts, numbers and times
		panic(err)
	}
	status := 200
	if r.Status != statusReady {
		status, x.Reason = 503, r.Status
	}
	x.Respond(status, "application/json", append(document, '\n'))
	if status != 200 {
		x.Response.Fields = append(x.Response.Fields, retryAfter)
	}
}

func (c *chain) answerReady(x *exchange.Exchange) {
	if ok, reason := c.ready(c.table); !ok {
		x.Fail(exchange.Problem{Status: 503, Code: "not_ready", Detail: reason, Fields: exchange.Fields{retryAfter}})
		return
	}
	x.Respond(200, "application/json", []byte("{\"status\":\"ready\"}\n"))
}

// probeAt looks at the canonical path, as matching does, so that no spelling of
// a probe's path reaches a backend.
func (t *Table) probeAt(target []byte) probe {
	path, _, err := splitTarget(target)
	if err != nil {
		return noProbe // dispatch refuses it
	}
	if len(path.Canonical) > maxProbePath {
		return noProbe
	}
	var buffer [maxProbePath]byte
	name := buffer[:copy(buffer[:], path.Canonical)]
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			name[i] = c + ('a' - 'A')
		}
	}
	if len(name) > 1 {
		name = bytes.TrimSuffix(name, []byte("/"))
	}
	return t.probes[string(name)]
}

// maxProbePath bounds a path that may be a probe's; spec bounds a template.
const maxProbePath = 2048
