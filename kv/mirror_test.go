package kv_test

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"grapevine/kv"
)

// mirrorModel is what a mirror was told, naively.
type mirrorModel map[kv.Key]kv.Entry

func (m mirrorModel) tell(e kv.Event) {
	if e.Type == kv.EventDelete {
		delete(m, e.Entry.Key)
	} else {
		m[e.Entry.Key] = e.Entry
	}
}

func (m mirrorModel) entries() []kv.Entry { return slices.Collect(maps.Values(m)) }

func randomEvent(r *rand.Rand, rev kv.Rev) kv.Event {
	e := kv.Event{Entry: kv.Entry{Key: kv.Key("gateway/routes/" + string('a'+rune(r.IntN(6)))), ModRev: rev, Value: []byte{byte('0' + r.IntN(3))}}}
	if r.IntN(2) == 0 {
		e.Entry.Key = kv.Key("gateway/instances/r/" + string('a'+rune(r.IntN(6))))
		e.Entry.Own = &kv.Ownership{Owner: "n1", Mark: kv.OwnerMark{Incarnation: 1, Seq: r.Uint64N(4) + 1}, Draining: r.IntN(2) == 0}
	}
	if r.IntN(4) == 0 {
		e.Type = kv.EventDelete
	}
	return e
}

// A mirror shows what it was told, in both planes, and every view says rightly what changed since each one before it.
func TestMirrorShowsWhatItIsTold(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		mirror, model := kv.NewMirror(), mirrorModel{}
		views := []kv.View{mirror.View()}
		for step := range uint64(30) {
			rev := kv.Rev{Epoch: 1, Rev: step/2 + 1}
			var events []kv.Event
			for range r.IntN(4) {
				events = append(events, randomEvent(r, rev))
				model.tell(events[len(events)-1])
			}
			err := mirror.Apply(rev, events)
			if r.IntN(5) == 0 {
				delete(model, kv.Key("gateway/routes/a"))
				err = errors.Join(err, mirror.Replace(rev, [16]byte{1 + byte(r.IntN(2))}, model.entries()))
			}
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			views = append(views, mirror.View())
			checkMirror(t, seed, views, model)
		}
	}
}

func checkMirror(t *testing.T, seed uint64, views []kv.View, model mirrorModel) {
	t.Helper()
	now := views[len(views)-1]
	if got := now.Len() + now.LenOwned(); got != len(model) {
		t.Fatalf("seed %d: shows %d keys, want %d", seed, got, len(model))
	}
	for key, want := range model {
		got, there := now.Get(key)
		if !there || !bytes.Equal(got.Value, want.Value) || (want.Own == nil) != (got.Own == nil) || want.Own != nil && *got.Own != *want.Own {
			t.Fatalf("seed %d: %s is %+v, want %+v", seed, key, got, want)
		}
	}
	for _, before := range views {
		changed, ok := now.ChangedSince(before)
		if !ok || !slices.IsSorted(changed) {
			t.Fatalf("seed %d: changed %v, %v", seed, changed, ok)
		}
		for _, view := range []kv.View{before, now} {
			for e := range view.Under("") {
				was, a := before.Get(e.Key)
				is, b := now.Get(e.Key)
				if same := a == b && bytes.Equal(was.Value, is.Value) && was.ModRev == is.ModRev; !same && !slices.Contains(changed, e.Key) {
					t.Fatalf("seed %d: %s changed from %+v to %+v, and is not among %v", seed, e.Key, was, is, changed)
				}
			}
		}
	}
}

