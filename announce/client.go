package announce

import (
	"context"
	"net"
	"net/http"

	"grapevine/announce/reach"
)

// clientOf speaks to the agent at p and nobody else. No proxy of the environment
// stands between a service and its agent.
func clientOf(d reach.Dial, p reach.Place) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return d(ctx, p) },
			DisableKeepAlives: true, // calls beside the announcement are rare, and leave nothing behind
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
