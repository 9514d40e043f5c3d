package announcing

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"grapevine/gateway/spec"
)

// HashToken is a token as gateway/config/announce names it: its SHA-256 in lower-case hexadecimal digits. The hash of no token
// is empty.
func HashToken(token string) string {
	if token == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// allowed says why the policy does not let an announcement in, nil if it does. Without a policy everybody may announce who
// reaches the API: that is the unix socket and loopback.
func allowed(policy *spec.Announce, a Announcement, token string) error {
	if policy == nil || policy.Default != "deny" {
		return nil
	}
	for _, grant := range policy.Grants {
		if sameToken(string(grant.Token), token) && covers(grant, a) {
			return nil
		}
	}
	whose := "without a token"
	if token != "" {
		whose = "with the token of hash " + token[:12] + "…"
	}
	return &DeniedError{fmt.Sprintf("gateway/config/announce grants nobody %s route %q at path %q", whose, a.Route, a.Instance.Path)}
}

func sameToken(hash, token string) bool {
	return token != "" && subtle.ConstantTimeCompare([]byte(strings.ToLower(hash)), []byte(token)) == 1
}

// covers tells whether a grant is for a route and a path. Where a grant names none, all are meant.
func covers(grant spec.Grant, a Announcement) bool {
	route := func(pattern string) bool {
		start, open := strings.CutSuffix(pattern, "*")
		return strings.EqualFold(pattern, a.Route) || open && strings.HasPrefix(a.Route, strings.ToLower(start))
	}
	path := func(pattern string) bool { return coversPath(pattern, a.Instance.Path.Template()) }
	return (len(grant.Routes) == 0 || slices.ContainsFunc(grant.Routes, route)) &&
		(len(grant.Paths) == 0 || slices.ContainsFunc(grant.Paths, path))
}

// coversPath tells whether all that a template matches is below a pattern as /warehouse/**; without /** only that very
// template is meant. A parameter of the template is covered by nothing but /**: it may stand for any segment.
func coversPath(pattern string, t spec.Template) bool {
	start, below := strings.CutSuffix(pattern, "/**")
	want, err := spec.ParseTemplate(cmp.Or(start, "/"))
	if err != nil || len(t.Segments) < len(want.Segments) || !below && len(t.Segments) != len(want.Segments) {
		return false
	}
	for i, segment := range want.Segments {
		if got := t.Segments[i]; got.Kind != segment.Kind || got.Kind == spec.Literal && got.Text != segment.Text {
			return false
		}
	}
	return true
}
