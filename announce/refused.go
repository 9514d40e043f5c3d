package announce

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// ErrSuperseded ends an announcement whose instance id was announced on another
// connection.
var ErrSuperseded = errors.New("another connection announced the same instance")

// ErrWithdrawn ends an announcement that an operator or a policy took back. The
// same announcement would be taken back again.
var ErrWithdrawn = errors.New("the instance was withdrawn")

// RefusedError is what the agent has against an announcement.
type RefusedError struct {
	Agent  string // where it was asked
	Status int    // of HTTP
	Code   string // stable, for programs
	Detail string // for people: it names the field and the value
	Faults []Fault
}

// Fault is one thing that is wrong with an announcement.
type Fault struct {
	Field   string `json:"field"`
	Value   string `json:"value"`
	Problem string `json:"problem"`
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("announce: refused by the agent at %s (%d %s): %s", e.Agent, e.Status, e.Code, e.Detail)
}

// isFinal says whether trying again with the same announcement is in vain.
// What the agent has too much of, or is not ready for, passes.
func (e *RefusedError) isFinal() bool {
	return e.Status < 500 && e.Status != http.StatusTooManyRequests && e.Status != http.StatusRequestTimeout
}

// maxProblem bounds what is read of a refusal.
const maxProblem = 64 << 10

// refusal reads a problem document (RFC 9457), or whatever else the answer is.
func refusal(agent string, response *http.Response) *RefusedError {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem)) // what broke off still says something
	refused := &RefusedError{Agent: agent, Status: response.StatusCode}
	var problem struct {
		Code, Title, Detail string
		Faults              []Fault
	}
	if json.Unmarshal(body, &problem) == nil && problem.Detail != "" {
		refused.Code, refused.Detail, refused.Faults = problem.Code, problem.Detail, problem.Faults
		if refused.Code == "" {
			refused.Code = problem.Title
		}
		return refused
	}
	refused.Code = strings.ToLower(strings.ReplaceAll(http.StatusText(response.StatusCode), " ", "_"))
	refused.Detail = fmt.Sprintf("an answer that is none of an agent: %.200q", body)
	return refused
}