// What is told again changes nothing, and wakes nobody.
func TestMirrorKeepsWhatIsTheSame(t *testing.T) {
	mirror := kv.NewMirror()
	owner := kv.Ownership{Owner: "n1", Mark: kv.OwnerMark{Incarnation: 1, Seq: 1}}
	entries := func() []kv.Entry {
		own := owner
		return []kv.Entry{
			{Key: "gateway/routes/a", Value: []byte("1"), ModRev: kv.Rev{Epoch: 1, Rev: 1}},
			{Key: "gateway/instances/r/a", Value: []byte("1"), Own: &own, ModRev: kv.Rev{Rev: rand.Uint64()}},
		}
	}
	replace := func() {
		t.Helper()
		if err := mirror.Replace(kv.Rev{Epoch: 1, Rev: 1}, [16]byte{1}, entries()); err != nil {
			t.Fatal(err)
		}
	}
	replace()
	before, changed := mirror.View(), mirror.Changed()
	replace()
	if !mirror.View().Is(before) || mirror.Changed() != changed {
		t.Error("the same state is another view")
	}
	owner.Orphaned = true
	replace()
	select {
	case <-changed:
	default:
		t.Error("nobody was told of an orphan")
	}
	if got, _ := mirror.View().ChangedSince(before); !slices.Equal(got, []kv.Key{"gateway/instances/r/a"}) {
		t.Errorf("changed %v", got)
	}
}

// What no store shows is refused, and with it all that came with it.
func TestMirrorRefuses(t *testing.T) {
	own := &kv.Ownership{Owner: "n1"}
	for name, entry := range map[string]kv.Entry{
		"no key":              {},
		"a bad key":           {Key: "gateway/../x"},
		"nobody's instance":   {Key: "gateway/instances/r/a"},
		"somebody's route":    {Key: "gateway/routes/a", Own: own},
		"a strange owner":     {Key: "gateway/instances/r/a", Own: &kv.Ownership{Owner: "../x"}},
		"a large value":       {Key: "gateway/routes/a", Value: make([]byte, kv.MaxValueBytes+1)},
		"a large owned value": {Key: "gateway/instances/r/a", Own: own, Value: make([]byte, kv.MaxOwnedValueBytes+1)},
	} {
		mirror := kv.NewMirror()
		before := mirror.View()
		good := kv.Event{Entry: kv.Entry{Key: "gateway/routes/good", Value: []byte("1")}}
		if err := mirror.Apply(kv.Rev{Epoch: 1, Rev: 1}, []kv.Event{good, {Entry: entry}}); err == nil || !mirror.View().Is(before) {
			t.Errorf("%s: taken (%v)", name, err)
		}
		if err := mirror.Replace(kv.Rev{Epoch: 1, Rev: 1}, [16]byte{}, []kv.Entry{good.Entry, entry}); err == nil || !mirror.View().Is(before) {
			t.Errorf("%s: taken as a whole (%v)", name, err)
		}
	}
	mirror := kv.NewMirror()
	if err := mirror.Apply(kv.Rev{Epoch: 1, Rev: 2}, nil); err != nil {
		t.Fatal(err)
	}
	if err := mirror.Apply(kv.Rev{Epoch: 1, Rev: 1}, nil); !errors.Is(err, kv.ErrGap) {
		t.Errorf("a step back: %v", err)
	}
}

// A watcher that follows a view gets all that comes after it, of both planes, and nothing that is in it.
func TestFollowBeginsAtItsView(t *testing.T) {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	own, err := store.Own("n1")
	if err == nil {
		_, err = own.Begin(0)
	}
	if err == nil {
		err = own.Put("gateway/instances/r/a", []byte("1"))
	}
	if err != nil {
		t.Fatal(err)
	}
	view, watcher := store.Follow("gateway")
	if _, there := view.Get("gateway/instances/r/a"); !there {
		t.Error("the view lacks what was there")
	}
	if err := own.Withdraw("gateway/instances/r/a"); err != nil {
		t.Fatal(err)
	}
	batch, err := watcher.Next(t.Context())
	if err != nil || len(batch.Events) != 1 || batch.Events[0].Type != kv.EventDelete || batch.Events[0].Entry.Key != "gateway/instances/r/a" {
		t.Errorf("got %+v, %v", batch, err)
	}
}
