package agent

import (
	"errors"
	"fmt"
	"time"

	"grapevine/agent/api"
	"grapevine/gateway/spec"
)

// The outcomes of a reload in the metrics.
const (
	reloadDone    = "done"
	reloadRefused = "refused"
)

// Reload reads the static files again. Routes, clusters and sections are taken over together; where anything is wrong,
// or something changed that only a restart can change, nothing is. The outcome goes to the log and the status, too.
func (a *Agent) Reload() error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	err := a.reloadFiles()
	outcome := &api.Reload{At: time.Now()}
	if err != nil {
		outcome.Error = err.Error()
		a.metrics.reloads.WithLabelValues(reloadRefused).Inc()
		a.logger.Error("reload refused, the configuration before it holds", "err", err)
	} else {
		a.metrics.reloads.WithLabelValues(reloadDone).Inc()
		a.logger.Info("reload done")
	}
	a.reload.Store(outcome)
	return err
}

func (a *Agent) reloadFiles() error {
	file, err := a.config.readFiles()
	if err != nil {
		return err
	}
	now, err := a.config.resolve(file)
	if err != nil {
		return err
	}
	if err := a.settings.fixed(now, file); err != nil {
		return err
	}
	if a.gateway != nil {
		if err := a.gateway.SetStatic(file); err != nil {
			return err
		}
	}
	a.policy.setStatic(file)
	return nil
}

// fixed names every setting in which now differs and which holds until a restart.
func (s settings) fixed(now settings, file *spec.File) error {
	var changes []error
	for _, c := range []struct{ key, field, before, now string }{
		{"node", "name", s.node, now.node},
		{"node", "region", s.region, now.region},
		{"listeners", "http", s.http.value, now.http.value},
		{"listeners", "admin", s.admin.value, now.admin.value},
		{"listeners", "metrics", s.metrics.value, now.metrics.value},
		{"listeners", "socket", s.socket.value, now.socket.value},
	} {
		if c.before != c.now {
			changes = append(changes, file.Locate(spec.Fault{
				Key: c.key, Field: c.field, Value: c.now,
				Problem: fmt.Sprintf("was %q, and changes with a restart only", c.before),
			}))
		}
	}
	return errors.Join(changes...)
}
