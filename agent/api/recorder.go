package api

import (
	"net/http"
	"time"
)

// writeTimeout cuts a client that does not read. It is counted from each write, for a long answer takes long.
const writeTimeout = 30 * time.Second

// recorder remembers the status of an answer, and does not wait for ever to write it.
type recorder struct {
	http.ResponseWriter
	status int
}

func newRecorder(w http.ResponseWriter) *recorder {
	r := &recorder{ResponseWriter: w}
	r.extend() // that of the request before on this connection may have passed
	return r
}

// extend gives the client time for what is written next.
func (r *recorder) extend() {
	// A writer without deadlines, as a test's, is one that can't hang either.
	_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
}

// WriteHeader notes the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write notes that an answer without a status is a success.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	r.extend()
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
