package kv

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// ErrClosed is returned by what needs an open store.
var ErrClosed = errors.New("store is closed")

// Options say where a store lives and how much history it keeps.
type Options struct {
	// Path is the store's file; its folder must exist. Empty means that the
	// store lives in memory only.
	Path string
	// HistoryRevs and HistoryBytes bound the history: the oldest revisions go
	// when either is exceeded. 0 means DefaultHistoryRevs, DefaultHistoryBytes.
	HistoryRevs  int
	HistoryBytes int64
}

// Store keeps the newest View, the history that led to it, and the node's local
// values. All methods may be called by any number of goroutines. Readers never
// wait: not for each other, not for a writer, not for the disk.
type Store struct {
	revs  int
	bytes int64

	now    atomic.Pointer[state]
	local  atomic.Pointer[iradix.Tree[[]byte]]
	closed chan struct{}

	// writing lets one writer at a time change local, and the operators' part of now.
	writing sync.Mutex
	disk    *disk // nil when the store lives in memory only; for holders of behind.saving
	behind  behind
	savers  sync.WaitGroup // of behind

	// plane has the ephemeral keys, and changes their part of now.
	plane *plane
	own   *Own
	// keeping lets one at a time write what is known of owners.
	keeping sync.Mutex
	// swapping lets one at a time replace now. It is held for no longer than that.
	swapping sync.Mutex
}

// state is what readers see of the shared keys, replaced as a whole. Its view has both
// planes; the rest is the operators'.
type state struct {
	view     View
	history  history // leads to view
	requests requests
	changed  chan struct{}
}

// Open opens the store at its path, or creates it. A new store is at revision 0
// of epoch 1, under a random epoch id.
//
// Errors: ErrLocked when another process has the file open; a *CorruptError when
// the file is damaged, in which case it is left exactly as it was; ErrDiskFull;
// else what the operating system says of the path.
func Open(o Options) (*Store, error) {
	s := &Store{
		revs:   cmp.Or(max(o.HistoryRevs, 0), DefaultHistoryRevs),
		bytes:  cmp.Or(max(o.HistoryBytes, 0), DefaultHistoryBytes),
		closed: make(chan struct{}),
	}
	found := newContents()
	if o.Path != "" {
		var err error
		if s.disk, found, err = openDisk(o.Path); err != nil {
			return nil, err
		}
	}
	s.now.Store(&state{view: found.view, history: found.history, requests: found.requests, changed: make(chan struct{})})
	s.local.Store(found.local)
	s.plane, s.own = newPlane(s.publishOwned), &Own{s: s}
	if err := s.plane.load(s); err != nil {
		return nil, errors.Join(explain(err, o.Path), s.Close())
	}
	return s, nil
}

// contents is all that a store holds.
type contents struct {
	view     View
	history  history
	requests requests
	local    *iradix.Tree[[]byte]
}

// newContents is a store that nothing was written to.
func newContents() contents {
	var epochID [16]byte
	rand.Read(epochID[:]) // never fails: it would end the process
	start := genesis(1, epochID)
	return contents{
		view:    View{head: start},
		history: history{base: start},
		local:   iradix.New[[]byte](),
	}
}

// Close releases the file. Views stay valid, watchers get ErrClosed, writes are
// refused. Closing twice does nothing.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.isClosed() {
		return nil
	}
	close(s.closed)
	if s.disk == nil {
		return nil
	}
	return s.finish()
}

// isClosed is for holders of writing.
func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// View is the newest state.
func (s *Store) View() View { return s.now.Load().view }

// Changed returns a channel that is closed when the view is replaced. To miss
// nothing, take the channel first and then the View. Many changes may close it
// once: it tells that there is something new, not what.
func (s *Store) Changed() <-chan struct{} { return s.now.Load().changed }

// Merge is the one door by which shared keys change. It applies the commits in
// their order, all or none: they are on disk, synced, when it returns, and only
// then do readers see them. Commits that the store has are skipped.
//
// Errors: ErrGap when a commit between is missing; ErrDiverged when a commit is
// of another history, even if its revision is long past; a *CompactedError when
// it is too long past to be told apart; ErrOldEpoch and ErrNewEpoch when it is of
// another epoch; ErrDamaged when its content does not have its hash; a *KeyError or
// *LimitError when no transaction makes such a commit; ErrDiskFull, after which a later Merge may
// succeed; ErrReadOnly for good, once a write or its sync failed. After any error
// the view is what it was.
func (s *Store) Merge(commits ...Commit) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	next, change, err := s.prepare(commits)
	if err != nil || next == nil {
		return err
	}
	if s.disk != nil {
		if err := s.save(change); err != nil {
			return err
		}
	}
	s.publish(next)
	return nil
}

