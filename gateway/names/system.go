package names

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// System looks names up as the host is set up: by its hosts file and its servers
// of names.
type System struct{}

// Lookup asks with Go's own resolver, which can be listened to: the TTL is in the
// answers, and no interface of the system tells it.
func (System) Lookup(ctx context.Context, host string) ([]netip.Addr, time.Duration, error) {
	var heard lowest
	resolver := &net.Resolver{PreferGo: true, Dial: heard.dial}
	addresses, err := resolver.LookupNetIP(ctx, "ip", host)
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	return addresses, heard.ttl(), err
}

// lowest is the lowest TTL in the answers that went by.
type lowest struct {
	// mu guards what follows: the two kinds of addresses are asked for at once.
	mu      sync.Mutex
	seconds uint32
	any     bool
}

func (l *lowest) ttl() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.any {
		return 0
	}
	return max(time.Duration(l.seconds)*time.Second, 1) // 0 would be none
}

// dial listens to what comes over UDP. An answer that is too large for it comes
// over TCP, and has no TTL for us.
func (l *lowest) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if udp, is := conn.(*net.UDPConn); is && err == nil && strings.HasPrefix(network, "udp") {
		return &heardConn{udp, l}, nil
	}
	return conn, err
}

type heardConn struct {
	*net.UDPConn
	lowest *lowest
}

// Read reads one message.
func (c *heardConn) Read(p []byte) (int, error) {
	n, err := c.UDPConn.Read(p)
	if err == nil {
		c.lowest.hear(p[:n])
	}
	return n, err
}

// hear takes the TTLs of a message's answers. The resolver judges the message:
// one that is no answer to its question is heard and changes how long the right
// one counts, within its bounds.
func (l *lowest) hear(message []byte) {
	var p dnsmessage.Parser
	if _, err := p.Start(message); err != nil || p.SkipAllQuestions() != nil {
		return
	}
	for {
		head, err := p.AnswerHeader()
		if err != nil || p.SkipAnswer() != nil {
			return
		}
		l.mu.Lock()
		if !l.any || head.TTL < l.seconds {
			l.seconds, l.any = head.TTL, true
		}
		l.mu.Unlock()
	}
}
