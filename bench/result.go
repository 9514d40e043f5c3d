//go:build linux

package main

import (
	"time"

	"grapevine/bench/wire"
)

// row is one measurement, and a line of the raw results.
type row struct {
	Work     string        `json:"work"`
	Peer     string        `json:"peer"`
	Sweep    int           `json:"sweep"`
	Client   string        `json:"client,omitempty"`
	Requests int           `json:"requests"`
	Failed   int           `json:"failed"`
	Reason   string        `json:"reason,omitempty"` // of the last failure, where it is known
	Seconds  float64       `json:"seconds,omitempty"`
	User     float64       `json:"user,omitempty"`   // CPU seconds of the proxy
	System   float64       `json:"system,omitempty"` // CPU seconds of the proxy
	P50      int           `json:"p50us,omitempty"`
	P99      int           `json:"p99us,omitempty"`
	P999     int           `json:"p999us,omitempty"`
	Idle     float64       `json:"idleBytes,omitempty"` // memory per idle connection
	Resident int           `json:"residentBytes,omitempty"`
	Live     time.Duration `json:"liveNs,omitempty"` // from the start of the change until the new route answers
	Closed   int           `json:"closed,omitempty"` // connections that the proxy closed
	Detail   *wire.Result  `json:"detail,omitempty"`
	Load     string        `json:"loadAverage"`
	Problem  string        `json:"problem,omitempty"` // why there is no figure
}

// run is what one run of the bench found, the text of its tables.
type run struct {
	Start   time.Time     `json:"start"`
	End     time.Time     `json:"end,omitzero"`
	Command string        `json:"command"`
	Sweeps  int           `json:"sweeps"`
	Each    time.Duration `json:"durationNs"`
	CPUs    int           `json:"cpus"`
	Client  string        `json:"client"`
	Go      string        `json:"go"`
	Peers   []peerFacts   `json:"peers"`
	rows    []row
}

// peerFacts are what identifies a peer.
type peerFacts struct {
	Name    string            `json:"name"`
	Version string            `json:"version,omitempty"`
	SHA256  string            `json:"sha256,omitempty"`
	Skipped string            `json:"skipped,omitempty"` // why it was not measured
	Configs map[string]string `json:"configs,omitempty"` // the sum of each configuration, by what it is for
}

// perMillion is the figure of the bench: CPU seconds of the proxy for a million requests; 0 if there are none.
func perMillion(r row) float64 {
	if ok := r.Requests - r.Failed; ok > 0 {
		return (r.User + r.System) / float64(ok) * 1e6
	}
	return 0
}