// prepare gives the state after the commits, nil if they are all there, and what it
// means for the file. It is for holders of writing.
func (s *Store) prepare(commits []Commit) (next *state, change steps, err error) {
	if s.isClosed() {
		return nil, steps{}, ErrClosed
	}
	now := s.now.Load()
	view, history, err := follow(now.view, now.history, commits)
	if err != nil || view.Rev() == now.view.Rev() {
		return nil, steps{}, err
	}
	added := history.steps[len(now.history.steps):]
	history, dropped := history.trim(s.revs, s.bytes)
	next = &state{view: view, history: history, requests: now.requests.extend(added), changed: make(chan struct{})}
	return next, steps{added: added, dropped: dropped, old: now, next: next}, nil
}

// publish replaces the operators' part of the state by that of next.
func (s *Store) publish(next *state) {
	s.swap(func(now *state) *state {
		both := *next // whoever saves next reads it meanwhile
		both.view.own = now.view.own
		return &both
	})
}

// publishOwned replaces the ephemeral part of the state.
func (s *Store) publishOwned(own owned) {
	s.swap(func(now *state) *state {
		both := *now
		both.view.own, both.changed = own, make(chan struct{})
		return &both
	})
}

// swap replaces the state first and signals then, so that whoever is woken finds the new
// one. Writers of the two planes meet here, and nowhere else.
func (s *Store) swap(replace func(now *state) *state) {
	s.swapping.Lock()
	defer s.swapping.Unlock()
	now := s.now.Load()
	s.now.Store(replace(now))
	close(now.changed)
}

// follow applies those of the commits that are new.
func follow(view View, h history, commits []Commit) (View, history, error) {
	for _, commit := range commits {
		have, err := h.has(commit)
		if err != nil {
			return View{}, history{}, err
		}
		if have {
			continue
		}
		next, err := view.Apply(commit)
		if err != nil {
			return View{}, history{}, err
		}
		h = h.extend(newStep(view, commit))
		view = next
	}
	return view, h, nil
}

// has reports whether a commit is in the history already. A past revision with
// another hash is no duplicate but a divergence.
func (h history) has(c Commit) (bool, error) {
	head := h.head()
	if c.Rev.Epoch != head.Rev.Epoch || c.Rev.Rev > head.Rev.Rev {
		return false, nil
	}
	if c.Rev.Rev < h.base.Rev.Rev {
		return false, &CompactedError{Asked: c.Rev, Oldest: h.base.Rev}
	}
	if have := h.headAt(int(c.Rev.Rev - h.base.Rev.Rev)).Hash; have != c.Hash {
		return false, fmt.Errorf("revision %s: %w: it has hash %x, here it is %x", c.Rev, ErrDiverged, c.Hash[:8], have[:8])
	}
	return true, nil
}

// At returns the view as it was at rev: a *CompactedError if that is no longer
// kept, ErrFuture if it is not reached.
func (s *Store) At(rev Rev) (View, error) {
	now := s.now.Load()
	return now.history.rewind(now.view, rev)
}

// History returns the commits after since that changed a key which prefix covers,
// oldest first and whole, at most limit of them, all if limit is 0. The zero
// Rev begins with the oldest kept. Errors as for At.
func (s *Store) History(prefix string, since Rev, limit int) ([]Commit, error) {
	now := s.now.Load()
	if since.IsZero() {
		since = now.history.base.Rev
	}
	if since.Compare(now.view.Rev()) > 0 {
		return nil, fmt.Errorf("revision %s: %w, the newest is %s", since, ErrFuture, now.view.Rev())
	}
	steps, err := now.history.after(since)
	if err != nil {
		return nil, err
	}
	var commits []Commit
	for _, s := range steps {
		if limit > 0 && len(commits) == limit {
			break
		}
		if s.touches(prefix) {
			commits = append(commits, s.commit)
		}
	}
	return commits, nil
}
