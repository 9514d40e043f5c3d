package agent

import (
	"context"
	"io"
	"testing"
	"time"

	"grapevine/kv"
)

// What has ended by itself is taken away, unless somebody has begun another one
// since it was seen.
func TestEndedMaintenanceIsCleared(t *testing.T) {
	a := New(Config{Dev: true, HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0"}, io.Discard)
	if err := a.Open(); err != nil {
		t.Fatal(err)
	}
	defer a.release()
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.gateway.Run(ctx) }()
	defer func() { cancel(); <-ran }()
	const key = "gateway/maintenance/booking"
	write := func(value string) {
		t.Helper()
		result, err := a.writes.Propose(ctx, kv.Txn{Then: []kv.Op{kv.Put(key, []byte(value))}, At: time.Now()})
		if err == nil {
			err = a.gateway.Wait(ctx, result.Rev)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(`{"enabled":true,"until":"2001-01-01T00:00:00Z"}`)
	seen := a.gateway.Table().Maintenance()[0]
	write(`{"enabled":true}`)
	if err := a.clear(ctx, seen); err != nil {
		t.Fatal(err)
	}
	if _, there := a.store.View().Get(key); !there {
		t.Error("another one was taken away")
	}
	write(`{"enabled":true,"until":"2001-01-01T00:00:00Z"}`)
	if err := a.clear(ctx, a.gateway.Table().Maintenance()[0]); err != nil {
		t.Fatal(err)
	}
	if _, there := a.store.View().Get(key); there {
		t.Error("it is still there")
	}
}
