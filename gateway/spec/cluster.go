package spec

import (
	"cmp"
	"math"
	"strings"
	"time"
)

// Cluster is a set of interchangeable destinations with one policy. Its key is
// gateway/clusters/{clusterId}; without destinations it is the policy of the
// route of the same id, which lists its backends itself.
type Cluster struct {
	Meta
	Destinations   map[DestinationID]Destination `json:"destinations,omitzero" doc:"instances by name"`
	LoadBalancing  string                        `json:"loadBalancing,omitzero" enum:"roundRobin|random|leastRequest|powerOfTwo|hash|latency" default:"roundRobin" doc:"who is next"`
	HashOn         HashOn                        `json:"hashOn,omitzero" default:"ip" doc:"what loadBalancing hash looks at: ip, path, header:NAME, cookie:NAME or query:NAME"`
	Affinity       *Affinity                     `json:"affinity,omitzero" doc:"keep a client on one destination"`
	Resilience     *Resilience                   `json:"resilience,omitzero" doc:"timeout and circuit breaker"`
	Health         *Health                       `json:"health,omitzero" doc:"how bad destinations are found"`
	AllowDegraded  *bool                         `json:"allowDegraded,omitzero" default:"true" doc:"use degraded destinations when none is healthy"`
	PreferRegion   *bool                         `json:"preferRegion,omitzero" default:"true" doc:"use destinations of the node's own region first"`
	PanicPercent   *int                          `json:"panicPercent,omitzero" range:"0..100" default:"50" doc:"with fewer healthy destinations than this, all are used; 0: never"`
	SlowStart      Duration                      `json:"slowStart,omitzero" range:"0s..24h" doc:"how long a new destination's share grows; 0s: at once"`
	TLS            *TLS                          `json:"tls,omitzero" doc:"how https destinations are verified"`
	HTTP2          string                        `json:"http2,omitzero" enum:"auto|on|off" default:"auto" doc:"auto: as TLS negotiates; on: always, also without TLS"`
	MaxConnections int                           `json:"maxConnections,omitzero" range:"0..1000000" doc:"requests, and so connections, that a node has at each destination at the same time; 0: no bound"`
	MaxConcurrent  int                           `json:"maxConcurrent,omitzero" range:"0..10000000" doc:"requests that a node has at the whole cluster at the same time; 0: no bound"`
}

// Destination is one instance. Its bare form is the address alone.
type Destination struct {
	Address Address `json:"address" required:"true" bare:"true" doc:"scheme://host:port"`
	Weight  *int    `json:"weight,omitzero" range:"0..1000000" default:"1" doc:"its share, relative to the others; 0: no requests"`
	Region  string  `json:"region,omitzero" doc:"where it runs"`
	Version string  `json:"version,omitzero" doc:"what it runs"`
	Status  string  `json:"status,omitzero" enum:"healthy|degraded|draining" default:"healthy" doc:"degraded: used when no healthy one is left, see allowDegraded; draining: no new requests, while those under way end"`
}

// Affinity keeps a client on the destination it had.
type Affinity struct {
	Cookie HeaderName `json:"cookie" required:"true" doc:"name of the cookie that remembers it"`
	TTL    Duration   `json:"ttl,omitzero" range:"1s.." doc:"how long; absent: until the browser closes"`
}

// Resilience is what protects the gateway from the cluster and the cluster
// from the gateway.
type Resilience struct {
	Timeout        Duration        `json:"timeout,omitzero" range:"1ms.." doc:"from the end of the request to the head of the response"`
	CircuitBreaker *CircuitBreaker `json:"circuitBreaker,omitzero" doc:"stop asking a cluster that fails"`
}

// CircuitBreaker opens when, within the sampling window, at least
// minimumThroughput requests have ended and failureThreshold was reached.
type CircuitBreaker struct {
	FailureThreshold  float64  `json:"failureThreshold,omitzero" default:"10" doc:"1 or more: failures in the window; between 0 and 1: failures as a ratio"`
	BreakDuration     Duration `json:"breakDuration,omitzero" range:"1ms..24h" default:"30s" doc:"how long it stays open"`
	MinimumThroughput int      `json:"minimumThroughput,omitzero" range:"1..1000000" default:"20" doc:"requests that must have ended in the window for it to open"`
	Sampling          Duration `json:"sampling,omitzero" range:"10ms..24h" default:"10s" doc:"length of the window"`
	HalfOpenRequests  int      `json:"halfOpenRequests,omitzero" range:"1..1000" default:"1" doc:"requests that pass when it is half open; all must go well for it to close"`
	FailureStatus     []Status `json:"failureStatus,omitzero" default:"502, 503, 504" doc:"status codes that count as failures, beside connect errors, timeouts and responses that break off"`
}

// Failures are the status codes that count as failures.
func (b *CircuitBreaker) Failures() []Status {
	if len(b.FailureStatus) == 0 {
		return DefaultFailureStatus()
	}
	return b.FailureStatus
}

// Health is how bad destinations are found.
type Health struct {
	Active  *ActiveHealth  `json:"active,omitzero" doc:"by asking them"`
	Passive *PassiveHealth `json:"passive,omitzero" doc:"by what happens to requests; absent: as with its defaults"`
}

