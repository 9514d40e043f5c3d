package accesslog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

func answered() *exchange.Exchange {
	x := &exchange.Exchange{
		Started: time.Now(), CorrelationID: "3502f87e7f11623b721f48f97da1d7ef", Route: "shop", Cluster: "shop",
		Destination: "http://10.0.0.1:8080", Attempts: 1, BytesOut: 1234, Upstream: 1500 * time.Microsecond,
		Asked: []byte("/api/v1/items/42?token=secret&b=2"),
	}
	x.Request = exchange.Request{
		Method: "GET", Authority: []byte("shop.example.com"), Protocol: "1.1", Scheme: "https", Client: netip.MustParseAddr("10.1.2.3"),
		Fields: exchange.Fields{
			{Name: []byte("User-Agent"), Value: []byte(`a "b"`)},
			{Name: []byte("Authorization"), Value: []byte("Bearer secret")},
			{Name: []byte("Referer"), Value: []byte("https://x.example.com/p?q=secret")},
		},
	}
	x.Response.Status = 200
	return x
}

func line(t *testing.T, section string, x *exchange.Exchange, err error) map[string]any {
	t.Helper()
	d, decodeErr := spec.Decode("gateway/config/logging", []byte(section), spec.FormJSON)
	if decodeErr != nil {
		t.Fatal(decodeErr)
	}
	var out bytes.Buffer
	l := New(&out)
	if p := NewPolicy(d.Value.(*spec.Logging).Access); p != nil {
		l.Log(p, x, err)
	}
	if _, err := l.flush(nil); err != nil {
		t.Fatal(err)
	}
	if out.Len() == 0 {
		return nil
	}
	var doc map[string]any
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if strings.Contains(out.String(), "secret") {
		t.Errorf("a secret is in %s", out.String())
	}
	return doc
}

func TestLine(t *testing.T) {
	doc := line(t, `{"access":{}}`, answered(), nil)
	for name, want := range map[string]any{
		"level": "INFO", "msg": "request", "method": "GET", "host": "shop.example.com", "path": "/api/v1/items/42", "protocol": "1.1", "scheme": "https",
		"client": "10.1.2.3", "status": 200.0, "reason": "", "route": "shop", "cluster": "shop", "destination": "http://10.0.0.1:8080",
		"attempts": 1.0, "bytesIn": 0.0, "bytesOut": 1234.0, "upstreamMs": 1.5, "correlationId": "3502f87e7f11623b721f48f97da1d7ef",
	} {
		if doc[name] != want {
			t.Errorf("%s is %v; want %v", name, doc[name], want)
		}
	}
	for _, name := range []string{"userAgent", "parameters", "referer", "peer"} {
		if _, there := doc[name]; there {
			t.Errorf("%s is there unasked", name)
		}
	}
	if _, err := time.Parse(time.RFC3339, doc["time"].(string)); err != nil {
		t.Error(err)
	}
	doc = line(t, `{"access":{"fields":["userAgent","parameters","referer","peer"]}}`, answered(), nil)
	if doc["userAgent"] != `a "b"` || doc["parameters"] != "token,b" || doc["referer"] != "https://x.example.com/p" || doc["peer"] != "" || doc["method"] != nil {
		t.Errorf("asked fields: %v", doc)
	}
}

func TestHostileText(t *testing.T) {
	x := answered()
	x.Asked = []byte("/a\"\\\n\x00\xff\u2028")
	if doc := line(t, `{"access":{}}`, x, nil); doc["path"] != "/a\"\\\n\x00\ufffd\u2028" {
		t.Errorf("path %q", doc["path"])
	}
}

// What went well is sampled, what did not is always there and says why.
func TestSampling(t *testing.T) {
	const none = `{"access":{"sample":0}}`
	if doc := line(t, none, answered(), nil); doc != nil {
		t.Errorf("written: %v", doc)
	}
	if doc := line(t, `{"access":{"enabled":false}}`, answered(), errors.New("x")); doc != nil {
		t.Errorf("written though switched off: %v", doc)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tt := range map[string]struct {
		change func(*exchange.Exchange)
		err    error
		status float64
		reason string
	}{
		"not found":   {func(x *exchange.Exchange) { x.Response.Status = 404 }, nil, 404, ""},
		"our own":     {func(x *exchange.Exchange) { x.Response.Status, x.Reason = 504, "timeout" }, nil, 504, "timeout"},
		"client left": {func(x *exchange.Exchange) { x.Response.Status, x.Reason = 0, "client_gone" }, nil, 499, "client_gone"},
		"broke off":   {func(*exchange.Exchange) {}, io.ErrUnexpectedEOF, 200, "response_broken"},
		"left at 2/3": {func(x *exchange.Exchange) { x.Reset(gone); x.Response.Status = 200 }, io.ErrClosedPipe, 200, "client_gone"},
	} {
		x := answered()
		tt.change(x)
		doc := line(t, none, x, tt.err)
		if doc == nil || doc["status"] != tt.status || doc["reason"] != tt.reason {
			t.Errorf("%s: %v; want %v %q", name, doc, tt.status, tt.reason)
		}
	}
	p := NewPolicy(&spec.AccessLog{Sample: new(25.0)})
	taken := 0
	for range 10_000 {
		if p.wants(answered(), nil) {
			taken++
		}
	}
	if taken < 2200 || taken > 2800 {
		t.Errorf("%d of 10000 at 25 %%", taken)
	}
}

// stuck is an output that takes nothing until it is let go.
type stuck struct {
	release chan struct{}
	bytes   int
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.release
	s.bytes += len(p)
	return len(p), nil
}

// An output that hangs holds nobody up, and memory is bounded.
func TestStuckOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{release: make(chan struct{})}
		l, p := New(out), NewPolicy(&spec.AccessLog{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		for range 50_000 {
			l.Log(p, answered(), nil)
		}
		synctest.Wait()
		if l.Dropped() == 0 || len(l.pending) > maxPending+4096 {
			t.Errorf("%d dropped, %d bytes are waiting", l.Dropped(), len(l.pending))
		}
		close(out.release)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if out.bytes < maxPending || len(l.pending) > 0 {
			t.Errorf("%d bytes were written, %d are left", out.bytes, len(l.pending))
		}
	})
}

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l, p := New(&out), NewPolicy(&spec.AccessLog{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		l.Log(p, answered(), nil)
		<-time.After(flushEvery + time.Millisecond) // in fake time
		synctest.Wait()
		if strings.Count(out.String(), "\n") != 1 {
			t.Errorf("after %s: %q", flushEvery, out.String())
		}
		l.Log(p, answered(), nil)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if strings.Count(out.String(), "\n") != 2 {
			t.Errorf("at the end: %q", out.String())
		}
	})
}

func BenchmarkLog(b *testing.B) {
	l, p, x := New(io.Discard), NewPolicy(&spec.AccessLog{}), answered()
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	b.ReportAllocs()
	for b.Loop() {
		l.Log(p, x, nil)
	}
	cancel()
	<-done
}
