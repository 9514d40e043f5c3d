package kv

import (
	"slices"
	"sort"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

const (
	// KeptRequests is how many of the newest request ids a store answers for.
	KeptRequests = 4096
	// maxKeptChanged bounds, in bytes, the keys that are kept with an id when its
	// commit has left the history. A longer list is left out.
	maxKeptChanged = 4 << 10
)

// Committed tells what the commit with this request id did, if it is among the
// newest KeptRequests commits that had one: in the history, before it, or in the
// snapshot that was restored. If two commits had the id it is the later one. Of a
// commit that the history no longer holds Changed may be left out, when its keys
// are more than some hundred. A transaction that changed nothing made no commit
// and is not known.
func (s *Store) Committed(id string) (Result, bool) {
	now := s.now.Load()
	done, ok := now.requests.find(id)
	if !ok {
		return Result{}, false
	}
	if commit, ok := now.history.commit(done.result.Rev); ok {
		return commit.result(), true
	}
	result := done.result
	result.Changed = slices.Clone(result.Changed)
	return result, true
}

// request is what remains of a commit that had an id. It is immutable.
type request struct {
	id     string
	result Result
}

func (c Commit) request() *request {
	r := &request{id: c.ID, result: c.result()}
	size := 0
	for _, key := range r.result.Changed {
		size += len(key)
	}
	if size > maxKeptChanged {
		r.result.Changed = nil
	}
	return r
}

// requests are the newest KeptRequests of a store. They depend on the commits
// alone and not on how much history is kept, so that stores which merged the same
// ones agree. Like history, they are immutable and may be extended once.
type requests struct {
	byID    *iradix.Tree[*request] // nil if there are none
	ordered []*request             // by revision
}

func (r requests) find(id string) (*request, bool) {
	if r.byID == nil {
		return nil, false
	}
	return r.byID.Get([]byte(id))
}

// extend appends the requests of steps and drops the oldest that are too many.
func (r requests) extend(steps []*step) requests {
	var added []*request
	for _, s := range steps {
		if s.commit.ID != "" {
			added = append(added, s.commit.request())
		}
	}
	return r.with(added)
}

func (r requests) with(added []*request) requests {
	if len(added) == 0 {
		return r
	}
	if r.byID == nil {
		r.byID = iradix.New[*request]()
	}
	ids := r.byID.Txn()
	for _, one := range added {
		ids.Insert([]byte(one.id), one)
	}
	r.ordered = append(r.ordered, added...)
	tooMany := max(0, len(r.ordered)-KeptRequests)
	for _, old := range r.ordered[:tooMany] {
		// A later commit with the same id stays.
		if last, _ := ids.Get([]byte(old.id)); last == old {
			ids.Delete([]byte(old.id))
		}
	}
	r.ordered = r.ordered[tooMany:]
	r.byID = ids.CommitOnly()
	return r
}

// until gives the requests up to rev.
func (r requests) until(rev Rev) []*request {
	n := sort.Search(len(r.ordered), func(i int) bool { return r.ordered[i].result.Rev.Compare(rev) > 0 })
	return r.ordered[:n:n]
}

// reach reports whether rev is not before the oldest request.
func (r requests) reach(rev Rev) bool {
	return len(r.ordered) > 0 && rev.Compare(r.ordered[0].result.Rev) >= 0
}

// request writes a request without its revision: string ID, flag Succeeded, u32
// deleted, u32 number of changed keys, string each.
func (e *encoder) request(r *request) {
	e.string(r.id)
	e.flag(r.result.Succeeded)
	e.u32(uint32(r.result.Deleted))
	e.u32(uint32(len(r.result.Changed)))
	for _, key := range r.result.Changed {
		e.string(string(key))
	}
}

func (d *decoder) request(rev Rev) *request {
	r := &request{id: d.string(), result: Result{Rev: rev, Succeeded: d.flag(), Deleted: int(d.u32())}}
	for range d.count(len("1234")) {
		r.result.Changed = append(r.result.Changed, Key(d.string()))
	}
	return r
}

func encodeRequest(r *request) []byte {
	var e encoder
	e.request(r)
	return seal(requestVersion, revName(r.result.Rev), e.buf)
}

func decodeRequest(name, record []byte) (r *request, problem string) {
	_, body, problem := unseal(requestVersion, name, record)
	if problem != "" {
		return nil, problem
	}
	at := decoder{rest: name}
	rev := at.rev()
	d := decoder{rest: body}
	r = d.request(rev)
	if problem = at.end(); problem != "" {
		return nil, "has a name that " + problem
	}
	return r, d.end()
}
