package kv

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

var (
	ErrLocked    = errors.New("store is in use by another process")
	ErrReadOnly  = errors.New("store is read-only")
	ErrDiskFull  = errors.New("disk is full")
	ErrClosed    = errors.New("store is closed")
	ErrCompacted = errors.New("revision is compacted")
	ErrFuture    = errors.New("revision is in the future")
)

type CompactedError struct{ Oldest Rev }

func (e *CompactedError) Error() string {
	return fmt.Sprintf("%v, the oldest kept is %s", ErrCompacted, e.Oldest)
}
func (e *CompactedError) Is(target error) bool { return target == ErrCompacted }

type CorruptError struct{ Path, What, Problem string }

func (e *CorruptError) Error() string { return e.Path + ": " + e.What + ": " + e.Problem }

type Options struct {
	Path         string
	HistoryRevs  int
	HistoryBytes int64
}

type Store struct{}

func Open(o Options) (*Store, error)                                           { return &Store{}, nil }
func (s *Store) Close() error                                                  { return nil }
func (s *Store) View() View                                                    { return View{} }
func (s *Store) Changed() <-chan struct{}                                      { return nil }
func (s *Store) Merge(commits ...Commit) error                                 { return nil }
func (s *Store) At(rev Rev) (View, error)                                      { return View{}, nil }
func (s *Store) History(prefix string, since Rev, limit int) ([]Commit, error) { return nil, nil }
func (s *Store) Watch(prefix string, since Rev) (*Watcher, error)              { return nil, nil }
func (s *Store) Local(name string) ([]byte, bool)                              { return nil, false }
func (s *Store) SetLocal(name string, value []byte) error                      { return nil }
func (s *Store) DeleteLocal(name string) error                                 { return nil }
func (s *Store) LocalUnder(prefix string) iter.Seq2[string, []byte] {
	return func(func(string, []byte) bool) {}
}

type Watcher struct{}

func (w *Watcher) Next(ctx context.Context) (Batch, error) { return Batch{}, nil }
func (w *Watcher) Rev() Rev                                { return Rev{} }

type EventType int

const (
	EventPut EventType = iota
	EventDelete
)

type Event struct {
	Type  EventType
	Entry Entry
}

type Batch struct {
	Rev    Rev
	Events []Event
}
