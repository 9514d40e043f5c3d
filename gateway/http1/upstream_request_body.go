package http1

// Buffered is how much of the body is in memory, so that an upstream can send it
// with the head (see Buffered). What is in chunks is not counted before the size
// of its chunk was read.
func (b *requestBody) Buffered() int {
	if !b.mu.TryLock() { // somebody reads
		return 0
	}
	defer b.mu.Unlock()
	if b.stopped || b.err != nil {
		return 0
	}
	left := b.left
	if b.framing == ByChunks {
		left = b.chunks.Data()
	}
	return int(min(int64(b.t.ahead()), left))
}
