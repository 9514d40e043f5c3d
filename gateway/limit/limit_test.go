package limit_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"grapevine/gateway/exchange"
	"grapevine/gateway/limit"
)

// However many come at once, no more than may be are inside, and none is refused
// where there is room.
func TestGate(t *testing.T) {
	var g limit.Gate
	var inside, most atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2000 {
				if !g.Enter(3) {
					continue
				}
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				inside.Add(-1)
				g.Leave()
			}
		})
	}
	for range 4 { // with nothing between, so that they come at the same time
		all.Go(func() {
			for range 200_000 {
				if g.Enter(3) {
					g.Leave()
				}
			}
		})
	}
	all.Wait()
	if most.Load() > 3 || g.Now() != 0 {
		t.Errorf("there were %d inside, and %d are left", most.Load(), g.Now())
	}
	for i := range 5 {
		if entered := g.Enter(3); entered != (i < 3) {
			t.Errorf("entry %d: %v", i, entered)
		}
	}
	if g.Finished(nil, nil); !g.Enter(3) || g.Enter(3) {
		t.Error("one that left made no room for one")
	}
}

// memory is a body in memory.
type memory struct {
	text string
	*strings.Reader
}

func newMemory(text string) *memory { return &memory{text, strings.NewReader(text)} }

func (m *memory) Buffered() int { return m.Len() }
func (m *memory) Rewind() bool {
	m.Reset(m.text)
	return true
}

func TestBody(t *testing.T) {
	for length := range 12 {
		text := "0123456789ab"[:length]
		for name, from := range map[string]io.Reader{
			"at once": strings.NewReader(text), "by bytes": iotest.OneByteReader(strings.NewReader(text)),
			"with its end": iotest.DataErrReader(strings.NewReader(text)), "in memory": newMemory(text),
		} {
			got, err := io.ReadAll(limit.Body(from, 7))
			tooLarge, ok := errors.AsType[*limit.BodyError](err)
			if ok != (length > 7) || err != nil && !ok || string(got) != text[:min(length, 7)] {
				t.Errorf("%d bytes %s: got %q, %v", length, name, got, err)
			}
			if ok && tooLarge.Most != 7 {
				t.Errorf("it says %d", tooLarge.Most)
			}
		}
	}
}

// What is too large stays so, however often it is read.
func TestBodyEndsOnce(t *testing.T) {
	body := limit.Body(strings.NewReader("abc"), 2)
	if _, err := io.ReadAll(body); err == nil {
		t.Fatal("it is taken")
	}
	if n, err := body.Read(make([]byte, 9)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestBodyInMemory(t *testing.T) {
	body := limit.Body(newMemory("hello"), 5)
	buffered := body.(interface{ Buffered() int })
	if n := buffered.Buffered(); n != 5 {
		t.Errorf("%d bytes are in memory", n)
	}
	if body.(exchange.Rewinder).Rewind() {
		t.Error("it begins anew before its end")
	}
	for range 2 {
		var got bytes.Buffer
		if _, err := got.ReadFrom(body); err != nil || got.String() != "hello" {
			t.Fatalf("got %q, %v", &got, err)
		}
		if !body.(exchange.Rewinder).Rewind() {
			t.Fatal("it does not begin anew")
		}
	}
	large := limit.Body(newMemory("hello"), 4)
	if _, err := io.ReadAll(large); err == nil || large.(exchange.Rewinder).Rewind() {
		t.Errorf("a body that is too large begins anew, %v", err)
	}
	stream := limit.Body(strings.NewReader("hello"), 5)
	if _, err := io.ReadAll(stream); err != nil || stream.(exchange.Rewinder).Rewind() || stream.(interface{ Buffered() int }).Buffered() != 0 {
		t.Errorf("a stream begins anew or is in memory, %v", err)
	}
}
