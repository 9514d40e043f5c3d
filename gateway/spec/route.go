package spec

// Route says which requests it takes and what becomes of them. Its key is
// gateway/routes/{routeId}.
type Route struct {
	Meta
	RouteID RouteID `json:"routeId,omitzero" doc:"optional repetition of the key's last segment; never stored"`
	Enabled *bool   `json:"enabled,omitzero" default:"true" doc:"false hides this id in every layer; such a route needs neither path nor backends"`
	Order   int     `json:"order,omitzero" range:"-1000000..1000000" doc:"lower is tried first, before any other rule"`
	Type    string  `json:"type,omitzero" enum:"proxy|redirect|respond|static" doc:"what kind of answer; follows from the fields given, so it may be left out"`

	Path      Path     `json:"path,omitzero" doc:"template of the path: /literal/{parameter}/{**rest}"`
	PathRegex Regex    `json:"pathRegex,omitzero" doc:"instead of path: a regular expression for the whole path, anchored at both ends; it sees letters, digits, - . _ ~ without escapes, and the escapes of all else in upper case; tried after all templates of its host"`
	Hosts     []Host   `json:"hosts,omitzero" doc:"host names, *.example.com for every name below; none: any host"`
	Methods   []Method `json:"methods,omitzero" doc:"request methods; none: any method"`
	Headers   []Match  `json:"headers,omitzero" doc:"conditions on request headers, all of which must hold; for the host there is hosts"`
	Query     []Match  `json:"query,omitzero" doc:"conditions on query parameters, all of which must hold"`
	Clients   []CIDR   `json:"clients,omitzero" doc:"client addresses that this route is for; none: any client"`

	CaseInsensitive bool        `json:"caseInsensitive,omitzero" doc:"match the path without regard to case; a pathRegex as with (?i)"`
	PathPolicy      *PathPolicy `json:"pathPolicy,omitzero" doc:"what this route allows or refuses in the spelling of a path"`

	Backends []Address   `json:"backends,omitzero" doc:"every instance of the service, as scheme://host:port; they take turns"`
	Cluster  ClusterID   `json:"cluster,omitzero" doc:"instead of backends: a cluster under gateway/clusters/"`
	Split    []Share     `json:"split,omitzero" doc:"instead of backends: several clusters by weight, header or cookie"`
	SplitOn  HashOn      `json:"splitOn,omitzero" doc:"what keeps a client on its part of the split while the weights stay: ip, path, header:NAME, cookie:NAME or query:NAME; absent: requests take turns"`
	Redirect *Redirect   `json:"redirect,omitzero" doc:"instead of backends: answer with a redirect"`
	Respond  *Respond    `json:"respond,omitzero" doc:"instead of backends: answer with fixed content"`
	Static   *Static     `json:"static,omitzero" doc:"instead of backends: answer with files"`
	Mirror   *Mirror     `json:"mirror,omitzero" doc:"send a copy of some requests to another cluster"`
	Rewrite  *Rewrite    `json:"rewrite,omitzero" doc:"change the path by a regular expression"`
	Changes  *Transforms `json:"transforms,omitzero" doc:"change headers and query on the way"`

	PathRemovePrefix Path   `json:"pathRemovePrefix,omitzero" doc:"leading segments of path that the backend does not see"`
	PathPrefix       Prefix `json:"pathPrefix,omitzero" doc:"put in front of the path after pathRemovePrefix was taken away: /a/x becomes /b/x, /a becomes /b"`

	RequireAuth          bool       `json:"requireAuth,omitzero" doc:"refuse requests without a valid token"`
	AllowAnonymous       bool       `json:"allowAnonymous,omitzero" doc:"never ask for a token"`
	Auth                 *RouteAuth `json:"auth,omitzero" doc:"which provider and claims are asked for"`
	ForwardAuthorization *bool      `json:"forwardAuthorization,omitzero" default:"true" doc:"hand the Authorization header on to the backend"`

	Timeout     Duration     `json:"timeout,omitzero" range:"1ms.." doc:"from the end of the request to the head of the response, all attempts together"`
	IdleTimeout Duration     `json:"idleTimeout,omitzero" range:"1ms.." doc:"longest silence between bytes of a body or a long-lived connection"`
	Limits      *Limits      `json:"limits,omitzero" doc:"bounds on what this route accepts"`
	Retry       *Retry       `json:"retry,omitzero" doc:"when a request is tried again"`
	CORS        *CORS        `json:"cors,omitzero" doc:"answers to browsers of other origins"`
	Compression *Compression `json:"compression,omitzero" doc:"compression of responses"`
}

// IsEnabled is true unless the route says otherwise.
func (r *Route) IsEnabled() bool { return r.Enabled == nil || *r.Enabled }

