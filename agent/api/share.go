package api

import (
	"fmt"
	"strconv"
	"strings"
)

// Share is which of the live nodes a write waits for: Nobody, Local, or a percentage from 1 to 100.
type Share int

const (
	// Nobody: the write is durable, and that is enough.
	Nobody Share = 0
	// Local is the node that took the write.
	Local Share = -1
	// Everybody is all live nodes.
	Everybody Share = 100
)

// ParseShare reads none, local, all, or a percentage as 50%.
func ParseShare(word string) (Share, error) {
	switch word {
	case "none":
		return Nobody, nil
	case "local":
		return Local, nil
	case "all":
		return Everybody, nil
	}
	digits, percent := strings.CutSuffix(word, "%")
	n, err := strconv.ParseUint(digits, 10, 7)
	if !percent || err != nil || n < 1 || n > 100 {
		return Local, fmt.Errorf("%q: not none, local, all or a share from 1%% to 100%%", word)
	}
	return Share(n), nil
}

// String gives the form that ParseShare reads.
func (s Share) String() string {
	switch s {
	case Nobody:
		return "none"
	case Local:
		return "local"
	case Everybody:
		return "all"
	}
	return strconv.Itoa(int(s)) + "%"
}

// Of is how many of so many live nodes the share is, rounded up.
func (s Share) Of(nodes int) int {
	if s == Local {
		return 1
	}
	return (nodes*int(s) + 99) / 100
}
