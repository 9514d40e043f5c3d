package agenttest_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"grapevine/agent/agenttest"
	"grapevine/agent/announcing"
	"grapevine/kv"
)

// leasesOf are leases at a node, as an agent has them, until the returned function ends them as a crash does.
func leasesOf(t *testing.T, n *agenttest.Simulated) (*announcing.Leases, func()) {
	t.Helper()
	o := announcing.Options{Node: kv.OwnerID(n.ID), Own: owns(t, n), Store: n.Store, Gateways: n.Cluster, Logger: slog.New(slog.DiscardHandler)}
	if n.Gateway != nil {
		o.Gateway = n.Gateway
	}
	leases := announcing.New(o)
	done := make(chan struct{})
	go func() { _ = leases.Run(); close(done) }()
	return leases, func() { leases.Close(); <-done }
}

func lease(t *testing.T, l *announcing.Leases, id string) *announcing.Lease {
	t.Helper()
	return leaseOf(t, l, "shop", id, "10.9.0.1:80")
}

func leaseOf(t *testing.T, l *announcing.Leases, route, id, address string) *announcing.Lease {
	t.Helper()
	a, err := announcing.Parse(fmt.Appendf(nil, `{"routeId":%q,"instanceId":%q,"path":"/%s/{**rest}","address":"http://%s"}`, route, id, route, address))
	if err != nil {
		t.Fatal(err)
	}
	taken, _, err := l.Announce(t.Context(), a, "")
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// A gateway that has just died is not waited for once membership says so, and until then it is named.
func TestDrainWithADeadGateway(t *testing.T) {
	simulate(t, 3, 0, func(t *testing.T, s *agenttest.Simulation) {
		leases, end := leasesOf(t, s.Nodes[0])
		defer end()
		one := lease(t, leases, "one")
		awaitSeen(t, s, "one", "active", 10*time.Second)
		s.Nodes[2].Crash()
		drain := func(d time.Duration) announcing.Handshake {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			h, err := one.Drain(ctx, announcing.ByClient, "it ends")
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		if h := drain(500 * time.Millisecond); h.Confirmed != 2 || h.Of != 3 || len(h.Stragglers) != 1 || h.Stragglers[0].Node != "node-3" {
			t.Errorf("while the others don't know: %+v", h)
		}
		if h := drain(time.Minute); h.Confirmed != 2 || h.Of != 2 {
			t.Errorf("in the end: %+v", h)
		}
	})
}

// An instance whose client is gone while its agent is away is gone for good once nobody claims it: nothing that others
// still hold brings it back.
func TestAnExpiredInstanceNeverReturns(t *testing.T) {
	simulate(t, 3, 0, func(t *testing.T, s *agenttest.Simulation) {
		n := s.Nodes[0]
		leases, end := leasesOf(t, n)
		lease(t, leases, "one")
		lease(t, leases, "two")
		awaitSeen(t, s, "two", "active", 10*time.Second)
		<-time.After(3 * time.Second) // it is on disk
		end()
		n.Crash()
		n.Start()
		leases, end = leasesOf(t, n)
		defer end()
		lease(t, leases, "two")
		during(t, s, 10*time.Second, func(other *agenttest.Simulated) error {
			if got := sees(other, "two"); got == "" {
				return fmt.Errorf("the instance that came back is gone for a while")
			}
			return nil
		})
		awaitSeen(t, s, "one", "", 30*time.Second)
		s.Partition(s.Nodes[2])
		<-time.After(20 * time.Second)
		s.Network.Heal()
		during(t, s, 2*time.Minute, func(other *agenttest.Simulated) error {
			if got := sees(other, "one"); got != "" {
				return fmt.Errorf("the expired instance is %s", got)
			}
			return nil
		})
		awaitSeen(t, s, "two", "active", 10*time.Second)
	})
}
