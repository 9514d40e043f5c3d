package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// nodeID reads the node's id, or makes it at the first start.
func (d *dataDir) nodeID(now time.Time) (string, error) {
	path := d.file("node.id")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id := newNodeID(now)
		if err = writeOnce(path, id+"\n"); err == nil {
			return id, nil
		}
	}
	if err != nil {
		return "", dataDirError(d.path, err)
	}
	id := strings.TrimSpace(string(data))
	if !isNodeID(id) {
		return "", fmt.Errorf("node id %q: %q is not one; restore the file from a backup, or remove it to be a new node", path, shorten(id))
	}
	return id, nil
}

// writeOnce makes a file appear with its whole content or not at all, and lasting.
func writeOnce(path, content string) error {
	draft, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = draft.WriteString(content)
	err = errors.Join(err, draft.Sync(), draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	return err
}

// syncFolder makes a new name in a folder outlive a power cut.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// crockford are the digits of base 32 that a person can't confuse; the ULID specification takes them in either case.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// newNodeID makes a ULID in lower case: 48 bits of milliseconds since 1970 and 80 random bits, 5 bits a digit, so that
// ids sort by age.
func newNodeID(now time.Time) string {
	var random [10]byte
	rand.Read(random[:])
	var id [26]byte
	putDigits(id[:10], uint64(now.UnixMilli()))
	putDigits(id[10:18], bigEndian40(random[:5]))
	putDigits(id[18:], bigEndian40(random[5:]))
	return string(id[:])
}

// putDigits fills digits with the low bits of n, the last digit lowest.
func putDigits(digits []byte, n uint64) {
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = crockford[n&31]
		n >>= 5
	}
}

func bigEndian40(b []byte) (n uint64) {
	for _, x := range b[:5] {
		n = n<<8 | uint64(x)
	}
	return n
}

// isNodeID checks the form; the first digit holds the top three of 128 bits.
func isNodeID(s string) bool {
	return len(s) == 26 && s[0] <= '7' && strings.Trim(s, crockford) == ""
}

// shorten cuts what is too long for a message.
func shorten(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
