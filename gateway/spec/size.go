package spec

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. It is written "100MB", "64KiB" or as a bare number
// of bytes; KB, MB and GB are powers of 1000, KiB, MiB and GiB of 1024.
type Size int64

type sizeUnit struct {
	name  string
	bytes int64
}

// sizeUnits are the units from the largest to the smallest.
func sizeUnits() []sizeUnit {
	return []sizeUnit{
		{"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3}, {"B", 1},
	}
}

// String uses the largest unit that leaves no fraction.
func (s Size) String() string {
	for _, u := range sizeUnits() {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return "0B"
}

// MarshalText gives the canonical form.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a whole number with or without a unit.
func (s *Size) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "BbGgIiKkMm")
	unit, err := unitOf(string(text)[len(digits):])
	count, bad := strconv.ParseInt(digits, 10, 64)
	switch {
	case errors.Is(bad, strconv.ErrRange):
		return errors.New("is out of range")
	case err != nil || bad != nil || digits[0] == '+':
		return errors.New(`is not a size such as "100MB", "64KiB" or a whole number of bytes`)
	case count < 0:
		return errors.New("must not be negative")
	case count > math.MaxInt64/unit:
		return errors.New("is out of range")
	}
	*s = Size(count * unit)
	return nil
}

func unitOf(name string) (bytes int64, err error) {
	if name == "" {
		return 1, nil
	}
	for _, u := range sizeUnits() {
		if strings.EqualFold(u.name, name) {
			return u.bytes, nil
		}
	}
	return 0, errors.New("no such unit")
}

func (Size) pattern() string { return `^[0-9]+([KMG]i?)?B$` }
