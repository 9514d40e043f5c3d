package consensus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/hashicorp/raft"
	bolt "go.etcd.io/bbolt"

	"grapevine/kv"
)

// logFile is the name of raft's log in the folder of a node.
const logFile = "raft.db"

// deleteAtOnce is how many entries one transaction deletes at most, so that no
// write waits long behind a compaction.
const deleteAtOnce = 512

// The buckets of the file.
var (
	bucketLog    = []byte("log")    // index, 8 bytes -> record of the entry
	bucketStable = []byte("stable") // raft's name -> its value
)

// errNotFound is what raft expects of a stable store for a name that it lacks:
// it compares the text.
var errNotFound = errors.New("not found")

// logStore is raft's log and its votes, in one bbolt file. Entries are
// contiguous: what is deleted goes from either end, so that a crash between two
// steps leaves no hole.
//
// The freelist is not written (NoFreelistSync): it would be rewritten with every
// commit, and after a compaction it is long. bbolt then looks for free pages when
// it opens the file, in a goroutine that a damaged page would make panic, so pages
// are checked before.
type logStore struct {
	db *bolt.DB

	mu          sync.RWMutex // guards first and last
	first, last uint64       // 0 when there are no entries
}

// openLogStore opens the log in a folder, or creates it. The error is a
// *kv.CorruptError if the file is damaged, and kv.ErrLocked if another process
// has it.
func openLogStore(dir string) (*logStore, error) {
	path := filepath.Join(dir, logFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := createLog(path); err != nil {
			return nil, fmt.Errorf("raft log %s: %w", path, err)
		}
	}
	s := &logStore{}
	err := guarded(func() (err error) {
		if s.db, err = openBolt(path); err != nil {
			return err
		}
		return s.readBounds()
	})
	var damage *kv.CorruptError
	if errors.As(err, &damage) {
		damage.Path = path
		err = damage
	}
	if err == nil {
		return s, nil
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	return nil, fmt.Errorf("raft log: %w", err)
}

// openBolt locks the file, checks its pages, and maps it.
func openBolt(path string) (*bolt.DB, error) {
	return bolt.Open(path, 0o600, &bolt.Options{
		FreelistType: bolt.FreelistMapType, NoFreelistSync: true,
		OpenFile: func(path string, _ int, _ os.FileMode) (*os.File, error) {
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return nil, err
			}
			err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
			if errors.Is(err, syscall.EWOULDBLOCK) {
				err = fmt.Errorf("%s is %w", path, kv.ErrLocked)
			}
			if err == nil {
				err = kv.CheckFile(file)
			}
			if err != nil {
				return nil, errors.Join(err, file.Close())
			}
			return file, nil
		},
	})
}

// createLog makes an empty log that appears at path complete or not at all.
func createLog(path string) error {
	draft := path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bolt.Open(draft, 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket(bucketLog)
		_, err2 := tx.CreateBucket(bucketStable)
		return errors.Join(err, err2)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// readBounds finds the ends of the log, and that nothing is missing between.
func (s *logStore) readBounds() error {
	return s.db.View(func(tx *bolt.Tx) error {
		logs := tx.Bucket(bucketLog)
		if logs == nil || tx.Bucket(bucketStable) == nil {
			return &kv.CorruptError{Path: s.db.Path(), What: "a bucket", Problem: "is missing"}
		}
		c := logs.Cursor()
		firstKey, _ := c.First()
		if firstKey == nil {
			return nil
		}
		lastKey, _ := c.Last()
		first, last := binary.BigEndian.Uint64(firstKey), binary.BigEndian.Uint64(lastKey)
		if n := uint64(logs.Stats().KeyN); n != last-first+1 {
			return &kv.CorruptError{
				Path: s.db.Path(), What: "the log",
				Problem: fmt.Sprintf("has %d entries between %d and %d", n, first, last),
			}
		}
		s.first, s.last = first, last
		return nil
	})
}

func (s *logStore) close() error { return guarded(s.db.Close) }

// FirstIndex is the index of the oldest entry, 0 if there is none.
func (s *logStore) FirstIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.first, nil
}

// LastIndex is the index of the newest entry, 0 if there is none.
func (s *logStore) LastIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last, nil
}

// GetLog reads one entry; raft.ErrLogNotFound if it is not there.
func (s *logStore) GetLog(index uint64, entry *raft.Log) error {
	return guarded(func() error {
		return s.db.View(func(tx *bolt.Tx) error {
			record := tx.Bucket(bucketLog).Get(indexKey(index))
			if record == nil {
				return raft.ErrLogNotFound
			}
			return decodeRecord(index, record, entry)
		})
	})
}

