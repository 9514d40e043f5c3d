package announcing_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/agent/announcing"
	"grapevine/gateway/spec"
)

func TestALeaseIsItsConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		lease, accepted, err := n.Announce(t.Context(), n.parse("one", `,"startedAt":"2026-01-02T03:04:05Z"`), "")
		if err != nil {
			t.Fatal(err)
		}
		if accepted.Lease == "" || accepted.RouteID != "shop" || accepted.InstanceID != "one" || accepted.Incarnation == 0 ||
			accepted.Key != "gateway/instances/shop/one" || string(accepted.Effective) != `{"id":"shop"}` || !slices.Equal(accepted.Notices, []string{"a notice"}) {
			t.Errorf("accepted %+v", accepted)
		}
		want := `{"address":"http://10.0.0.5:80","path":"/shop/{**rest}","region":"eu","startedAt":"2026-01-02T03:04:05Z"}` // the node's region
		if got, draining := n.stored("one"); got != want || draining {
			t.Errorf("stored %s, draining %v, want %s", got, draining, want)
		}
		lease.Close()
		if got, _ := n.stored("one"); got != "" {
			t.Errorf("after its connection ended %s is stored", got)
		}
		if _, err := n.Lease(accepted.Lease); err == nil {
			t.Error("an ended lease is found")
		}
		lease.Close() // nothing happens
	})
}

// An instance that says where it is knows that better than its agent.
func TestRegionOfAnInstance(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.announce("one", `,"region":"us"`)
		if got, _ := n.stored("one"); !strings.Contains(got, `"region":"us"`) {
			t.Errorf("stored %s", got)
		}
	})
}

func TestAppliedIsToldAsItGrows(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		lease := n.announce("one", "")
		applied := func(nodes, of int) {
			t.Helper()
			all := events(t, lease)
			if want := (announcing.Applied{Event: "applied", Nodes: nodes, Of: of}); len(all) != 1 || all[0] != want {
				t.Errorf("got %v, want %v", all, want)
			}
		}
		applied(0, 3)
		n.gateways.confirm("b")
		applied(1, 3)
		n.gateways.live("a", "b") // c has died
		applied(1, 2)
		n.gateways.confirm("a")
		applied(2, 2)
		n.gateways.live("a", "b", "d") // d has come
		applied(2, 3)
	})
}

// The same instance on a newer connection: the older one is told, and the key stays.
func TestANewConnectionSupersedes(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		first := n.announce("one", "")
		watch := n.store.OwnerChanged()
		value, _ := n.stored("one")
		second := n.announce("one", "")
		select {
		case <-watch:
			t.Error("announcing the same again has changed something")
		default:
		}
		if all := events(t, first); len(all) == 0 || all[len(all)-1].(announcing.Ended).Event != "superseded" {
			t.Errorf("the first connection got %v", all)
		}
		first.Close()
		if got, _ := n.stored("one"); got != value {
			t.Errorf("when the first connection ended, %q is stored, want %q", got, value)
		}
		second.Close()
		if got, _ := n.stored("one"); got != "" {
			t.Errorf("when the second connection ended, %q is stored", got)
		}
	})
}

// Not before twice and three times the interval, and only once heartbeats have begun.
func TestHeartbeats(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		lease := n.announce("one", `,"heartbeat":"10s"`)
		at := func(d time.Duration, want string) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			if got := n.status("one"); got != want {
				t.Errorf("the status is %q, want %q", got, want)
			}
		}
		beat := func(h announcing.Heartbeat, want string) {
			t.Helper()
			if got, err := lease.Beat(h); err != nil || got != want {
				t.Errorf("a heartbeat is answered with %q, %v, want %q", got, err, want)
			}
		}
		healthy, degraded, inFlight := "healthy", "degraded", int64(3)
		beat(announcing.Heartbeat{InFlight: &inFlight}, "healthy")
		at(time.Hour, "") // no status was ever said
		beat(announcing.Heartbeat{Status: &healthy}, "healthy")
		at(20*time.Second-1, "")
		at(1, "degraded")
		at(10*time.Second-1, "degraded")
		at(1, "unhealthy")
		at(time.Hour, "unhealthy")
		beat(announcing.Heartbeat{InFlight: &inFlight}, "healthy")
		at(19*time.Second, "")
		beat(announcing.Heartbeat{Status: &degraded}, "degraded")
		at(0, "degraded")
		var statuses []string
		for _, e := range events(t, lease) {
			if s, ok := e.(announcing.StatusChange); ok {
				statuses = append(statuses, s.Status)
			}
		}
		if !slices.Equal(statuses, []string{"degraded"}) { // a newer one takes the place of one that was not read
			t.Errorf("told %v", statuses)
		}
		lease.Close()
		at(time.Hour, "gone")
	})
}

func TestHeartbeatsAreChecked(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		lease := n.announce("one", "")
		status, weight, rate, number := "dead", -1, 1.5, int64(-1)
		_, err := lease.Beat(announcing.Heartbeat{Status: &status, Weight: &weight, ErrorRate: &rate, InFlight: &number})
		var invalid *announcing.InvalidError
		if !errors.As(err, &invalid) || strings.Count(err.Error(), "\n") != 3 {
			t.Errorf("%v", err)
		}
		weight = 7
		if _, err := lease.Beat(announcing.Heartbeat{Weight: &weight}); err != nil {
			t.Error(err)
		}
		if value, _ := n.stored("one"); !strings.Contains(value, `"weight":7`) {
			t.Errorf("stored %s", value)
		}
	})
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, 2)
		n.announce("one", "")
		n.announce("two", "")
		_, _, err := n.Announce(t.Context(), n.parse("three", ""), "")
		var many *announcing.TooManyError
		if !errors.As(err, &many) || many.Most != 2 {
			t.Errorf("a third gets %v", err)
		}
		n.announce("two", "") // it is no further one
	})
}

