package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func (r *Route) check(c *checks) {
	c.repeats(&r.RouteID, c.d.lastStep())
	r.checkWhere(c)
	r.checkTarget(c)
	r.checkPaths(c)
	noticeColons(c, r.Path)
	checkRedirect(c, r.Path, r.Redirect)
	r.checkConditions(c)
	checkAccess(c, r.RequireAuth, r.AllowAnonymous)
	if r.Auth != nil {
		checkClaims(c, "auth.claims", r.Auth.Claims, r.AllowAnonymous)
	}
	noticeCap(c, "timeout", r.Timeout)
}

// repeats makes sure that an id in the body is the key's, and drops it: it is
// never stored.
func (c *checks) repeats(id *RouteID, key string) {
	if *id != "" && string(*id) != key {
		c.fault("routeId", "is not the %q of the key", key)
	}
	*id = ""
}

func (d *decoder) lastStep() string { return d.key[strings.LastIndexByte(d.key, '/')+1:] }

func (r *Route) checkWhere(c *checks) {
	if c.exclusive(choice{"path", r.Path != ""}, choice{"pathRegex", r.PathRegex != ""}) == 0 && !r.hides() {
		c.fault("path", "is missing: which paths it takes, as /booking/{**rest}, or /{**rest} for all")
	}
	unique(c, "hosts", r.Hosts)
	unique(c, "methods", r.Methods)
	unique(c, "clients", r.Clients)
}

// hides says whether the route is there only to hide its id, for which it needs
// neither a path nor a target.
func (r *Route) hides() bool { return r.Enabled != nil && !*r.Enabled }

// targets are the fields that say where requests go, of which a route has one.
func (r *Route) targets() []choice {
	return []choice{
		{"backends", len(r.Backends) > 0},
		{"cluster", r.Cluster != ""},
		{"split", len(r.Split) > 0},
		{"redirect", r.Redirect != nil},
		{"respond", r.Respond != nil},
		{"static", r.Static != nil},
	}
}

func (r *Route) checkTarget(c *checks) {
	targets := r.targets()
	switch given := c.exclusive(targets...); {
	case given == 0 && r.hides():
		return
	case given == 0:
		c.fault("", "route %q: no backends: give backends, or one of cluster, split, redirect, respond, static", c.d.lastStep())
		return
	case given == 1 && (r.Redirect != nil || r.Respond != nil):
		r.refuseForwarding(c)
	}
	unique(c, "backends", r.Backends)
	r.checkType(c, targets)
	checkSplit(c, r.Split)
	if r.SplitOn != "" && len(r.Split) == 0 && !c.failed("split") {
		c.fault("splitOn", "needs split, whose parts it chooses from")
	}
}

// refuseForwarding is for a route that sends no request on.
func (r *Route) refuseForwarding(c *checks) {
	changes := r.Changes
	if changes == nil {
		changes = new(Transforms)
	}
	limits := r.Limits
	if limits == nil {
		limits = new(Limits)
	}
	for _, f := range []choice{
		{"pathRemovePrefix", r.PathRemovePrefix != ""},
		{"pathPrefix", r.PathPrefix != ""},
		{"rewrite", r.Rewrite != nil},
		{"transforms.request", changes.Request != nil},
		{"transforms.query", changes.Query != nil},
		{"timeout", r.Timeout != 0},
		{"idleTimeout", r.IdleTimeout != 0},
		{"mirror", r.Mirror != nil},
		{"retry", r.Retry != nil},
		{"limits.maxConcurrent", limits.MaxConcurrent > 0},
		{"limits.maxBodyBytes", limits.MaxBodyBytes > 0},
	} {
		if f.given {
			c.fault(f.name, "is about forwarding, and this route answers itself")
		}
	}
}

// checkType holds the type against what the other fields say.
func (r *Route) checkType(c *checks, targets []choice) {
	meant := "proxy"
	for _, target := range targets[3:] {
		if target.given {
			meant = target.name
		}
	}
	if r.Type != "" && r.Type != meant {
		c.fault("type", "does not fit the other fields, which make it %s: leave type out", meant)
	}
}

func checkSplit(c *checks, split []Share) {
	sum := 0
	seen := map[ClusterID]bool{}
	for i, share := range split {
		sum += share.Weight
		if share.Cluster != "" && seen[share.Cluster] {
			c.fault(fmt.Sprintf("split[%d].cluster", i), "is there twice: add up the weights")
		}
		seen[share.Cluster] = true
		checkHeaderNames(c, fmt.Sprintf("split[%d].headers", i), share.Headers)
		for j, cookie := range share.Cookies {
			if cookie.Name != "" && !tokenSyntax.MatchString(cookie.Name) {
				c.fault(fmt.Sprintf("split[%d].cookies[%d].name", i, j), "is not the name of a cookie")
			}
		}
	}
	if len(split) > 0 && sum == 0 && !c.failed("split") {
		c.fault("split", "every weight is 0: no cluster would take a request")
	}
}

func (r *Route) checkPaths(c *checks) {
	checkRemoved(c, r.Path, r.PathRemovePrefix)
	if r.Rewrite == nil {
		return
	}
	for _, other := range []choice{{"pathRemovePrefix", r.PathRemovePrefix != ""}, {"pathPrefix", r.PathPrefix != ""}} {
		if other.given && !c.failed(other.name) {
			c.fault(other.name, "cannot stand beside rewrite: let the rewrite do both")
		}
	}
}

