package spec

import "time"

// What holds where neither a route, a cluster nor gateway/config/timeouts says
// otherwise.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultIdleTimeout = 5 * time.Minute
	DefaultConnect     = 5 * time.Second
	DefaultTimeoutCap  = 120 * time.Second
)

// Timeouts is gateway/config/timeouts.
type Timeouts struct {
	Meta
	Timeout     Duration `json:"timeout,omitzero" range:"1ms.." default:"30s" doc:"from the end of the request to the head of the response"`
	IdleTimeout Duration `json:"idleTimeout,omitzero" range:"1ms.." default:"5m" doc:"longest silence between bytes of a body or a long-lived connection"`
	Cap         Duration `json:"cap,omitzero" range:"1ms..24h" default:"2m" doc:"no timeout of a route or cluster counts for more than this"`
	Connect     Duration `json:"connect,omitzero" range:"1ms..5m" default:"5s" doc:"longest wait for a connection to a destination"`
}

// Ready is gateway/config/ready: what must be well before the node takes
// traffic, and where probes ask.
type Ready struct {
	Meta
	Require []ClusterID `json:"require,omitzero" doc:"clusters that must have a live destination"`
	Policy  string      `json:"policy,omitzero" enum:"all|any" default:"all" doc:"whether all or one of them"`
	Paths   *ProbePaths `json:"paths,omitzero" doc:"where probes ask"`
}

// ProbePaths are the paths that the gateway answers itself. A nil list is the
// default of DefaultProbePaths, an empty one is none.
type ProbePaths struct {
	Live    []Prefix `json:"live,omitzero" default:"/alive, /health, /health/live" doc:"the process is alive"`
	Ready   []Prefix `json:"ready,omitzero" default:"/ready, /health/ready" doc:"the node takes traffic"`
	Startup []Prefix `json:"startup,omitzero" default:"/health/startup" doc:"the node has started"`
}

// DefaultProbePaths are the names that gateways and orchestrators use.
func DefaultProbePaths() ProbePaths {
	return ProbePaths{
		Live:    []Prefix{"/alive", "/health", "/health/live"},
		Ready:   []Prefix{"/ready", "/health/ready"},
		Startup: []Prefix{"/health/startup"},
	}
}

// Headers is gateway/config/headers: whose forwarding headers are believed.
type Headers struct {
	Meta
	TrustedProxies  []TrustedProxy `json:"trustedProxies,omitzero" doc:"addresses whose X-Forwarded-* headers are believed: CIDR, loopback or private"`
	TrustAllProxies bool           `json:"trustAllProxies,omitzero" doc:"believe every client; only behind an ingress that sets these headers itself"`
}

// Logging is gateway/config/logging.
type Logging struct {
	Meta
	Level  string `json:"level,omitzero" enum:"debug|info|warn|error" default:"info" doc:"least level that is written"`
	Format string `json:"format,omitzero" enum:"json|text" default:"json" doc:"how a line looks"`

	Access *AccessLog `json:"access,omitzero" doc:"one line of JSON a request, on the standard output"`
}

// AccessLog says which requests are written, and what of them. What went wrong
// is always written: a status of 400 or more, an answer of the gateway's own, a
// client that left, a response that broke off.
type AccessLog struct {
	Enabled *bool    `json:"enabled,omitzero" default:"true" doc:"false switches it off"`
	Sample  *float64 `json:"sample,omitzero" range:"0..100" default:"100" doc:"how many of 100 requests that went well are written"`
	Fields  []string `json:"fields,omitzero" enum:"method|host|path|protocol|scheme|client|peer|status|reason|route|cluster|destination|attempts|bytesIn|bytesOut|durationMs|upstreamMs|correlationId|parameters|userAgent|referer" doc:"what a line holds beside time, level and msg; default: all but peer, parameters (the names of the query's), userAgent and referer (without its query)"`
}

func (a *AccessLog) check(c *checks) { unique(c, "fields", a.Fields) }

// Auth is gateway/config/auth.
type Auth struct {
	Meta
	Providers map[Name]*Provider `json:"providers,omitzero" doc:"issuers of tokens by name"`
}

// Provider is one issuer of tokens.
type Provider struct {
	Authority            URL    `json:"authority" required:"true" doc:"URL of the issuer"`
	Audience             string `json:"audience,omitzero" doc:"audience that a token must name"`
	RequireHTTPSMetadata *bool  `json:"requireHttpsMetadata,omitzero" default:"true" doc:"false allows an authority over http"`
	Mode                 string `json:"mode,omitzero" enum:"off|observe|optional|required" default:"off" doc:"what happens where a route says nothing"`
}

// Edge is gateway/config/edge: limits in front of all routes.
type Edge struct {
	Meta
	Enabled                *bool    `json:"enabled,omitzero" default:"true" doc:"false switches the section off"`
	Profile                string   `json:"profile,omitzero" enum:"gateway|ui" doc:"set of numbers to start from"`
	PermitLimit            int      `json:"permitLimit,omitzero" range:"1..1000000000" doc:"requests of one client in a window"`
	Window                 Duration `json:"window,omitzero" range:"1s..24h" doc:"length of the window"`
	GlobalConcurrencyLimit int      `json:"globalConcurrencyLimit,omitzero" range:"1..10000000" doc:"requests at the same time"`
	BypassPathPrefixes     []Prefix `json:"bypassPathPrefixes,omitzero" doc:"paths that are not limited"`
	ExemptExtensions       *bool    `json:"exemptExtensions,omitzero" doc:"do not limit paths that end in a file extension"`
	Scope                  string   `json:"scope,omitzero" enum:"node|cluster" default:"node" doc:"whether a limit is for each node or for all together"`
	MaxLongLived           int      `json:"maxLongLived,omitzero" range:"0..10000000" doc:"long-lived connections at the same time; 0: the default"`
}

// Announce is gateway/config/announce: who may announce what.
type Announce struct {
	Meta
	Grants  []Grant  `json:"grants,omitzero" doc:"what a token may announce"`
	Default string   `json:"default,omitzero" enum:"allow|deny" doc:"for announcements that no grant covers; default: allow while the API listens on loopback and the unix socket only"`
	Linger  Duration `json:"linger,omitzero" range:"1ms..1h" default:"30s" doc:"how long a route without instances answers 503 before it is gone"`
}

// Grant is what the holder of a token may announce.
type Grant struct {
	Token  TokenHash `json:"token" required:"true" doc:"SHA-256 of the token: what printf %s TOKEN | sha256sum prints"`
	Routes []string  `json:"routes,omitzero" doc:"route ids, * for any ending"`
	Paths  []string  `json:"paths,omitzero" doc:"paths, /** for everything below"`
}

// Tenancy is gateway/config/tenancy: how a request's tenant is found.
type Tenancy struct {
	Meta
	Enabled     *bool      `json:"enabled,omitzero" default:"true" doc:"false switches the section off"`
	Resolvers   []string   `json:"resolvers,omitzero" enum:"claim|subdomain|path|header" default:"claim, subdomain, path, header" doc:"where to look, in this order"`
	Claim       string     `json:"claim,omitzero" default:"tenant_id" doc:"claim that names the tenant"`
	Domain      Host       `json:"domain,omitzero" doc:"domain whose subdomains are tenants"`
	PathPrefix  Prefix     `json:"pathPrefix,omitzero" default:"/t" doc:"path in front of the tenant's name"`
	Header      HeaderName `json:"header,omitzero" default:"X-Tenant-Id" doc:"header that names the tenant, also to the backend"`
	TrustHeader bool       `json:"trustHeader,omitzero" doc:"believe the header when a client sends it"`
}
