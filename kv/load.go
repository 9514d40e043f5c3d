package kv

import (
	"bytes"
	"fmt"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
	bolt "go.etcd.io/bbolt"
)

// loadInto reads all records and checks them against the ledger.
func (d *disk) loadInto(found *contents) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) (err error) {
		for _, name := range buckets {
			if tx.Bucket(name) == nil {
				return corrupt("is missing", "bucket %q", name)
			}
		}
		var problem string
		if d.ledger, problem = decodeLedger(tx.Bucket(bucketMeta).Get(ledgerName)); problem != "" {
			return corrupt(problem, "the ledger")
		}
		if found.view, err = loadView(tx, d.ledger); err != nil {
			return err
		}
		if found.history, err = loadHistory(tx, d.ledger); err != nil {
			return err
		}
		if found.requests, err = loadRequests(tx, d.ledger, found.history); err != nil {
			return err
		}
		found.local, err = loadLocal(tx, d.ledger)
		return err
	}
}

func loadView(tx *bolt.Tx, l ledger) (View, error) {
	keys, seen := View{}.begin(), tally{}
	err := tx.Bucket(bucketEntries).ForEach(func(key, record []byte) error {
		entry, problem := decodeEntry(Key(key), record)
		if problem != "" {
			return corrupt(problem, "the record of key %q", key)
		}
		seen.add(record)
		keys.Insert([]byte(entry.Key), &entry) // not key: that is memory of the mapped file
		return nil
	})
	if err == nil && seen != l.entries {
		err = corrupt(fmt.Sprintf("are not those of revision %s: there are %d of %d", l.head.Rev, seen.count, l.entries.count), "the entries")
	}
	return View{head: l.head, keys: keys.CommitOnly()}, err
}

func loadHistory(tx *bolt.Tx, l ledger) (history, error) {
	h := history{base: l.base}
	err := tx.Bucket(bucketHistory).ForEach(func(name, record []byte) error {
		s, problem := decodeStep(name, record)
		if problem != "" {
			return corrupt(problem, "the record %x of the history", name)
		}
		if err := (View{head: h.head()}).follows(s.commit); err != nil {
			return corrupt("does not follow: "+err.Error(), "the history")
		}
		h = h.extend(s)
		return nil
	})
	if err == nil && h.head() != l.head {
		err = corrupt(fmt.Sprintf("ends at revision %s instead of %s", h.head().Rev, l.head.Rev), "the history")
	}
	return h, err
}

// loadRequests reads those from before the history and takes the rest from it.
func loadRequests(tx *bolt.Tx, l ledger, h history) (requests, error) {
	var before []*request
	seen := tally{}
	read := func(name, record []byte) error {
		r, problem := decodeRequest(name, record)
		if problem == "" && r.result.Rev.Compare(h.base.Rev) > 0 {
			problem = "is not from before the history"
		}
		if problem != "" {
			return corrupt(problem, "the record %x of the request ids", name)
		}
		seen.add(record)
		before = append(before, r)
		return nil
	}
	var err error
	if bucket := tx.Bucket(bucketRequests); bucket != nil {
		err = bucket.ForEach(read)
	}
	if err == nil && seen != l.requests {
		err = corrupt(fmt.Sprintf("are not the last ones: there are %d of %d", seen.count, l.requests.count), "the request ids")
	}
	return requests{}.with(before).extend(h.steps), err
}

func loadLocal(tx *bolt.Tx, l ledger) (*iradix.Tree[[]byte], error) {
	names, seen := iradix.New[[]byte]().Txn(), tally{}
	err := tx.Bucket(bucketLocal).ForEach(func(name, record []byte) error {
		_, value, problem := unseal(localVersion, name, record)
		if problem != "" {
			return corrupt(problem, "the record of local name %q", name)
		}
		seen.add(record)
		names.Insert(bytes.Clone(name), append([]byte{}, value...)) // both are memory of the mapped file
		return nil
	})
	if err == nil && seen != l.local {
		err = corrupt(fmt.Sprintf("are not the last ones: there are %d of %d", seen.count, l.local.count), "the local values")
	}
	return names.CommitOnly(), err
}
