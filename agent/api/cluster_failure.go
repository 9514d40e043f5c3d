package api

import (
	"errors"
	"net"
	"net/http"
)

// clusterFailure is failureOf for the errors of a Cluster, and of a Log that is one's.
func clusterFailure(err error) *failure {
	var (
		quorum      *NoQuorumError
		unknown     *UnknownOutcomeError
		missing     *NotFoundError
		refused     *RefusedError
		unreachable *UnreachableError
	)
	switch {
	case errors.As(err, &unknown):
		return fail(codeUnknownOutcome, "%v", err)
	case errors.As(err, &quorum):
		return fail(codeNoQuorum, "%v", err)
	case errors.As(err, &missing):
		return fail(codeNotFound, "%v", err)
	case errors.As(err, &refused):
		return fail(codeRefused, "%v", err)
	case errors.As(err, &unreachable):
		return fail(codeUnreachable, "%v", err)
	}
	return nil
}

// RefuseAsked answers a request for another node that could not be passed on to it, or whose answer did not come. Unless
// the error is one of those of a Cluster, a change may have happened there.
func RefuseAsked(w http.ResponseWriter, r *http.Request, err error) {
	f := clusterFailure(err)
	var connection *net.OpError
	switch {
	case f != nil:
	case errors.As(err, &connection) && connection.Op == "dial": // nothing was sent
		f = fail(codeUnreachable, "the node that was asked can't be reached: %v", err)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		f = fail(codeUnreachable, "the node that was asked did not answer: %v", err)
	default:
		f = fail(codeUnknownOutcome, "the node that was asked did not answer: %v", err)
	}
	p := f.problem()
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	// What fails here is the connection, and then nobody is there to tell.
	_ = encode(w, p)
}
