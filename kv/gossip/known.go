package gossip

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	// maxKnown is how many peers are remembered over a restart.
	maxKnown = 16
	// knownName is the Keeper's name for them, one address a line.
	knownName = "gossip/peers"
	// knownPause bounds how often they are written, as every write is synced.
	knownPause = time.Second
)

// load reads the peers of the last run. What is not an address is left out: it
// costs a contact at the next start, no more.
func (r *rejoins) load(k Keeper) {
	if k == nil {
		return
	}
	value, _ := k.Local(knownName)
	for line := range strings.Lines(string(value)) {
		address := strings.TrimSuffix(line, "\n")
		if _, err := netip.ParseAddrPort(address); err == nil && len(r.known) < maxKnown {
			r.known = append(r.known, address)
		}
	}
}

// update puts the living members in front and drops who left for good. It reports
// whether the list is another one now.
func (r *rejoins) update(living, left []string, self string) ([]string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var next []string
	for i, address := range slices.Concat(living, r.known) {
		remembered := i >= len(living)
		if address == self || slices.Contains(next, address) || remembered && slices.Contains(left, address) {
			continue
		}
		if next = append(next, address); len(next) == maxKnown {
			break
		}
	}
	changed := !slices.Equal(next, r.known)
	r.known = next
	return slices.Clone(next), changed
}

// remember keeps the latest peers whenever members change.
func (p *Peer) remember() {
	for {
		changed := p.members.changed.wait()
		living, _, left := p.members.addresses()
		known, isNew := p.rejoins.update(living, left, p.o.Advertise.String())
		if isNew && p.o.Keeper != nil {
			if err := p.o.Keeper.SetLocal(knownName, []byte(strings.Join(known, "\n"))); err != nil {
				p.log.Warn("peers are not remembered", "err", err)
			}
			if !pause(p.ctx.Done(), knownPause) {
				return
			}
		}
		select {
		case <-changed:
		case <-p.ctx.Done():
			return
		}
	}
}
