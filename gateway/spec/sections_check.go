package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

func (t *Timeouts) check(c *checks) {
	limit := cmp.Or(t.Cap, Duration(DefaultTimeoutCap))
	if t.Timeout > limit {
		c.notice("timeout", "counts as the cap, %s", limit)
	}
}

func (r *Ready) check(c *checks) { unique(c, "require", r.Require) }

func (p *ProbePaths) check(c *checks) {
	seen := map[Prefix]string{}
	for _, probe := range []struct {
		name  string
		paths []Prefix
	}{{"live", p.Live}, {"ready", p.Ready}, {"startup", p.Startup}} {
		for i, path := range probe.paths {
			field := fmt.Sprintf("%s[%d]", probe.name, i)
			if first, ok := seen[path]; ok && path != "" {
				c.fault(field, "is the same as %s", first)
				continue
			}
			seen[path] = field
		}
	}
}

func (h *Headers) check(c *checks) {
	unique(c, "trustedProxies", h.TrustedProxies)
	switch {
	case h.TrustAllProxies && len(h.TrustedProxies) > 0:
		c.fault("trustAllProxies", "cannot stand beside trustedProxies: a list means no others are trusted")
	case h.TrustAllProxies:
		c.notice("trustAllProxies", "every client can now claim any address: only right behind an ingress that sets X-Forwarded-* itself")
	}
}

func (p *Provider) check(c *checks) {
	mayBePlain := p.RequireHTTPSMetadata != nil && !*p.RequireHTTPSMetadata
	if strings.HasPrefix(string(p.Authority), "http://") && !mayBePlain {
		c.fault("authority", "must be https, unless requireHttpsMetadata is false")
	}
}

func (e *Edge) check(c *checks) {
	unique(c, "bypassPathPrefixes", e.BypassPathPrefixes)
	if i := slices.Index(e.BypassPathPrefixes, "/"); i >= 0 {
		c.notice(fmt.Sprintf("bypassPathPrefixes[%d]", i), "exempts every request from the limits")
	}
}

func (g *Grant) check(c *checks) {
	for i, path := range g.Paths {
		if path != "" && !strings.HasPrefix(path, "/") {
			c.fault(fmt.Sprintf("paths[%d]", i), "must begin with /")
		}
	}
}

func (t *Tenancy) check(c *checks) {
	unique(c, "resolvers", t.Resolvers)
	i := slices.Index(t.Resolvers, "subdomain")
	if i >= 0 && t.Domain == "" && !c.failed("domain") {
		c.fault(fmt.Sprintf("resolvers[%d]", i), "needs domain: whose subdomains are tenants")
	}
	if _, wildcard := t.Domain.Wildcard(); wildcard {
		c.fault("domain", "must be the domain itself, without *.")
	}
}
