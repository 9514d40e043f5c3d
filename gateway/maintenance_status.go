package gateway

import (
	"iter"
	"time"

	"grapevine/gateway/spec"
)

// MaintenanceStatus is a maintenance as a node sees it.
type MaintenanceStatus struct {
	Cluster    string     `json:"cluster" doc:"which cluster; empty: the whole gateway"`
	Scope      string     `json:"scope" doc:"all (every node, by a key) or node (this one alone)"`
	State      string     `json:"state" doc:"on, or ended: its until has passed, and requests are served"`
	Reason     string     `json:"reason,omitempty" doc:"told to the client"`
	By         string     `json:"by" doc:"who wrote it, empty where that is not known"`
	Since      time.Time  `json:"since" doc:"when it was written, by the writer's clock; where that is not known, when this node began it"`
	Rev        string     `json:"rev,omitempty" doc:"revision of the key; absent for one of this node alone"`
	Until      *time.Time `json:"until,omitempty" doc:"when it ends by itself; absent: when somebody ends it"`
	Allow      []string   `json:"allow,omitempty" doc:"clients that are let through"`
	Grace      string     `json:"grace" doc:"how long what is under way may go on"`
	GraceOver  bool       `json:"graceOver" doc:"what was under way has been ended on this node"`
	TurnedAway int64      `json:"turnedAway" doc:"requests that this node answered with 503"`
	Ended      int64      `json:"ended" doc:"requests and connections under way that this node ended after the grace"`
}

// The scopes and states of a MaintenanceStatus.
const (
	ScopeAll         = "all"
	ScopeNode        = "node"
	MaintenanceOn    = "on"
	MaintenanceEnded = "ended"
)

// Maintenance lists the maintenances of the table that are switched on: the whole
// gateway's first, then by cluster.
func (t *Table) Maintenance() []MaintenanceStatus {
	rows := []MaintenanceStatus{}
	if t.windows == nil {
		return rows
	}
	now := time.Now()
	for _, w := range t.windows.list {
		rows = append(rows, w.status(now))
	}
	return rows
}

func (w *window) status(now time.Time) MaintenanceStatus {
	s := MaintenanceStatus{
		Cluster: w.cluster, Scope: ScopeAll, State: MaintenanceOn, Reason: w.spec.Reason, By: w.by, Since: w.at,
		Grace: spec.Duration(w.overdue().Sub(w.began)).String(), GraceOver: !now.Before(w.overdue()),
		TurnedAway: w.tally.turnedAway.Load(), Ended: w.tally.ended.Load(),
	}
	if w.at.IsZero() {
		s.Since = w.began.UTC().Round(0)
	}
	if w.local {
		s.Scope = ScopeNode
	} else {
		s.Rev = w.rev.String()
	}
	if !w.active(now) {
		s.State = MaintenanceEnded
	}
	if until := w.spec.Until; !until.IsZero() {
		s.Until = &until.Time
	}
	for _, client := range w.spec.Allow {
		s.Allow = append(s.Allow, string(client))
	}
	return s
}

// FindCluster tells whether there is a cluster of this id, named or made by the
// backends of a route; hint names near ones if there is none, as " (did you mean
// ...?)".
func (t *Table) FindCluster(id string) (there bool, hint string) {
	if t.hasCluster(id) {
		return true, ""
	}
	return false, spec.DidYouMean(id, t.clusterIDs())
}

func (t *Table) hasCluster(id string) bool {
	if t.plan.verdicts.get(clusterPrefix+id) != nil {
		return true
	}
	v := t.plan.verdicts.get(routePrefix + id)
	return v != nil && v.route != nil && v.route.cluster != nil && v.route.cluster.id == id
}

// clusterIDs are the ids of all clusters, some of them twice.
func (t *Table) clusterIDs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range t.plan.verdicts.under(clusterPrefix) {
			if !yield(idOf(key)) {
				return
			}
		}
		for _, v := range t.plan.verdicts.under(routePrefix) {
			if v.route != nil && v.route.cluster != nil && !v.route.cluster.named && !yield(v.route.cluster.id) {
				return
			}
		}
	}
}

// lintMaintenance finds maintenances of clusters that there are not.
func (t *Table) lintMaintenance() (found []spec.Fault) {
	for key := range t.plan.verdicts.under(maintenanceKey) {
		if id := maintained(key); id != "" && !t.hasCluster(id) {
			found = append(found, spec.Fault{Key: key, Problem: "keeps nobody out: there is no such cluster" + spec.DidYouMean(id, t.clusterIDs())})
		}
	}
	return found
}
