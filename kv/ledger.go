package kv

// ledger is the one record that vouches for all others. Every transaction on
// disk rewrites it.
type ledger struct {
	head Head // of the view
	base Head // where the kept history begins
	// entries, local and requests are over the records of these buckets. The
	// history needs none: its hashes chain it from base to head.
	entries, local, requests tally
}

var ledgerName = []byte("ledger")

// encodeLedger writes head, base (each: rev, epoch id, u64 index, hash, 64 bytes
// signature) and the tallies of entries, local and requests (each: u64 count, u64
// sum).
func encodeLedger(l ledger) []byte {
	var e encoder
	e.head(l.head)
	e.head(l.base)
	e.tally(l.entries)
	e.tally(l.local)
	e.tally(l.requests)
	return seal(ledgerVersion, ledgerName, e.buf)
}

func decodeLedger(record []byte) (l ledger, problem string) {
	version, body, problem := unseal(ledgerVersion, ledgerName, record)
	if problem != "" {
		return ledger{}, problem
	}
	d := decoder{rest: body}
	if version == 1 {
		l = ledger{head: d.headV1(), base: d.headV1(), entries: d.tally(), local: d.tally()}
	} else {
		l = ledger{head: d.head(), base: d.head(), entries: d.tally(), local: d.tally(), requests: d.tally()}
	}
	return l, d.end()
}

func (e *encoder) head(h Head) {
	e.rev(h.Rev)
	e.raw(h.EpochID[:])
	e.u64(h.Index)
	e.raw(h.Hash[:])
	e.raw(h.Signature[:])
}

func (d *decoder) head() Head {
	h := d.headV1()
	h.Signature = d.signature()
	return h
}

// headV1 reads a head without a signature.
func (d *decoder) headV1() Head {
	return Head{Rev: d.rev(), EpochID: [16]byte(d.take(16)), Index: d.u64(), Hash: d.hash()}
}

func (e *encoder) tally(t tally) {
	e.u64(t.count)
	e.u64(t.sum)
}

func (d *decoder) tally() tally { return tally{count: d.u64(), sum: d.u64()} }