// An agent that stops says so and keeps what was announced.
func TestStoppingKeepsTheKeys(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		lease := n.announce("one", "")
		n.Close()
		all := events(t, lease)
		if last, ok := all[len(all)-1].(announcing.Ended); !ok || last.Event != "restarting" {
			t.Errorf("got %v", all)
		}
		lease.Close()
		if got, _ := n.stored("one"); got == "" {
			t.Error("the instance is gone")
		}
		var stopping *announcing.StoppingError
		if _, _, err := n.Announce(t.Context(), n.parse("two", ""), ""); !errors.As(err, &stopping) {
			t.Errorf("a new one gets %v", err)
		}
	})
}

func policy(t *testing.T, text string) *spec.Announce {
	t.Helper()
	d, err := spec.Decode("gateway/config/announce", []byte(text), spec.FormJSON)
	if err != nil {
		t.Fatal(err)
	}
	return d.Value.(*spec.Announce)
}

func TestPolicy(t *testing.T) {
	token := announcing.HashToken("secret")
	grants := fmt.Sprintf(`{"default":"deny","grants":[{"token":%q,"routes":["sh*"],"paths":["/shop/**"]}]}`, token)
	for _, c := range []struct {
		policy, token, path string
		allowed             bool
	}{
		{`{}`, "", "/shop/{**rest}", true},
		{`{"default":"deny"}`, "", "/shop/{**rest}", false},
		{`{"default":"allow"}`, "", "/shop/{**rest}", true},
		{grants, "", "/shop/{**rest}", false},
		{grants, announcing.HashToken("other"), "/shop/{**rest}", false},
		{grants, token, "/shop/{**rest}", true},
		{grants, token, "/shop", true},
		{grants, token, "/shop/a/{b}", true},
		{grants, token, "/shopping/{**rest}", false},
		{grants, token, "/other/{**rest}", false},
		{strings.Replace(grants, "sh*", "sho", 1), token, "/shop/{**rest}", false},
		{strings.Replace(grants, "sh*", "SHOP", 1), token, "/shop/{**rest}", true},
		{strings.Replace(grants, "/shop/**", "/shop/a", 1), token, "/shop/a", true},
		{strings.Replace(grants, "/shop/**", "/shop/a", 1), token, "/shop/a/b", false},
	} {
		bubble(t, func(t *testing.T, n *node) {
			n.SetPolicy(policy(t, c.policy))
			a, err := announcing.Parse(fmt.Appendf(nil, `{"routeId":"shop","path":%q,"address":"http://10.0.0.5:80"}`, c.path))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = n.Announce(t.Context(), a, c.token)
			var denied *announcing.DeniedError
			if (err == nil) != c.allowed || err != nil && !errors.As(err, &denied) {
				t.Errorf("%s: path %s: %v", c.policy, c.path, err)
			}
		})
	}
}

// Who may not any more is withdrawn, and told why.
func TestAPolicyThatChangesWithdraws(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		lease := n.announce("one", "")
		n.SetPolicy(policy(t, `{"default":"deny"}`))
		all := events(t, lease)
		last, ok := all[len(all)-1].(announcing.Ended)
		if !ok || last.Event != "withdrawn" || !strings.Contains(last.Reason, `route "shop"`) {
			t.Errorf("got %v", all)
		}
		if got, _ := n.stored("one"); got != "" {
			t.Errorf("%s is stored", got)
		}
	})
}

func TestParseTellsAllFaults(t *testing.T) {
	_, err := announcing.Parse([]byte(`{"path":"/","adress":"x","weight":"1","tunnel":true}`))
	var faults spec.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"routeId: is missing", "root", "adress", "weight", "tunnel"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: lacks %q", err, want)
		}
	}
	for _, bad := range []string{`{`, `[]`, `null`, ``, `{"routeId":1}`, `{"routeId":"a","instanceId":"b/c","path":"/a","address":"http://a:1"}`, `{"routeId":"a","path":"/a","address":"http://a:1","routeId":"b"}`} {
		if _, err := announcing.Parse([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	a, err := announcing.Parse([]byte(`{"RouteId":"Shop","instance_id":"x-1","path":"/a","address":"http://a:1"}`))
	if err != nil || a.Route != "shop" || a.ID != "x-1" || a.Key != "gateway/instances/shop/x-1" || !reflect.DeepEqual(a.Instance.InstanceID, "") {
		t.Errorf("%+v, %v", a, err)
	}
}

// What is announced comes from the network.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"routeId":"shop","instanceId":"x","path":"/shop/{**rest}","address":"http://10.0.0.5:80"}`))
	f.Add([]byte(`{"RouteId":"a/b","path":"/","heartbeat":"1s"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := announcing.Parse(data)
		if err != nil {
			return
		}
		again, err := announcing.Parse(fmt.Appendf(nil, `{"routeId":%q,"instanceId":%q,%s`, a.Route, a.ID, spec.Encode(&a.Instance)[1:]))
		if err != nil || again.Key != a.Key {
			t.Errorf("%s is %s, and read again %s, %v", data, a.Key, again.Key, err)
		}
	})
}
