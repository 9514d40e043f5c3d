package kv

// Keep writes the present state beside the store's file, synced, as Restore does with one of another epoch
// that it replaces: lkg-EPOCH-REV.snap, for ReadSnapshot. A store in memory keeps nothing.
// Errors: ErrClosed, ErrDiskFull, or why it could not be written.
func (s *Store) Keep() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	switch {
	case s.isClosed():
		return ErrClosed
	case s.disk == nil:
		return nil
	}
	return s.disk.keep(s.now.Load())
}
