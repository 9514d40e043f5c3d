package agenttest_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"grapevine/gateway"
	"grapevine/kv"
)

// stuckSource is a store in which whoever asks it has to wait, as for a lock that is never given back.
type stuckSource struct {
	*kv.Store
	lock chan struct{} // has room for the one who has it
}

func (s *stuckSource) View() kv.View {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	return s.Store.View()
}

func (s *stuckSource) Changed() <-chan struct{} {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	return s.Store.Changed()
}

// The way of a request shares no lock with the store, nor with what spreads it: requests are answered while nobody
// gets anything out of the store.
func TestRequestsNeedNoStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := kv.Open(kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		write := func(i int) {
			t.Helper()
			commit, _, err := store.View().Resolve(kv.Txn{By: "test", Then: []kv.Op{
				kv.Put("gateway/routes/a", []byte(fmt.Sprintf(`{"path":"/a","respond":{"status":200,"body":"%d"}}`, i))),
			}})
			if err == nil {
				err = store.Merge(commit)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		write(1)
		source := &stuckSource{Store: store, lock: make(chan struct{}, 1)}
		g := gateway.New(gateway.Options{Source: source, Keeper: store, Logger: slog.New(slog.DiscardHandler)})
		defer g.Close()
		if err := g.Load(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		get := func() string {
			w := httptest.NewRecorder()
			g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://x/a", nil))
			return w.Body.String()
		}
		synctest.Wait()
		source.lock <- struct{}{}
		write(2)
		synctest.Wait() // Run waits for the lock, and whoever is stuck would be, too
		for range 100 {
			if got := get(); got != "1" {
				t.Fatalf("while the store is stuck: %q", got)
			}
		}
		<-source.lock
		stop()
		<-done
	})
}
