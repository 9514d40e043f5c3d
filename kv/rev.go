package kv

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Rev is a revision: the count of transactions that changed something. Every such
// transaction adds one, so that a gap shows. The epoch rises only when a history
// is replaced (a restore, or a recovery after a lost quorum), and goes on counting
// where it took over. Revisions are compared by epoch first. The zero Rev is before every
// revision.
type Rev struct {
	Epoch uint32
	Rev   uint64
}

// String gives the form that ParseRev reads, as "1.1842".
func (r Rev) String() string {
	return strconv.FormatUint(uint64(r.Epoch), 10) + "." + strconv.FormatUint(r.Rev, 10)
}

// Compare returns -1, 0 or +1, as r is before, at or after other.
func (r Rev) Compare(other Rev) int {
	return cmp.Or(cmp.Compare(r.Epoch, other.Epoch), cmp.Compare(r.Rev, other.Rev))
}

// IsZero reports whether r is the zero Rev, which stands for "none".
func (r Rev) IsZero() bool { return r == Rev{} }

// Next is the only revision that may follow r in its epoch.
func (r Rev) Next() Rev { return Rev{Epoch: r.Epoch, Rev: r.Rev + 1} }

// ParseRev reads "1.1842", or "1842" as that revision of the given epoch.
func ParseRev(s string, epoch uint32) (Rev, error) {
	number := s
	if before, after, dotted := strings.Cut(s, "."); dotted {
		e, err := strconv.ParseUint(before, 10, 32)
		if err != nil {
			return Rev{}, revError(s)
		}
		epoch, number = uint32(e), after
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return Rev{}, revError(s)
	}
	return Rev{Epoch: epoch, Rev: n}, nil
}

func revError(s string) error {
	return fmt.Errorf("revision %s: want a number as 1842, or epoch.number as 1.1842", quoteShort(s))
}
