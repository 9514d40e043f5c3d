package mux

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Reachable finds the address under which others reach this node. The zero value
// asks the system.
type Reachable struct {
	// Route gives the address from which packets to address, host:port, leave.
	Route func(address string) (netip.Addr, error)
	// Local gives the addresses of this host.
	Local func() ([]netip.Addr, error)
}

// Advertised is an address, and how it was found.
type Advertised struct {
	Address netip.AddrPort
	How     string // for people, as "the way to 10.0.0.5:7946"
}

// Find gives the address to advertise: the wanted one (IP or IP:port, "" for
// none) else the one that the node listens on, and where that is every address,
// the one from which it reaches the seeds, else the first of the host that others
// may reach. Seeds are host:port. What can't work is refused.
func (r Reachable) Find(listen netip.AddrPort, wanted string, seeds []string) (Advertised, error) {
	if wanted != "" {
		address, err := parseWanted(wanted, listen.Port())
		if err == nil {
			err = checkLoopback(address.Addr(), seeds, "others would take it for themselves; advertise one that they reach")
		}
		if err != nil {
			return Advertised{}, fmt.Errorf("--advertise %q: %w", wanted, err)
		}
		return Advertised{address, "--advertise"}, nil
	}
	if !listen.Addr().IsUnspecified() {
		if err := checkLoopback(listen.Addr(), seeds, "nobody on another host reaches this node there; listen with --gossip 0.0.0.0:7946, or say with --advertise where it is reached"); err != nil {
			return Advertised{}, fmt.Errorf("--gossip %s: %w", listen, err)
		}
		return Advertised{unmap(listen), "--gossip"}, nil
	}
	ip, how, err := r.detect(seeds)
	if err != nil {
		return Advertised{}, err
	}
	return Advertised{netip.AddrPortFrom(ip, listen.Port()), how}, nil
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

func parseWanted(wanted string, port uint16) (netip.AddrPort, error) {
	address, err := netip.ParseAddrPort(wanted)
	if err != nil {
		ip, ipErr := netip.ParseAddr(strings.Trim(wanted, "[]"))
		if ipErr != nil {
			return netip.AddrPort{}, errors.New("want an IP address with or without a port, as 10.0.0.5:7946: a name may mean another address on each host")
		}
		address = netip.AddrPortFrom(ip, port)
	}
	address = unmap(address)
	switch ip := address.Addr(); {
	case ip.IsUnspecified():
		return netip.AddrPort{}, errors.New("stands for every address of a host; advertise one of them")
	case ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return netip.AddrPort{}, errors.New("is no address of one host")
	case address.Port() == 0:
		return netip.AddrPort{}, errors.New("port 0 is none that others can dial")
	}
	return address, nil
}

// checkLoopback refuses a loopback address where seeds are on other hosts.
func checkLoopback(ip netip.Addr, seeds []string, why string) error {
	if !ip.Unmap().IsLoopback() {
		return nil
	}
	for _, seed := range seeds {
		if !isLoopback(seed) {
			return fmt.Errorf("is a loopback address, and this node is to join %s: %s", seed, why)
		}
	}
	return nil
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// detect chooses among the host's addresses.
func (r Reachable) detect(seeds []string) (netip.Addr, string, error) {
	route, local := r.Route, r.Local
	if route == nil {
		route = systemRoute
	}
	if local == nil {
		local = systemLocal
	}
	var errs []error
	for _, seed := range seeds {
		ip, err := route(seed)
		if err == nil && !ip.IsUnspecified() {
			return ip.Unmap(), "the way to " + seed, nil
		}
		errs = append(errs, err)
	}
	addresses, err := local()
	if err != nil {
		return netip.Addr{}, "", errors.Join(append(errs, fmt.Errorf("addresses of this host: %w; say with --advertise which others reach", err))...)
	}
	if ip := best(addresses); ip.IsValid() {
		return ip, "an interface of this host", nil
	}
	return netip.Addr{}, "", errors.Join(append(errs, errors.New("this host has no address; say with --advertise which others reach"))...)
}

// systemRoute asks the routing table: to connect a UDP socket sends nothing.
func systemRoute(address string) (netip.Addr, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr(), nil
}

func systemLocal() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addresses = append(addresses, prefix.Addr())
		}
	}
	return addresses, nil
}

// best is the first private IPv4 address, else the first other one, else the
// first IPv6 address, else loopback. Link-local addresses need a zone, which
// means something else on each host.
func best(addresses []netip.Addr) (found netip.Addr) {
	rank := 0
	for _, ip := range addresses {
		if r := rankOf(ip.Unmap()); r > rank {
			found, rank = ip.Unmap(), r
		}
	}
	return found
}

func rankOf(ip netip.Addr) int {
	switch {
	case ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || !ip.IsValid():
		return 0
	case ip.IsLoopback():
		return 1
	case ip.Is6():
		return 2
	case !ip.IsPrivate():
		return 3
	}
	return 4
}
