package agent

import (
	"context"
	"fmt"
	"time"

	"grapevine/gateway"
	"grapevine/kv"
)

const (
	// clearEvery is how often it is looked for maintenances that are over.
	clearEvery = 30 * time.Second
	// clearAfter is how long a maintenance that has ended by itself stays to be seen. It is also by how much the leader's
	// clock may be ahead of another node's before it ends a maintenance there too soon.
	clearAfter = 5 * time.Minute
)

// clearMaintenance takes away the maintenances that have ended by themselves, until ctx ends: a key where this node
// leads, and what is this node's own. Nothing depends on it, since each node stops by its own clock.
func (a *Agent) clearMaintenance(ctx context.Context) error {
	ticker := time.NewTicker(clearEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		for _, m := range a.gateway.Table().Maintenance() {
			if m.Until == nil || time.Since(*m.Until) < clearAfter {
				continue
			}
			if err := a.clear(ctx, m); err != nil && ctx.Err() == nil {
				a.logger.Warn("ended maintenance stays for now", "cluster", m.Cluster, "scope", m.Scope, "err", err)
			}
		}
	}
}

func (a *Agent) clear(ctx context.Context, m gateway.MaintenanceStatus) error {
	if m.Scope == gateway.ScopeNode {
		_, err := a.gateway.EndLocal(m.Cluster)
		return err
	}
	if !a.leads() {
		return nil
	}
	rev, err := kv.ParseRev(m.Rev, 0)
	if err != nil {
		return err
	}
	key := kv.Key("gateway/maintenance")
	if m.Cluster != "" {
		key += kv.Key("/" + m.Cluster)
	}
	ctx, cancel := context.WithTimeout(ctx, clearEvery)
	defer cancel()
	// Only what was seen: somebody may have begun another one meanwhile.
	_, err = a.writes.Propose(ctx, kv.Txn{
		Compare: []kv.Compare{{Key: key, Target: kv.TargetModRev, Op: kv.Equal, Rev: rev}},
		Then:    []kv.Op{kv.Delete(key)},
		By:      "node:" + a.settings.node, At: time.Now(),
		Message: fmt.Sprintf("ended by itself at %s", m.Until.Format(time.RFC3339)),
	})
	return err
}

// leads tells whether this node leads its cluster; one that is in none does.
func (a *Agent) leads() bool {
	if a.cluster == nil {
		return true
	}
	for _, member := range a.cluster.Members() {
		if member.Self {
			return member.Leader
		}
	}
	return false
}
