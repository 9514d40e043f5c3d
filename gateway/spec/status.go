package spec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Status is a status code in a list of codes, written "502" or 502.
type Status int

// MarshalText gives the canonical form.
func (s Status) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(s), 10), nil }

// UnmarshalText reads a code.
func (s *Status) UnmarshalText(text []byte) error {
	code, err := strconv.Atoi(string(text))
	if err != nil || code < 100 || code > 599 || len(text) != 3 {
		return errors.New("is not a status code from 100 to 599")
	}
	*s = Status(code)
	return nil
}

func (Status) pattern() string { return `^[1-5][0-9]{2}$` }

// RetryOn is a reason to try again: connect, reset, timeout or a status code.
type RetryOn string

// UnmarshalText reads a reason.
func (r *RetryOn) UnmarshalText(text []byte) error {
	words := []string{"connect", "reset", "timeout"}
	var code Status
	if !slices.Contains(words, string(text)) && code.UnmarshalText(text) != nil {
		return fmt.Errorf("must be connect, reset, timeout or a status code%s", DidYouMean(string(text), slices.Values(words)))
	}
	if code != 0 && code < 400 {
		return errors.New("is not the status code of a failure, 400 to 599")
	}
	*r = RetryOn(text)
	return nil
}

// Status is the code that it is, 0 for a word.
func (r RetryOn) Status() (code Status) {
	_ = code.UnmarshalText([]byte(r)) // a word is no code
	return code
}

func (RetryOn) pattern() string { return `^(connect|reset|timeout|[45][0-9]{2})$` }
