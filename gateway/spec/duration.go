package spec

import (
	"errors"
	"math"
	"strings"
	"time"
)

const maxDuration = time.Duration(math.MaxInt64)

// Duration is a length of time, never negative. It is written "300ms", "5s",
// "1m30s"; a field that is one also has integer aliases, timeoutMs and
// timeoutSeconds for timeout.
type Duration time.Duration

// String is the shortest form that Go reads: 2m, not 2m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText gives the canonical form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration with units.
func (d *Duration) UnmarshalText(text []byte) error {
	if isJSONNumber(string(text)) {
		return errors.New(`needs a unit, as "300ms", "5s" or "2m"`)
	}
	length, err := time.ParseDuration(string(text))
	switch {
	case err != nil:
		return errors.New(`is not a duration such as "300ms", "5s", "1m30s" or "2h"`)
	case length < 0:
		return errors.New("must not be negative")
	}
	*d = Duration(length)
	return nil
}

func (Duration) pattern() string { return `^([0-9]+(\.[0-9]+)?(ns|us|µs|μs|ms|s|m|h))+$` }

// Time is a moment, written as RFC 3339 has it.
type Time struct{ time.Time }

// MarshalText gives the moment in UTC.
func (t Time) MarshalText() ([]byte, error) {
	return t.UTC().AppendFormat(nil, time.RFC3339Nano), nil
}

// UnmarshalText reads a moment of any zone.
func (t *Time) UnmarshalText(text []byte) error {
	moment, err := time.Parse(time.RFC3339, string(text))
	if err != nil || moment.UTC().Year() < 1 || moment.UTC().Year() > 9999 {
		return errors.New(`is not a time such as "2026-12-01T10:00:00Z"`)
	}
	t.Time = moment.UTC()
	return nil
}

func (Time) pattern() string { return `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9]{2}:[0-9]{2})$` }
