package http1_test

import "testing"

// A request of HTTP/1.0 may have no Host. It is sent on in HTTP/1.1, where there has
// to be one that is valid, and it is for the destination itself.
func TestUpstreamRequestWithoutAuthority(t *testing.T) {
	heads := make(chan string, 1)
	d := serveRaw(t, func(c *visit) {
		heads <- c.head()
		c.say(helloOK)
		c.untilClosed()
	})
	x := ask("GET", "/")
	x.Request.Authority = nil
	expect(t, "answer", outcome(newUpstream(t, d), x, wide), "200 hello")
	expect(t, "request", <-heads, "GET / HTTP/1.1\r\nHost: "+d.origin().Host+"\r\n\r\n")
	if len(x.Request.Authority) > 0 {
		t.Errorf("the exchange is changed: %q", x.Request.Authority)
	}
}
