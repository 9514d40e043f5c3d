package kv

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
	bolt "go.etcd.io/bbolt"
)

var (
	// ErrDiskFull refuses one write for want of space. Nothing has changed, and
	// once there is space writes succeed again.
	ErrDiskFull = errors.New("disk is full")
	// ErrReadOnly refuses every write after one of which the disk could not say
	// whether it happened. Only opening the file again can tell: the write may
	// turn out to be there. Reading goes on from memory.
	ErrReadOnly = errors.New("store is read-only since a write failed")
)

// The buckets of the file.
var (
	bucketMeta    = []byte("meta")  // ledgerName -> ledger
	bucketEntries = []byte("op")    // key -> entry
	bucketHistory = []byte("hist")  // revName -> step
	bucketLocal   = []byte("local") // local name -> value
	// bucketRequests holds revName -> request, for commits that have left the
	// history and whose ids are still answered for. The rest stand in their steps.
	// It is made with the first write: files of the first version lack it.
	bucketRequests = []byte("ids")

	buckets = [][]byte{bucketMeta, bucketEntries, bucketHistory, bucketLocal}
)

// disk is the file. It is read once, when it is opened; after that it is only
// written. It is for one goroutine at a time.
type disk struct {
	path string
	file *os.File // bbolt's own handle
	db   *bolt.DB
	// ledger is what the file holds.
	ledger ledger
	// failed is why nothing can be written any more, nil while it can.
	failed error
	// commit ends a transaction. Tests put failing ones in its place.
	commit func(*bolt.Tx) error
}

// saveSteps writes the steps of merges, in their order, and what they do to the
// entries, and forgets those that left the history, but for their requests.
func (d *disk) saveSteps(changes ...steps) error {
	return d.update(func(tx *bolt.Tx, l *ledger) error {
		for _, change := range changes {
			if err := saveChange(tx, l, change); err != nil {
				return err
			}
		}
		return nil
	})
}

func saveChange(tx *bolt.Tx, l *ledger, c steps) error {
	l.head, l.base = c.next.view.head, c.next.history.base
	for _, s := range c.added {
		if err := saveStep(tx, l, s); err != nil {
			return err
		}
	}
	for _, s := range c.dropped {
		if err := tx.Bucket(bucketHistory).Delete(revName(s.commit.Rev)); err != nil {
			return err
		}
	}
	return saveRequests(tx, l, c.old, c.next)
}

func saveStep(tx *bolt.Tx, l *ledger, s *step) error {
	for i, effect := range s.commit.Effects {
		if err := saveEffect(tx, l, effect, s.before[i]); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketHistory).Put(revName(s.commit.Rev), encodeStep(s))
}

func saveEffect(tx *bolt.Tx, l *ledger, effect Effect, before *Entry) error {
	entries, key := tx.Bucket(bucketEntries), []byte(effect.Entry.Key)
	if before != nil {
		l.entries.remove(encodeEntry(*before))
	}
	if effect.Deleted {
		return entries.Delete(key)
	}
	record := encodeEntry(effect.Entry)
	l.entries.add(record)
	return entries.Put(key, record)
}

// saveRequests writes the requests of the commits that left the history, and
// forgets those that are no longer answered for.
func saveRequests(tx *bolt.Tx, l *ledger, old, next *state) error {
	bucket := tx.Bucket(bucketRequests)
	leaving := next.requests.until(next.history.base.Rev)[len(next.requests.until(old.history.base.Rev)):]
	for _, r := range leaving {
		if err := saveRequest(bucket, l, r); err != nil {
			return err
		}
	}
	for _, r := range old.requests.until(old.history.base.Rev) {
		if next.requests.reach(r.result.Rev) {
			break
		}
		l.requests.remove(encodeRequest(r))
		if err := bucket.Delete(revName(r.result.Rev)); err != nil {
			return err
		}
	}
	return nil
}

func saveRequest(bucket *bolt.Bucket, l *ledger, r *request) error {
	record := encodeRequest(r)
	l.requests.add(record)
	return bucket.Put(revName(r.result.Rev), record)
}

// saveLocals replaces local values, of which old are those before; nil means none.
func (d *disk) saveLocals(old *iradix.Tree[[]byte], values map[string][]byte) error {
	return d.update(func(tx *bolt.Tx, l *ledger) error {
		for name, value := range values {
			before, _ := old.Get([]byte(name))
			if err := saveLocal(tx, l, []byte(name), before, value); err != nil {
				return err
			}
		}
		return nil
	})
}

func saveLocal(tx *bolt.Tx, l *ledger, name, old, value []byte) error {
	if old != nil {
		l.local.remove(seal(localVersion, name, old))
	}
	if value == nil {
		return tx.Bucket(bucketLocal).Delete(name)
	}
	record := seal(localVersion, name, value)
	l.local.add(record)
	return tx.Bucket(bucketLocal).Put(name, record)
}

// update runs one transaction and returns when it is synced. change adapts the
// ledger to what it writes.
func (d *disk) update(change func(*bolt.Tx, *ledger) error) error {
	if d.failed != nil {
		return d.failed
	}
	next := d.ledger
	err := guard(func() error { return d.transact(change, &next) })
	if err != nil {
		return d.refuse(err)
	}
	d.ledger = next
	return nil
}

func (d *disk) transact(change func(*bolt.Tx, *ledger) error, next *ledger) error {
	tx, err := d.db.Begin(true)
	if err != nil {
		return err
	}
	if _, err := tx.CreateBucketIfNotExists(bucketRequests); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := change(tx, next); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Bucket(bucketMeta).Put(ledgerName, encodeLedger(*next)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return d.commit(tx)
}

// refuse names the error of a failed write and decides whether writing may go
// on: only if the disk was full and the file still says what it said before.
func (d *disk) refuse(err error) error {
	if isDiskFull(err) && d.unchanged() {
		return fmt.Errorf("%w: %s: %v", ErrDiskFull, d.path, err)
	}
	d.failed = fmt.Errorf("%w: %s: %w", ErrReadOnly, d.path, err)
	return d.failed
}

// unchanged reports whether the last ledger that was acknowledged is the one that
// the next transaction would build on.
func (d *disk) unchanged() bool {
	same := false
	err := guard(func() error {
		return d.db.View(func(tx *bolt.Tx) error {
			found, problem := decodeLedger(tx.Bucket(bucketMeta).Get(ledgerName))
			same = problem == "" && found == d.ledger
			return nil
		})
	})
	return err == nil && same
}

// isDiskFull also looks into the text, because bbolt does not wrap the errors of
// growing its file.
func isDiskFull(err error) bool {
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) {
			return true
		}
	}
	return false
}

// close closes bbolt, or only the file if a fault may have left bbolt's locks
// held: closing would then wait for ever.
func (d *disk) close() error {
	var broken *fault
	if errors.As(d.failed, &broken) {
		return release(d.file)
	}
	if err := guard(d.db.Close); err != nil {
		return fmt.Errorf("closing %s: %w", d.path, err)
	}
	return nil
}