// checkRemoved makes sure that the segments to remove are there in every path.
func checkRemoved(c *checks, path, prefix Path) {
	switch {
	case prefix == "" || c.failed("path") || c.failed("pathRemovePrefix"):
	case path == "":
		c.fault("pathRemovePrefix", "needs a path, whose first segments it names")
	case prefix.Template().CatchAll():
		c.fault("pathRemovePrefix", "must not hold a catch-all: nothing would be left of the path")
	case !path.Template().HasPrefix(prefix.Template()):
		c.fault("pathRemovePrefix", "not a prefix of path %q, segment by segment", string(path))
	}
}

func (r *Route) checkConditions(c *checks) { checkHeaderNames(c, "headers", r.Headers) }

func checkHeaderNames(c *checks, list string, headers []Match) {
	for i, h := range headers {
		field := fmt.Sprintf("%s[%d].name", list, i)
		switch {
		case h.Name == "": // said already
		case !tokenSyntax.MatchString(h.Name):
			c.fault(field, "is not the name of a header")
		case isHost(h.Name):
			c.fault(field, "the host is no header here: use hosts")
		case isHopHeader(h.Name):
			c.fault(field, "header %s belongs to the connection: it never reaches a route", h.Name)
		}
	}
}

func (p *PathPolicy) check(c *checks) {
	unique(c, "allow", p.Allow)
	unique(c, "refuse", p.Refuse)
	for i, item := range p.Refuse {
		if item != "" && slices.Contains(p.Allow, item) {
			c.fault(fmt.Sprintf("refuse[%d]", i), "cannot stand in both allow and refuse")
		}
	}
}

func (m *Match) check(c *checks) {
	given := c.exclusive(
		choice{"value", m.Value != ""}, choice{"values", len(m.Values) > 0},
		choice{"present", m.Present != nil}, choice{"regex", m.Regex != ""},
	)
	if given == 0 {
		c.fault("", "condition on %q: give value, values, present or regex", shorten(m.Name))
	}
}

// checkAccess refuses what cannot both hold.
func checkAccess(c *checks, require, anonymous bool) {
	if require && anonymous {
		c.fault("allowAnonymous", "cannot stand beside requireAuth: a route either asks for a token or does not")
	}
}

// checkClaims keeps claims from being listed where nobody asks for a token.
func checkClaims(c *checks, field string, claims []Claim, anonymous bool) {
	if anonymous && len(claims) > 0 {
		c.fault(field, "cannot stand beside allowAnonymous: without a token there are no claims")
	}
}

// noticeCap tells that a timeout may not count in full.
func noticeCap(c *checks, field string, timeout Duration) {
	if time.Duration(timeout) > DefaultTimeoutCap {
		c.notice(field, "counts as %s, unless gateway/config/timeouts sets a higher cap", Duration(DefaultTimeoutCap))
	}
}

func (r *Redirect) check(c *checks) {
	if r.Status != 0 && !slices.Contains([]int{301, 302, 303, 307, 308}, r.Status) && !c.failed("status") {
		c.fault("status", "must be 301, 302, 303, 307 or 308")
	}
}

func (r *Respond) check(c *checks) {
	if r.Body != "" && slices.Contains([]int{204, 205, 304}, r.Status) {
		c.fault("body", "a response of status %d has no body", r.Status)
	}
	if strings.Contains(string(r.ContentType), "/*") {
		c.fault("contentType", "must be one media type")
	}
	for name := range r.Headers {
		r.checkHeader(c, "headers."+string(name), name)
	}
}

// checkHeader refuses what follows from the other fields.
func (r *Respond) checkHeader(c *checks, field string, name HeaderName) {
	switch strings.ToLower(string(name)) {
	case "content-type":
		c.fault(field, "use contentType")
	case "etag":
		c.fault(field, "the gateway makes it from the body")
	case "host":
		c.fault(field, "a response has no host")
	default:
		checkHeader(c, field, name)
	}
}

func (cl *Claim) check(c *checks) {
	c.exclusive(choice{"value", cl.Value != ""}, choice{"allowedValues", len(cl.AllowedValues) > 0})
}

func (r *Retry) check(c *checks) {
	unique(c, "on", r.On)
	unique(c, "methods", r.Methods)
	for i, method := range r.Methods {
		if !slices.Contains(idempotent, method) {
			c.fault(fmt.Sprintf("methods[%d]", i), "is not idempotent (RFC 9110 §9.2.2): the gateway executes no such request twice")
		}
	}
	if slices.Contains(r.On, "timeout") && r.PerTryTimeout == 0 && !c.failed("perTryTimeout") {
		c.notice("on", "timeout needs perTryTimeout: else the first attempt takes all the time that there is")
	}
}

// idempotent methods are those of RFC 9110 §9.2.2 and others that the IANA's
// registry calls safe, or idempotent without an If field.
var idempotent = []Method{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "PROPFIND", "REPORT", "SEARCH", "QUERY"}

func (o *CORS) check(c *checks) {
	unique(c, "origins", o.Origins)
	if o.Credentials && slices.Contains(o.Origins, "*") {
		c.fault("credentials", "browsers refuse credentials for every origin (*): list the origins")
	}
}
