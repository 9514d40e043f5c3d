package gateway_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"grapevine/gateway"
	"grapevine/kv"
)

// cookie is what the answer sets by that name, nil for nothing.
func (a answer) cookie(name string) *http.Cookie {
	for _, c := range a.Cookies() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// A client comes back to its destination on whatever node, with nothing but the
// cookie, and goes elsewhere when that is not well.
func TestAffinity(t *testing.T) {
	store := storeOf(t)
	f, g := startWith(t, store, gateway.Options{}), startWith(t, store, gateway.Options{})
	var backends []*moody
	destinations := ""
	for i := range 5 {
		backends = append(backends, newMoody(t, fmt.Sprint("b", i)))
		destinations += fmt.Sprintf(`,"d%d":{"address":"%s","weight":%d}`, i, backends[i].url, i+1)
	}
	cluster := func(policy string) string { return `{"destinations":{` + destinations[1:] + `},` + policy + `}` }
	f.put("gateway/clusters/c", cluster(`"affinity":{"cookie":"gv"}`))
	f.put("gateway/routes/r", `{"path":"/r","cluster":"c"}`)
	f.put("gateway/routes/bystander", route("/bystander", backends[0].url))
	f.await(g)

	seen := map[string]bool{}
	for range 10 {
		first := f.get("/r", "Cookie: a=b")
		c := first.cookie("gv")
		if c == nil || !c.HttpOnly || c.Secure || c.Path != "/" || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 0 {
			t.Fatalf("cookie %v", c)
		}
		if raw, err := base64.RawURLEncoding.DecodeString(c.Value); err != nil || len(raw) != 12 || strings.Contains(string(raw), "127") {
			t.Errorf("cookie %s", c)
		}
		seen[first.body] = true
		for _, node := range []*fixture{f, g, f} {
			again := node.get("/r", "Cookie: x=y; gv="+c.Value)
			if again.body != first.body || again.cookie("gv") != nil {
				t.Errorf("came to %s, and then to %s with %v", first.body, again.body, again.cookie("gv"))
			}
		}
	}
	if len(seen) < 2 {
		t.Errorf("all clients came to %v", seen)
	}
	for _, wrong := range []string{"", "x", strings.Repeat("A", 16), `"` + strings.Repeat("A", 16) + `"`} {
		if got := f.get("/r", "Cookie: gv="+wrong); got.StatusCode != 200 || got.cookie("gv") == nil {
			t.Errorf("cookie %q: %d, %v", wrong, got.StatusCode, got.cookie("gv"))
		}
	}
	if f.get("/bystander").cookie("gv") != nil {
		t.Error("another cluster sets the cookie")
	}
}

func TestAffinityFallsOver(t *testing.T) {
	f := start(t, "")
	one, other := newMoody(t, "one"), newMoody(t, "other")
	cluster := `{"destinations":{"a":{"address":"` + one.url + `","status":"%s"},"b":"` + other.url + `"},"affinity":{"cookie":"gv","ttl":"90m"}}`
	f.put("gateway/clusters/c", fmt.Sprintf(cluster, "healthy"))
	f.put("gateway/routes/r", `{"path":"/r","cluster":"c"}`)
	var at answer
	for at = f.get("/r"); at.body != "one"; at = f.get("/r") {
	}
	stay := "Cookie: gv=" + at.cookie("gv").Value
	if age := at.cookie("gv").MaxAge; age != 5400 {
		t.Errorf("the cookie lives for %d s", age)
	}
	f.put("gateway/clusters/c", fmt.Sprintf(cluster, "draining"))
	moved := f.get("/r", stay)
	if moved.body != "other" || moved.cookie("gv") == nil || moved.cookie("gv").Value == at.cookie("gv").Value {
		t.Errorf("while it drains: %s, %v", moved.body, moved.cookie("gv"))
	}
	f.put("gateway/clusters/c", fmt.Sprintf(cluster, "degraded"))
	if got := f.get("/r", stay); got.body != "one" {
		t.Errorf("while it is degraded: %s", got.body)
	}
	f.put("gateway/clusters/c", fmt.Sprintf(cluster, "healthy"))
	one.status.Store(503)
	for range 5 {
		f.get("/r", stay)
	}
	if got := f.get("/r", stay); got.body != "other" {
		t.Errorf("after it was ejected: %s", got.body)
	}
	f.put("gateway/clusters/c", `{"destinations":{"a":"`+unused(t)+`","b":"`+other.url+`"},"affinity":{"cookie":"gv"}}`)
	for range 4 { // also from one that can't be reached
		if got := f.get("/r", stay); got.body != "other" || got.cookie("gv") == nil {
			t.Errorf("after it was gone: %s, %v", got.body, got.cookie("gv"))
		}
	}
}

// What a cookie says differs from cluster to cluster, and from one set of nodes to
// another.
func TestAffinityTellsNothing(t *testing.T) {
	one := newMoody(t, "one")
	values := map[string]bool{}
	for range 2 {
		f := start(t, "")
		f.txn(kv.Put("gateway/clusters/c", []byte(`{"destinations":{"a":"`+one.url+`"},"affinity":{"cookie":"gv"}}`)),
			kv.Put("gateway/clusters/d", []byte(`{"destinations":{"a":"`+one.url+`"},"affinity":{"cookie":"gv"}}`)))
		f.txn(kv.Put("gateway/routes/c", []byte(`{"path":"/c","cluster":"c"}`)), kv.Put("gateway/routes/d", []byte(`{"path":"/d","cluster":"d"}`)))
		for _, target := range []string{"/c", "/d"} {
			values[f.get(target).cookie("gv").Value] = true
		}
	}
	if len(values) != 4 {
		t.Errorf("one address has the names %v", values)
	}
}
