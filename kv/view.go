package kv

import "iter"

// View is the state at one revision: immutable, ordered by key, safe for any
// number of goroutines, valid for ever. The zero View is empty.
type View struct{}

func (v View) Head() Head                            { return Head{} }
func (v View) Rev() Rev                              { return v.Head().Rev }
func (v View) Len() int                              { return 0 }
func (v View) Get(key Key) (Entry, bool)             { return Entry{}, false }
func (v View) Under(prefix string) iter.Seq[Entry]   { return func(func(Entry) bool) {} }
func (v View) Resolve(t Txn) (Commit, Result, error) { return Commit{}, Result{}, nil }
func (v View) Apply(c Commit) (View, error)          { return v, nil }
