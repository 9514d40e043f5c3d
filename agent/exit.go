package agent

import "errors"

// The exit codes of the errors that Open and Run return.
const (
	exitFailure = 1 // a port, the lock, the data directory
	exitUsage   = 2 // a flag or an environment variable
	exitInvalid = 3 // a static file
	exitFenced  = 11
)

// exitError is an error that knows the process's exit code.
type exitError struct {
	error
	code int
}

// ExitCode is the code that the process shall end with.
func (e exitError) ExitCode() int { return e.code }

// Unwrap gives the cause.
func (e exitError) Unwrap() error { return e.error }

// exit gives err a code, unless it has one or is nil.
func exit(code int, err error) error {
	if err == nil || errors.As(err, new(exitError)) {
		return err
	}
	return exitError{err, code}
}
