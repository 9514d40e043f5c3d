package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"grapevine/gateway/balance"
	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// affinity keeps clients on the destinations that they have, by a cookie that
// names one. The name is a keyed hash of its address: every node computes the
// same one, from what all nodes of a cluster know and nobody else does, and no
// address can be learned from it.
type affinity struct {
	cookie string
	names  map[string]int // indexes of the destinations by what the cookie says
	lines  []cookieLines  // of each destination
}

// cookieLines are the values of Set-Cookie over http and over https.
type cookieLines struct{ plain, secure []byte }

// affinityName is 96 bits: enough that two destinations never share one.
const affinityName = 12

// newAffinity gives nil for a cluster without it. secret is known to the nodes
// alone.
func newAffinity(c *cluster, secret []byte) *affinity {
	policy := c.planned.policy.Affinity
	if policy == nil {
		return nil
	}
	a := &affinity{cookie: string(policy.Cookie), names: map[string]int{}}
	for i, d := range c.destinations {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "grapevine affinity\x00%s\x00%s", c.id, d.address)
		name := base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:affinityName])
		if _, twice := a.names[name]; !twice {
			a.names[name] = i
		}
		a.lines = append(a.lines, newCookieLines(policy, name))
	}
	return a
}

func newCookieLines(policy *spec.Affinity, value string) cookieLines {
	line := string(policy.Cookie) + "=" + value + "; Path=/; HttpOnly; SameSite=Lax"
	if policy.TTL > 0 {
		line += fmt.Sprintf("; Max-Age=%d", max(time.Duration(policy.TTL)/time.Second, 1))
	}
	return cookieLines{plain: []byte(line), secure: []byte(line + "; Secure")}
}

// of gives the destination that the request's cookie names, -1 for none.
func (a *affinity) of(x *exchange.Request) int {
	if value := balance.Cookie(x.Fields, a.cookie); len(value) > 0 {
		if i, known := a.names[string(value)]; known {
			return i
		}
	}
	return -1
}

// keep has the client come back to the destination that answered. A client that
// does already is told nothing. A nil affinity does nothing.
func (a *affinity) keep(x *exchange.Exchange, i int) {
	if a == nil || a.of(&x.Request) == i {
		return
	}
	line := a.lines[i].plain
	if x.Request.Scheme == "https" {
		line = a.lines[i].secure
	}
	x.Response.Fields.Add("Set-Cookie", line)
}

// first gives the index of the destination to try first, -1 when there is none:
// the client's own while it is well, else the balancer's choice.
func (c *cluster) first(l *lineup, x *exchange.Request) int {
	if c.affinity != nil {
		if i := c.affinity.of(x); i >= 0 && l.may[i] {
			return i
		}
	}
	return l.pick(c.state.turn.Add(1)-1, x)
}
