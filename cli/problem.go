package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"grapevine/agent/api"
	"grapevine/gateway/spec"
)

// refusal makes a failure of an answer that is no success.
func refusal(r request, response *http.Response, body []byte) error {
	var p api.Problem
	mime, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if mime != "application/problem+json" || json.Unmarshal(body, &p) != nil {
		return notAnAgent(r, response.Status)
	}
	f := &failure{code: codeOf(response.StatusCode, p.Code), problem: sentence(p), next: r.next}
	if !p.NothingWritten {
		f.outcome = unknownOutcome
	}
	switch {
	case f.code == exitNoQuorum, p.Code == "node_unreachable":
		f.next = "agent members"
	case f.outcome == unknownOutcome:
		f.next = cmp.Or(r.check, f.next)
	}
	if len(p.Faults) > 0 {
		f.problem, f.details = faultLines(cmp.Or(p.Key, r.key), p.Faults)
	}
	return f
}

// notAnAgent is the failure of an answer that no agent gives.
func notAnAgent(r request, why string) error {
	return &failure{
		code: exitFailure, problem: fmt.Sprintf("%s %s: not the answer of an agent: %s", r.method, r.path, why),
		outcome: unknownOutcome, next: "another --addr",
	}
}

// sentence names the key, unless the agent did.
func sentence(p api.Problem) string {
	if p.Key == "" || strings.Contains(p.Detail, p.Key) {
		return p.Detail
	}
	return p.Key + ": " + p.Detail
}

// codeOf is the exit code for a problem, by its code where the status says too little.
func codeOf(status int, code string) int {
	if code == "no_quorum" || code == "no_leader" {
		return exitNoQuorum
	}
	switch status {
	case http.StatusBadGateway:
		return exitUnreachable
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return exitInvalid
	case http.StatusNotFound, http.StatusGone:
		return exitNotFound
	case http.StatusPreconditionFailed:
		return exitConflict
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitDenied
	}
	return exitFailure
}

// faulty is the failure of a key or value that package spec refuses.
func faulty(key string, err error) *failure {
	f := &failure{code: exitInvalid, problem: err.Error(), cause: err}
	if faults, ok := errors.AsType[spec.Faults](err); ok {
		f.problem, f.details = faultLines(key, faults)
	}
	return f
}

// faultLines puts a single fault in the first line, and several below it.
func faultLines(thing string, faults spec.Faults) (first string, more []string) {
	if len(faults) == 1 {
		return faults[0].Error(), nil
	}
	for _, fault := range faults {
		more = append(more, fault.Error())
	}
	return fmt.Sprintf("%s: %d faults", thing, len(faults)), more
}
