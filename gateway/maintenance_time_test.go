package gateway_test

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway"
	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

// inTime runs a gateway without a network, in fake time.
func inTime(t *testing.T, test func(t *testing.T, f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		store, err := kv.Open(kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		f := newFixture(t, store, gateway.Options{})
		if err := f.gateway.Load(); err != nil {
			t.Fatal(err)
		}
		test(t, f)
		f.gateway.Close()
	})
}

// now writes a key and makes its table.
func (f *fixture) now(key, value string) {
	f.t.Helper()
	commit, _, err := f.store.View().Resolve(kv.Txn{Then: []kv.Op{kv.Put(kv.Key(key), []byte(value))}})
	if err == nil {
		err = f.store.Merge(commit)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.gateway.Refresh()
}

// asked is what a route that answers by itself says now.
func (f *fixture) asked(target string) string {
	x := new(exchange.Exchange)
	x.Reset(f.t.Context())
	x.Request.Method, x.Request.Target, x.Request.Authority = "GET", []byte(target), []byte("h")
	f.gateway.Serve(x)
	defer x.Finish(nil)
	return fmt.Sprint(x.Response.Status, " ", string(x.Response.Fields.Get("Retry-After")))
}

// It ends by itself on each node, by its own clock, whether or not anybody can
// write; the client is not told to come back later than that.
func TestMaintenanceEndsByItself(t *testing.T) {
	inTime(t, func(t *testing.T, f *fixture) {
		f.now("gateway/routes/hello", `{"path":"/hello","respond":{"status":200}}`)
		end := time.Now().Add(time.Hour)
		f.now("gateway/maintenance", `{"enabled":true,"until":`+string(spec.Encode(spec.Time{Time: end}))+`}`)
		for _, step := range []struct {
			left time.Duration
			want string
		}{
			{time.Hour, "503 30"},
			{time.Minute, "503 30"},
			{29500 * time.Millisecond, "503 30"},
			{5 * time.Second, "503 5"},
			{time.Millisecond, "503 1"},
			{0, "200 "},
			{-time.Hour, "200 "},
		} {
			<-time.After(time.Until(end.Add(-step.left)))
			if got := f.asked("/hello"); got != step.want {
				t.Errorf("%s before the end: %s; want %s", step.left, got, step.want)
			}
		}
		if row := f.gateway.Table().Maintenance()[0]; row.State != "ended" {
			t.Errorf("got %+v", row)
		}
		// What is written later begins anew.
		f.now("gateway/maintenance", `{"enabled":true}`)
		if row := f.gateway.Table().Maintenance()[0]; row.State != "on" || row.GraceOver || row.TurnedAway != 0 {
			t.Errorf("got %+v", row)
		}
	})
}

// The grace begins with the maintenance, not with a change of its value, and what
// is late is looked for every second.
func TestGraceOfAMaintenance(t *testing.T) {
	inTime(t, func(t *testing.T, f *fixture) {
		began, moments := time.Now(), []time.Duration{}
		stop := endOverdue(t, f.gateway, func() { moments = append(moments, time.Since(began)) })
		f.now("gateway/maintenance/booking", `{"enabled":true,"grace":"10s"}`)
		synctest.Wait()
		<-time.After(8 * time.Second)
		f.now("gateway/maintenance/booking", `{"enabled":true,"grace":"10s","reason":"more","until":`+string(spec.Encode(spec.Time{Time: began.Add(13 * time.Second)}))+`}`)
		<-time.After(time.Minute)
		stop()
		if got, want := fmt.Sprint(moments), "[10s 11s 12s]"; got != want {
			t.Errorf("recalled at %s; want %s", got, want)
		}
	})
}

// A client is let through by its address, whatever form the listener gives it.
func TestMaintenanceReadsAddresses(t *testing.T) {
	inTime(t, func(t *testing.T, f *fixture) {
		f.now("gateway/routes/hello", `{"path":"/hello","respond":{"status":200}}`)
		f.now("gateway/maintenance", `{"enabled":true,"allow":["10.0.0.0/8","fe80::/16"]}`)
		for client, want := range map[string]int{
			"10.1.2.3": 200, "::ffff:10.1.2.3": 200, "11.1.2.3": 503, "::ffff:11.1.2.3": 503, "fe80::1%eth0": 200, "fe81::1": 503, "": 503,
		} {
			x := new(exchange.Exchange)
			x.Reset(t.Context())
			x.Request.Method, x.Request.Target, x.Request.Authority = "GET", []byte("/hello"), []byte("h")
			x.Request.Client, _ = netip.ParseAddr(client)
			f.gateway.Serve(x)
			if x.Response.Status != want {
				t.Errorf("%q: %d; want %d", client, x.Response.Status, want)
			}
			x.Finish(nil)
		}
	})
}