// Match is a condition on a header or a query parameter, by exactly one of
// value, values, present and regex.
type Match struct {
	Name    string   `json:"name" required:"true" doc:"name of the header (case does not matter) or query parameter (case matters)"`
	Value   string   `json:"value,omitzero" doc:"equals this"`
	Values  []string `json:"values,omitzero" doc:"equals one of these"`
	Present *bool    `json:"present,omitzero" doc:"true: is there; false: is not there"`
	Regex   Regex    `json:"regex,omitzero" doc:"the whole value matches this"`
}

// PathPolicy says which spellings of a path a route takes. Some are answered with
// 400 unless it allows them, because a backend may read another path in them
// than the gateway did; the others are taken unless it refuses them.
type PathPolicy struct {
	Allow  []string `json:"allow,omitzero" enum:"backslash|control|climb|pathParameter|encodedSlash|encodedDelimiter" doc:"what is else answered with 400: backslash is \\ or %5C; control is an encoded control character such as %00; climb is .. above the root, which is dropped; pathParameter is a segment . or .. before ; or a path that chooses another route once ;... is cut from its segments; encodedSlash is a path that chooses another route, or gets a dot segment, once %2F is decoded; encodedDelimiter is a path that chooses another route once %3A, %40, %21, %24, %26 to %2C and %3D (escaped delimiters) are decoded"`
	Refuse []string `json:"refuse,omitzero" enum:"encodedSlash|encodedPercent|encodedQuestionMark|encodedHash|encodedSemicolon|semicolon|emptySegment|dotSegment" doc:"what is answered with 400 wherever it is in the path: %2F, %25, %3F, %23, %3B, ;, an empty segment (//), a segment . or .."`
}

// Share is one cluster of a split and its part of the requests.
type Share struct {
	Cluster ClusterID `json:"cluster" required:"true" doc:"a cluster under gateway/clusters/"`
	Weight  int       `json:"weight" required:"true" range:"0..1000000" doc:"its part, relative to the sum of the weights; 0: none but those that its conditions choose"`
	Headers []Match   `json:"headers,omitzero" doc:"a request for which these conditions hold, and those on cookies, goes to this cluster whatever the weights say; the first such part counts"`
	Cookies []Match   `json:"cookies,omitzero" doc:"the same for cookies"`
}

// Mirror sends copies of requests whose responses are thrown away.
type Mirror struct {
	Cluster ClusterID `json:"cluster" required:"true" doc:"where the copies go"`
	Percent float64   `json:"percent" required:"true" range:"0..100" doc:"how many of 100 requests are copied"`
}

// Redirect answers with a Location header.
type Redirect struct {
	To     Target `json:"to" required:"true" doc:"a path or an http(s) URL; {name} in its path is what stood for that parameter or catch-all of the route's path; without a host the client's is kept, without a query the request's; ? alone at the end drops it"`
	Status int    `json:"status,omitzero" range:"300..399" default:"308" doc:"301, 302, 303, 307 or 308"`
}

// Respond answers with fixed content.
type Respond struct {
	Status      int                        `json:"status,omitzero" range:"200..599" default:"200" doc:"status code"`
	Body        string                     `json:"body,omitzero" doc:"the body"`
	ContentType MediaType                  `json:"contentType,omitzero" default:"text/plain; charset=utf-8" doc:"media type of the body"`
	Headers     map[HeaderName]HeaderValue `json:"headers,omitzero" doc:"further headers, without Content-Type and ETag"`
}

// Static answers with files of a directory.
type Static struct {
	Directory string `json:"directory" required:"true" doc:"where the files are"`
	Index     string `json:"index,omitzero" default:"index.html" doc:"file that answers for a directory"`
	Fallback  string `json:"fallback,omitzero" doc:"file that answers a page view when no file matches"`
}

// Rewrite changes the path of the request as it is forwarded, like
// regexp.ReplaceAll. Nothing but letters, digits, - . _ ~ loses its escape.
type Rewrite struct {
	Regex Regex  `json:"regex" required:"true" doc:"what to look for in the path; it sees letters, digits, - . _ ~ without escapes, and the escapes of all else in upper case; ^ and $ anchor it; on a caseInsensitive route as with (?i); every match is replaced, and a path without one is forwarded as it came"`
	To    string `json:"to,omitzero" doc:"what takes its place, escaped as in a path; $1 is the first group, ${name} a named one, $$ a $; nothing: it is taken away"`
}

// Transforms changes a request on its way to the backend and the response on
// its way back.
type Transforms struct {
	Request  *HeaderChanges `json:"request,omitzero" doc:"headers of the request; set may hold Host, as host or host:port: what the backend sees"`
	Response *HeaderChanges `json:"response,omitzero" doc:"headers of the response"`
	Query    *QueryChanges  `json:"query,omitzero" doc:"query parameters of the request"`
}