// StoreLog is StoreLogs of one entry.
func (s *logStore) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries and returns when they are synced. They must follow the
// last one, and each other.
func (s *logStore) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := checkFollows(s.last, entries); err != nil {
		return err
	}
	err := s.update(func(tx *bolt.Tx) error {
		logs := tx.Bucket(bucketLog)
		logs.FillPercent = 0.95 // keys only grow: no page has to be split for one between
		for _, entry := range entries {
			if err := logs.Put(indexKey(entry.Index), encodeRecord(entry)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("raft log: entries from %d: %w", entries[0].Index, err)
	}
	if s.first == 0 {
		s.first = entries[0].Index
	}
	s.last = entries[len(entries)-1].Index
	return nil
}

// checkFollows refuses a hole, which nothing could fill later.
func checkFollows(last uint64, entries []*raft.Log) error {
	for _, entry := range entries {
		if last != 0 && entry.Index != last+1 {
			return fmt.Errorf("raft log: entry %d does not follow %d", entry.Index, last)
		}
		last = entry.Index
	}
	return nil
}

// DeleteRange deletes the entries from low to high, both included. They must reach
// to the beginning or the end of the log. Everything goes at once by dropping the
// bucket; a part goes in steps, each of which leaves a log without a hole.
func (s *logStore) DeleteRange(low, high uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	low, high = max(low, s.first), min(high, s.last)
	if s.first == 0 || low > high {
		return nil
	}
	if low > s.first && high < s.last {
		return fmt.Errorf("raft log: deleting %d to %d would leave a hole in %d to %d", low, high, s.first, s.last)
	}
	if low == s.first && high == s.last {
		return s.deleteAll()
	}
	for low <= high {
		step := min(high-low, deleteAtOnce-1)
		if low == s.first {
			if err := s.deleteStep(low, low+step); err != nil {
				return err
			}
			low += step + 1
			s.first = low
			continue
		}
		if err := s.deleteStep(high-step, high); err != nil {
			return err
		}
		s.last = high - step - 1
		high = s.last
	}
	return nil
}

func (s *logStore) deleteAll() error {
	err := s.update(func(tx *bolt.Tx) error {
		if err := tx.DeleteBucket(bucketLog); err != nil {
			return err
		}
		_, err := tx.CreateBucket(bucketLog)
		return err
	})
	if err != nil {
		return fmt.Errorf("raft log: deleting all of it: %w", err)
	}
	s.first, s.last = 0, 0
	return nil
}

func (s *logStore) deleteStep(low, high uint64) error {
	err := s.update(func(tx *bolt.Tx) error {
		logs := tx.Bucket(bucketLog)
		for index := low; index <= high; index++ {
			if err := logs.Delete(indexKey(index)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("raft log: deleting %d to %d: %w", low, high, err)
	}
	return nil
}

// Get returns a value of raft's, or errNotFound.
func (s *logStore) Get(name []byte) (value []byte, err error) {
	err = guarded(func() error {
		return s.db.View(func(tx *bolt.Tx) error {
			stored := tx.Bucket(bucketStable).Get(name)
			if stored == nil {
				return errNotFound
			}
			value = append([]byte{}, stored...)
			return nil
		})
	})
	return value, err
}

// Set keeps a value of raft's, synced when it returns.
func (s *logStore) Set(name, value []byte) error {
	err := s.update(func(tx *bolt.Tx) error {
		stable := tx.Bucket(bucketStable)
		if old := stable.Get(name); old != nil && bytes.Equal(old, value) {
			return nil
		}
		return stable.Put(name, value)
	})
	if err != nil {
		return fmt.Errorf("raft log: setting %s: %w", name, err)
	}
	return nil
}

// GetUint64 returns a number of raft's, or errNotFound.
func (s *logStore) GetUint64(name []byte) (uint64, error) {
	value, err := s.Get(name)
	if err != nil {
		return 0, err
	}
	return parseIndex(name, value)
}

func parseIndex(name, value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("raft log: %s has %d bytes, a number has 8", name, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// SetUint64 is Set of a number.
func (s *logStore) SetUint64(name []byte, value uint64) error { return s.Set(name, indexKey(value)) }

func (s *logStore) update(change func(*bolt.Tx) error) error {
	return guarded(func() error { return s.db.Update(change) })
}

func indexKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

// guarded turns a panic of bbolt, or a page that the disk can't give, into an
// error: see kv, whose store does the same for the same reasons.
func guarded(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("bbolt: %v", reason)
		}
	}()
	return fn()
}

// syncFolder makes a new name in a folder survive a power cut.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
