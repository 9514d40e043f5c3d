package agent_test

import (
	"strings"
	"testing"

	"grapevine/agent/api"
)

// reloadable is a node whose file has a route, and the path of that file.
func reloadable(t *testing.T) (n *node, path, old string) {
	c := config(t)
	old = "routes: {old: {path: /old, backends: [\"" + backend(t, "old") + "\"]}}\n"
	path = file(t, "gateway.yaml", old)
	c.ConfigFiles = []string{path}
	return start(t, c), path, old
}

func TestReloadTakesTheFileOver(t *testing.T) {
	n, path, _ := reloadable(t)
	write(t, path, "routes: {new: {path: /new, backends: [\""+backend(t, "new")+"\"]}}\nconfig: {ready: {paths: {live: [/up]}}}\n")
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	if r := n.get("http", "/new"); r.body != "new /new" {
		t.Errorf("the new route answers %s", r)
	}
	if r := n.get("http", "/old"); r.status != 404 {
		t.Errorf("the old route answers %s", r)
	}
	if r := n.get("http", "/up"); r.status != 200 {
		t.Errorf("the new section is not live: %s", r)
	}
	s := decode[api.Status](t, n.get("admin", "/v1/status"))
	if s.Reload == nil || s.Reload.Error != "" || s.Reload.At.Before(s.StartedAt) {
		t.Errorf("status %+v", s.Reload)
	}
	has(t, n.log.String(), `"msg":"reload done"`)
	has(t, n.get("admin", "/metrics").body, `grapevine_reloads_total{outcome="done"} 1`, `grapevine_reloads_total{outcome="refused"} 0`)
}

func TestRefusedReloadChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		parts   []string
	}{
		"not YAML":     {"routes: [", []string{"gateway.yaml:1:"}},
		"bad route":    {"routes: {new: {path: /new, backends: [\"http://127.0.0.1:1\"]}, bad: {path: /bad}}", []string{"gateway.yaml:1:", "bad", "backends"}},
		"lost cluster": {"node: {name: test}\nroutes: {bad: {path: /bad, cluster: nowhere}}", []string{"gateway.yaml:2:", "nowhere"}},
		"node": {
			"node: {name: other}\nlisteners: {metrics: \"127.0.0.1:9\"}\nroutes: {new: {path: /new, backends: [\"http://127.0.0.1:1\"]}}",
			[]string{"gateway.yaml:1:", "other", "gateway.yaml:2:", "metrics", "restart"},
		},
		"region": {"node: {region: east}\n", []string{"gateway.yaml:1:", "east", "restart"}},
		"API":    {"listeners: {socket: /tmp/other}\n", []string{"gateway.yaml:1:", "/tmp/other", "restart"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := config(t)
			config.Node = ""
			path := file(t, "gateway.yaml", "node: {name: test}\nroutes: {old: {path: /old, backends: [\""+backend(t, "old")+"\"]}}\n")
			config.ConfigFiles = []string{path}
			n := start(t, config)
			write(t, path, c.content)
			err := n.Reload()
			if err == nil {
				t.Fatal("it was taken")
			}
			has(t, err.Error(), c.parts...)
			if r := n.get("http", "/old"); r.body != "old /old" {
				t.Errorf("the old route answers %s", r)
			}
			if r := n.get("http", "/new"); r.status != 404 {
				t.Errorf("the new route answers %s", r)
			}
			s := decode[api.Status](t, n.get("admin", "/v1/status"))
			if s.Reload == nil || s.Reload.Error != err.Error() {
				t.Errorf("status %+v", s.Reload)
			}
			if lines := strings.Count(n.log.String(), "reload refused"); lines != 1 {
				t.Errorf("%d lines:\n%s", lines, n.log)
			}
		})
	}
}

// A flag outranks the file, before and after: what it decides has not changed.
func TestReloadLooksAtWhatCounts(t *testing.T) {
	n, path, old := reloadable(t)
	write(t, path, old+"listeners: {http: \":1\", admin: \"127.0.0.1:1\"}\nnode: {name: other}\n")
	if err := n.Reload(); err != nil {
		t.Error(err)
	}
}

func TestReloadHealsAfterAMistake(t *testing.T) {
	n, path, old := reloadable(t)
	write(t, path, "routes: [")
	if n.Reload() == nil {
		t.Fatal("it was taken")
	}
	write(t, path, old)
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	if s := decode[api.Status](t, n.get("admin", "/v1/status")); s.Reload.Error != "" {
		t.Errorf("status %+v", s.Reload)
	}
}
