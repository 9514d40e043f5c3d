package announcing

import (
	"crypto/rand"
	"encoding/json"
	"strings"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// prefix is where instances stand: routeId and instanceId follow.
const prefix = "gateway/instances/"

// MaxBody bounds an announcement as it comes, in bytes: its value, with room for spaces.
const MaxBody = 4 * spec.MaxEphemeralValue

// Announcement is what a client wants to announce.
type Announcement struct {
	Route, ID string
	Key       kv.Key
	Instance  spec.Instance
	// Notices are what was taken otherwise than it was written.
	Notices []string
}

// named are the ids in the body, in every spelling that package spec takes.
type named struct {
	RouteID     string `json:"routeId"`
	RouteID2    string `json:"route_id"`
	InstanceID  string `json:"instanceId"`
	InstanceID2 string `json:"instance_id"`
}

// Parse reads the JSON of an announcement: the fields of spec.Instance, of which routeId is required, and a missing
// instanceId is made. The error is spec.Faults, all of them.
func Parse(data []byte) (Announcement, error) {
	var ids named
	_ = json.Unmarshal(data, &ids) // what is wrong with it is told below, with its place
	a := Announcement{Route: strings.ToLower(ids.RouteID + ids.RouteID2), ID: ids.InstanceID + ids.InstanceID2}
	if a.ID == "" {
		a.ID = strings.ToLower(rand.Text()[:8])
	}
	if faults := slashes(a); faults != nil {
		return a, faults
	}
	route, missing := a.Route, a.Route == ""
	if missing {
		route = "unnamed"
	}
	decoded, err := spec.Decode(prefix+route+"/"+a.ID, data, spec.FormJSON)
	faults, _ := err.(spec.Faults)
	if instance, ok := decoded.Value.(*spec.Instance); ok {
		a.Instance = *instance
		faults = append(faults, unbuilt(decoded.Key, instance)...)
	}
	if missing {
		faults = append(spec.Faults{{Field: "routeId", Problem: "is missing: the route that the instance serves, as warehouse"}}, faults...)
		for i := range faults {
			faults[i].Key = ""
		}
	}
	if len(faults) > 0 {
		return a, faults
	}
	a.Key = kv.Key(decoded.Key)
	for _, notice := range decoded.Notices {
		a.Notices = append(a.Notices, notice.Error())
	}
	return a, nil
}

// slashes refuses ids that would be several segments of a key.
func slashes(a Announcement) (faults spec.Faults) {
	for _, id := range []struct{ field, value string }{{"routeId", a.Route}, {"instanceId", a.ID}} {
		if strings.Contains(id.value, "/") {
			faults = append(faults, spec.Fault{Field: id.field, Value: id.value, Problem: "has a slash, and is one segment of a key"})
		}
	}
	return faults
}

// unbuilt refuses by name what this version can't do, and without which the instance would be open to whom it is not for, or
// not be reached.
func unbuilt(key string, i *spec.Instance) (faults spec.Faults) {
	for _, setting := range []struct {
		field string
		set   bool
	}{{"requireAuth", i.RequireAuth}, {"claims", len(i.Claims) > 0}, {"tunnel", i.Tunnel}} {
		if setting.set {
			faults = append(faults, spec.Fault{Key: key, Field: setting.field, Problem: "this version does not do that yet"})
		}
	}
	return faults
}