// HeaderChanges are applied in the order remove, set, append.
type HeaderChanges struct {
	Set    map[HeaderName]HeaderValue `json:"set,omitzero" doc:"header gets this value, whatever it had, also when it was spelled with _ for -"`
	Append map[HeaderName]HeaderValue `json:"append,omitzero" doc:"value is added to what the header has"`
	Remove []HeaderName               `json:"remove,omitzero" doc:"header is taken away, also when it is spelled with _ for -"`
}

// QueryChanges are applied in the order remove, set.
type QueryChanges struct {
	Set    map[string]string `json:"set,omitzero" doc:"parameter gets this value, whatever it had; a query that servers read in different ways is then answered with 400"`
	Remove []string          `json:"remove,omitzero" doc:"parameter is taken away; a query that servers read in different ways is then answered with 400"`
}

// RouteAuth is what a route asks of a token.
type RouteAuth struct {
	Provider Name    `json:"provider,omitzero" doc:"a provider of gateway/config/auth; default: the only one, else main"`
	Claims   []Claim `json:"claims,omitzero" doc:"claims that must all hold; none: any valid token will do"`
}

// Claim is one required claim, by value or allowedValues; with neither the
// claim must only be there.
type Claim struct {
	Type          string   `json:"type" required:"true" doc:"name of the claim"`
	Value         string   `json:"value,omitzero" doc:"must be this"`
	AllowedValues []string `json:"allowedValues,omitzero" doc:"must be one of these"`
}

// Limits bounds what a route or a tenant may use; 0 or absent is no bound.
type Limits struct {
	Rate          Name `json:"rate,omitzero" doc:"a rate policy under gateway/policies/"`
	MaxConcurrent int  `json:"maxConcurrent,omitzero" range:"0..10000000" doc:"requests at the same time"`
	MaxBodyBytes  Size `json:"maxBodyBytes,omitzero" doc:"size of a request body"`
	MaxLongLived  int  `json:"maxLongLived,omitzero" range:"0..10000000" doc:"long-lived connections at the same time"`
}

// Retry says when a request is sent once more. A request that may have been
// executed is repeated only if its method is listed.
type Retry struct {
	Attempts      int       `json:"attempts,omitzero" range:"0..10" doc:"further attempts after the first; 0: none"`
	On            []RetryOn `json:"on,omitzero" default:"connect" doc:"connect (no destination could be reached), reset (no valid response), timeout or a status code"`
	Methods       []Method  `json:"methods,omitzero" default:"GET, HEAD, OPTIONS, PUT, DELETE" doc:"methods that may be executed twice; none that is not idempotent, as POST and PATCH"`
	BudgetPercent int       `json:"budgetPercent,omitzero" range:"1..100" default:"20" doc:"retries among 100 requests that the cluster has in flight; three are always allowed"`
	PerTryTimeout Duration  `json:"perTryTimeout,omitzero" range:"1ms.." doc:"bound of each attempt, as timeout is that of all together; absent: timeout"`
}

// DefaultRetryBudget is a Retry's BudgetPercent.
const DefaultRetryBudget = 20

// DefaultRetryMethods are a Retry's Methods.
func DefaultRetryMethods() []Method { return []Method{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"} }

// CORS answers browsers whose page came from another origin.
type CORS struct {
	Meta
	Origins       []Origin     `json:"origins,omitzero" doc:"origins that may read responses, as https://app.example.com, or *"`
	Methods       []Method     `json:"methods,omitzero" default:"GET, HEAD, POST" doc:"methods they may use"`
	Headers       []HeaderName `json:"headers,omitzero" doc:"request headers they may set"`
	ExposeHeaders []HeaderName `json:"exposeHeaders,omitzero" doc:"response headers they may read"`
	Credentials   bool         `json:"credentials,omitzero" doc:"they may send cookies and tokens"`
	MaxAge        Duration     `json:"maxAge,omitzero" range:"1s..24h" doc:"how long a browser may keep the answer to a preflight"`
}

// Compression of responses; never of event streams, gRPC and ranges.
type Compression struct {
	Meta
	Enabled    *bool       `json:"enabled,omitzero" default:"true" doc:"false switches it off"`
	Algorithms []string    `json:"algorithms,omitzero" enum:"gzip|zstd" default:"zstd, gzip" doc:"what is offered, the best first"`
	MinSize    Size        `json:"minSize,omitzero" default:"1KiB" doc:"smaller responses are left alone"`
	Types      []MediaType `json:"types,omitzero" doc:"media types that are compressed"`
}
