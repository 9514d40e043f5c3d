package gateway

import (
	"encoding/json"
	"fmt"
	"time"

	"grapevine/gateway/spec"
)

// A local maintenance is this node's alone: for emergencies, when no write can be
// agreed on. It is kept on the node's disk, so that a restart does not end it, and
// ends at its until or when somebody ends it here.

// localMaintenance is the name under which the one of the whole gateway is kept;
// that of a cluster is below it.
const localMaintenance = "maintenance"

// keptWindow is the stored form of a local maintenance.
type keptWindow struct {
	By    string          `json:"by"`
	At    time.Time       `json:"at"`
	Value json.RawMessage `json:"value"`
}

func localName(cluster string) string {
	if cluster == "" {
		return localMaintenance
	}
	return localMaintenance + "/" + cluster
}

func keyOfMaintenance(cluster string) string {
	if cluster == "" {
		return maintenanceKey
	}
	return maintenanceKey + "/" + cluster
}

// BeginLocal turns requests for a cluster away on this node alone, those for every
// one if cluster is empty. value is a maintenance in canonical JSON that is
// enabled; by is who asked for it. One that there is already is replaced. When it
// returns nil, the value is on disk and in force.
func (g *Gateway) BeginLocal(cluster string, value []byte, by string) error {
	k := keptWindow{By: by, At: time.Now().UTC(), Value: value}
	w, err := k.window(cluster)
	if err != nil {
		return err
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.keeper.SetLocal(localName(cluster), data); err != nil {
		return err
	}
	g.local[cluster] = w
	return g.renew()
}

// EndLocal ends a local maintenance, and says whether there was one.
func (g *Gateway) EndLocal(cluster string) (was bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.local[cluster] == nil {
		return false, nil
	}
	if err := g.keeper.DeleteLocal(localName(cluster)); err != nil {
		return true, err
	}
	delete(g.local, cluster)
	return true, g.renew()
}

// renew makes a table of the same configuration. mu is held.
func (g *Gateway) renew() error {
	g.renewing = true
	defer func() { g.renewing = false }()
	return g.install(g.static, blockStaticFaults)
}

func (k keptWindow) window(cluster string) (*window, error) {
	decoded, err := spec.Decode(keyOfMaintenance(cluster), k.Value, spec.FormJSON)
	if err != nil {
		return nil, err
	}
	m := decoded.Value.(*spec.Maintenance)
	if !m.Enabled {
		return nil, fmt.Errorf("%s: is not enabled", keyOfMaintenance(cluster))
	}
	w := newWindow(cluster, m)
	w.local, w.by, w.at = true, k.By, k.At
	return w, nil
}

// readLocal loads what an earlier run has left. What can't be read is in force no
// more: availability fails open.
func (g *Gateway) readLocal() {
	for name, data := range g.keeper.LocalUnder(localMaintenance) {
		var k keptWindow
		cluster := maintained(maintenanceKey + name[len(localMaintenance):])
		err := json.Unmarshal(data, &k)
		if err == nil {
			g.local[cluster], err = k.window(cluster)
		}
		if err != nil {
			delete(g.local, cluster)
			g.logger.Error("local maintenance is unreadable, and not in force", "cluster", cluster, "err", err)
		}
	}
}

// localWindows are those of this node. mu is held.
func (g *Gateway) localWindows() []*window {
	var local []*window
	for _, w := range g.local {
		local = append(local, w)
	}
	return local
}
