package mux

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// maxStrangers bounds the connections whose peers are not known: those that
// shake hands, and those that want to join. A thousand nodes that come back at
// once are let in over a few attempts.
const maxStrangers = 256

// gate bounds the connections whose peer is not known. When it is full a new one
// gets in all the same, and the oldest of the source that holds the most places
// has to go: whoever holds connections open only takes his own places away.
type gate struct {
	logger *slog.Logger

	// mu guards what follows, and the fields of all places.
	mu    sync.Mutex
	full  bool // was, and has been told
	count int
	next  uint64 // number of the next place
	held  map[string][]*place
}

// place is a connection's in the gate.
type place struct {
	gate   *gate
	conn   net.Conn
	source string
	number uint64
	out    bool // it had to go
}

func newGate(logger *slog.Logger) *gate {
	return &gate{logger: logger, held: map[string][]*place{}}
}

// enter gives a connection its place.
func (g *gate) enter(conn net.Conn) *place {
	p := &place{gate: g, conn: conn, source: source(conn.RemoteAddr())}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count == maxStrangers {
		g.evict()
	}
	p.number = g.next
	g.next++
	g.count++
	g.held[p.source] = append(g.held[p.source], p)
	return p
}

// evict makes room. The caller holds mu.
func (g *gate) evict() {
	var worst *place
	for _, places := range g.held {
		oldest, most := places[0], 0
		if worst != nil {
			most = len(g.held[worst.source])
		}
		if len(places) > most || len(places) == most && oldest.number < worst.number {
			worst = oldest
		}
	}
	if !g.full {
		g.full = true
		g.logger.Warn("many handshakes at once: the oldest have to go", "under way", g.count, "most from", worst.source)
	}
	worst.out = true
	g.remove(worst)
	worst.conn.Close() // its handshake tells
}

// remove takes a place away, if it is there. The caller holds mu.
func (g *gate) remove(p *place) {
	places := g.held[p.source]
	i := slices.Index(places, p)
	if i < 0 {
		return
	}
	if places = slices.Delete(places, i, i+1); len(places) == 0 {
		delete(g.held, p.source)
	} else {
		g.held[p.source] = places
	}
	g.count--
	if g.count < maxStrangers/2 {
		g.full = false
	}
}

// leave gives the place back; again is as good as once.
func (p *place) leave() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.gate.remove(p)
}

// evicted reports whether the connection had to go.
func (p *place) evicted() bool {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	return p.out
}

// source is what counts as one sender: an IPv4 address, or an IPv6 network of 64
// bits, of which one host may have all addresses (RFC 4291 §2.5.1).
func source(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return addr.String()
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}
