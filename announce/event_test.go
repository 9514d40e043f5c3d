package announce

import (
	"encoding/json"
	"testing"
)

// Whatever an agent sends is an event of which the numbers are such, or an error.
func FuzzDecodeEvent(f *testing.F) {
	for _, line := range []string{
		`{"event":"accepted","lease":"x","routeId":"r","instanceId":"7f3a","node":"n","incarnation":3,"key":"k","effective":{"path":"/r"},"notices":["n"]}`,
		`{"event":"accepted","lease":"","instanceId":"7f3a","effective":null,"notices":null}`,
		`{"event":"applied","nodes":3,"of":3}`, `{"event":"applied","nodes":-3,"of":1e9}`,
		`{"event":"status","status":"degraded","reason":"late"}`, `{"event":"draining","by":"client","reason":""}`,
		`{"event":"drained","confirmed":3,"of":3,"stragglers":[{"node":"a","why":"b"}],"took":"120ms"}`,
		`{"event":"superseded"}`, `{"event":"alive"}`, `{"event":7}`, `[]`, `null`, ``, "\xff", `{"event":"later","of":{}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := decodeEvent(line)
		switch {
		case err != nil:
			if e.Event != "" {
				t.Errorf("%+v beside %v", e, err)
			}
		case e.Event == "", e.Nodes < 0, e.Of < 0, e.Event == "accepted" && (e.Lease == "" || e.InstanceID == ""):
			t.Errorf("%q: %+v", line, e)
		}
	})
}

func FuzzDrained(f *testing.F) {
	f.Add([]byte(`{"confirmed":2,"of":3,"stragglers":[{"node":"edge-3","why":"2 requests under way"}],"took":"1.5s"}`))
	f.Add([]byte(`{"took":"soon"}`))
	f.Add([]byte(`{"confirmed":-1,"of":-2}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		var d Drained
		if err := json.Unmarshal(answer, &d); err == nil && (d.Confirmed < 0 || d.Of < 0 || d.Took < 0) {
			t.Errorf("%q: %+v", answer, d)
		}
	})
}