// ActiveHealth asks every destination at an interval, from every node. Clusters
// that ask the same address in the same way share the checks.
type ActiveHealth struct {
	Path           Prefix   `json:"path,omitzero" doc:"path that answers well when all is well; absent: a connection (TCP) is enough"`
	Host           Host     `json:"host,omitzero" doc:"Host of the question; default: that of the address"`
	Status         []Status `json:"status,omitzero" doc:"status codes that are good answers; default: 200 to 299"`
	Interval       Duration `json:"interval,omitzero" range:"100ms..1h" default:"10s" doc:"time between the beginnings of two checks, a tenth more or less at random"`
	Timeout        Duration `json:"timeout,omitzero" range:"1ms..1h" default:"2s" doc:"longest wait for the answer, and no longer than interval, which also bounds the default"`
	HealthyAfter   int      `json:"healthyAfter,omitzero" range:"1..100" default:"2" doc:"good answers in a row until it is used again; the first check of a new destination decides alone"`
	UnhealthyAfter int      `json:"unhealthyAfter,omitzero" range:"1..100" default:"3" doc:"bad answers in a row until it is not used"`
	Probers        int      `json:"probers,omitzero" range:"1..100" default:"2" doc:"nodes of the cluster that ask each destination while it is well; who doubts asks for itself"`
}

// PassiveHealth takes a destination out (ejects it) after failures in a row: no
// connection, no answer in time, an answer that is none or breaks off, or a
// status that counts as a failure.
type PassiveHealth struct {
	Enabled             *bool    `json:"enabled,omitzero" default:"true" doc:"false: failures of requests take no destination out"`
	ConsecutiveFailures int      `json:"consecutiveFailures,omitzero" range:"1..1000" default:"5" doc:"failures in a row until it is taken out"`
	FailureStatus       []Status `json:"failureStatus,omitzero" default:"502, 503, 504" doc:"status codes that count as failures"`
	EjectFor            Duration `json:"ejectFor,omitzero" range:"1ms..24h" default:"30s" doc:"for how long at first; each time that follows soon is longer by as much, up to ten times"`
	MaxEjectedPercent   int      `json:"maxEjectedPercent,omitzero" range:"1..100" default:"50" doc:"never more of the cluster than this, rounded down: of a single destination none"`
}

// TLS is how the certificate of an https destination is verified.
type TLS struct {
	ServerName      Host   `json:"serverName,omitzero" doc:"name that must be in the certificate; default: the host of the address"`
	CA              TLSRef `json:"ca,omitzero" doc:"authorities that are trusted: secret:NAME or certs:NAME; default: the system's"`
	Cert            TLSRef `json:"cert,omitzero" doc:"certificate that the gateway shows: certs:NAME"`
	Pins            []Pin  `json:"pins,omitzero" doc:"SHA-256 of the certificates that are accepted, in hex"`
	AllowSelfSigned bool   `json:"allowSelfSigned,omitzero" doc:"accept a pinned certificate that no authority signed"`
}

// The values that hold where a cluster does not say otherwise, as its fields
// tell the reader.
const (
	defaultHashOn HashOn = "ip"
)

// What holds of a cluster's health where it does not say otherwise.
const (
	DefaultHealthInterval      = Duration(10 * time.Second)
	DefaultHealthTimeout       = Duration(2 * time.Second)
	DefaultHealthyAfter        = 2
	DefaultUnhealthyAfter      = 3
	DefaultProbers             = 2
	DefaultConsecutiveFailures = 5
	DefaultEjectFor            = Duration(30 * time.Second)
	DefaultMaxEjectedPercent   = 50
	DefaultPanicPercent        = 50
)

// DefaultFailureStatus is what counts as a failure of a destination or cluster:
// it, or what stands before it, says that it can't do its work. A 500 may be one
// request's own trouble.
func DefaultFailureStatus() []Status { return []Status{502, 503, 504} }

func (cl *Cluster) check(c *checks) {
	cl.checkHashOn(c)
	if cl.Resilience != nil {
		noticeCap(c, "resilience.timeout", cl.Resilience.Timeout)
	}
}

// checkHashOn refuses what no balance but that by hash looks at. The default is
// taken, because it promises nothing.
func (cl *Cluster) checkHashOn(c *checks) {
	if cl.HashOn != "" && cl.HashOn != defaultHashOn && cl.LoadBalancing != "hash" && !c.failed("loadBalancing") {
		c.fault("hashOn", "needs loadBalancing hash, which alone looks at it")
	}
}

func (b *CircuitBreaker) check(c *checks) {
	const most = 1_000_000
	t := b.FailureThreshold
	if !c.given("failureThreshold") || c.failed("failureThreshold") {
		return
	}
	if t <= 0 || t > most || t > 1 && t != math.Trunc(t) {
		c.fault("failureThreshold", "must be a number of failures from 1 to %d, or a ratio between 0 and 1", most)
	}
}

func (a *ActiveHealth) check(c *checks) {
	interval := cmp.Or(a.Interval, DefaultHealthInterval)
	if a.Timeout > interval && !c.failed("interval") {
		c.fault("timeout", "must not be longer than interval %s: checks would pile up", interval)
	}
	if _, wildcard := a.Host.Wildcard(); wildcard {
		c.fault("host", "must be one name, without a wildcard")
	}
	for _, f := range []choice{{"host", a.Host != ""}, {"status", len(a.Status) > 0}} {
		if f.given && a.Path == "" && !c.failed("path") {
			c.fault(f.name, "needs a path: without it a connection is all that is asked for")
		}
	}
}

func (t *TLS) check(c *checks) {
	unique(c, "pins", t.Pins)
	if t.AllowSelfSigned && len(t.Pins) == 0 && !c.failed("pins") {
		c.fault("allowSelfSigned", "needs pins: without them any certificate would do")
	}
	if strings.HasPrefix(string(t.Cert), "secret:") {
		c.fault("cert", "must be certs:NAME")
	}
	if _, wildcard := t.ServerName.Wildcard(); wildcard {
		c.fault("serverName", "must be one name, without a wildcard")
	}
}
