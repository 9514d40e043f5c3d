package mux_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"grapevine/agent/mux"
)

func TestWhichAddressIsAdvertised(t *testing.T) {
	routes := map[string]string{"10.0.0.5:7946": "10.0.0.9", "[2001:db8::5]:7946": "2001:db8::9", "127.0.0.1:7000": "127.0.0.1", "gw.example.com:7946": "10.0.0.9"}
	for _, test := range []struct {
		name, listen, wanted, seeds, local string
		want, how                          string // or
		problem                            []string
	}{
		{name: "what is wanted", listen: "0.0.0.0:7946", wanted: "203.0.113.7:17946", want: "203.0.113.7:17946", how: "--advertise"},
		{name: "its port is that of the listener", listen: "0.0.0.0:7946", wanted: "203.0.113.7", want: "203.0.113.7:7946", how: "--advertise"},
		{name: "IPv6", listen: "[::]:7946", wanted: "[2001:db8::1]:7946", want: "[2001:db8::1]:7946", how: "--advertise"},
		{name: "IPv6 without a port", listen: "[::]:7946", wanted: "2001:db8::1", want: "[2001:db8::1]:7946", how: "--advertise"},
		{name: "behind a forwarded port", listen: "127.0.0.1:7946", wanted: "203.0.113.7:7946", seeds: "10.0.0.5:7946", want: "203.0.113.7:7946", how: "--advertise"},
		{name: "every address", listen: "0.0.0.0:7946", wanted: "0.0.0.0:7946", problem: []string{`--advertise "0.0.0.0:7946"`, "every address"}},
		{name: "every address, IPv6", listen: "0.0.0.0:7946", wanted: "[::]:7946", problem: []string{"every address"}},
		{name: "every address, mapped", listen: "0.0.0.0:7946", wanted: "[::ffff:0.0.0.0]:7946", problem: []string{"every address"}},
		{name: "multicast", listen: "0.0.0.0:7946", wanted: "224.0.0.1:7946", problem: []string{"no address of one host"}},
		{name: "broadcast", listen: "0.0.0.0:7946", wanted: "255.255.255.255:7946", problem: []string{"no address of one host"}},
		{name: "port 0", listen: "0.0.0.0:7946", wanted: "10.0.0.1:0", problem: []string{"port 0"}},
		{name: "a name", listen: "0.0.0.0:7946", wanted: "gw.example.com:7946", problem: []string{`"gw.example.com:7946"`, "want an IP address"}},
		{name: "loopback for others", listen: "0.0.0.0:7946", wanted: "127.0.0.1:7946", seeds: "10.0.0.5:7946", problem: []string{"--advertise", "loopback", "10.0.0.5:7946"}},

		{name: "where it listens", listen: "10.0.0.3:7946", seeds: "10.0.0.5:7946", want: "10.0.0.3:7946", how: "--gossip"},
		{name: "alone on loopback", listen: "127.0.0.1:7946", want: "127.0.0.1:7946", how: "--gossip"},
		{name: "all on loopback", listen: "127.0.0.1:7946", seeds: "127.0.0.1:7000 localhost:7001 [::1]:7002", want: "127.0.0.1:7946", how: "--gossip"},
		{name: "loopback, and seeds elsewhere", listen: "127.0.0.1:7946", seeds: "127.0.0.1:7000 10.0.0.5:7946", problem: []string{"--gossip 127.0.0.1:7946", "10.0.0.5:7946", "--gossip 0.0.0.0:7946", "--advertise"}},
		{name: "loopback, and a seed with a name", listen: "[::1]:7946", seeds: "gw.example.com:7946", problem: []string{"gw.example.com:7946"}},

		{name: "the way to a seed", listen: "0.0.0.0:7946", seeds: "10.0.0.5:7946", want: "10.0.0.9:7946", how: "the way to 10.0.0.5:7946"},
		{name: "the way to the second seed", listen: "[::]:7946", seeds: "10.9.9.9:1 [2001:db8::5]:7946", want: "[2001:db8::9]:7946", how: "the way to [2001:db8::5]:7946"},
		{name: "seeds on this host", listen: "0.0.0.0:7946", seeds: "127.0.0.1:7000", want: "127.0.0.1:7946", how: "the way to 127.0.0.1:7000"},
		{name: "a private address first", listen: "0.0.0.0:7946", local: "127.0.0.1 203.0.113.7 192.168.1.4 10.0.0.9", want: "192.168.1.4:7946", how: "an interface of this host"},
		{name: "a public one", listen: "0.0.0.0:7946", local: "127.0.0.1 2001:db8::9 203.0.113.7", want: "203.0.113.7:7946", how: "an interface of this host"},
		{name: "IPv6 alone", listen: "[::]:7946", local: "::1 fe80::1 2001:db8::9", want: "[2001:db8::9]:7946", how: "an interface of this host"},
		{name: "loopback alone", listen: "0.0.0.0:7946", local: "127.0.0.1 169.254.1.1", want: "127.0.0.1:7946", how: "an interface of this host"},
		{name: "nothing", listen: "0.0.0.0:7946", local: "fe80::1", problem: []string{"no address", "--advertise"}},
		{name: "no way and no interfaces", listen: "0.0.0.0:7946", seeds: "10.9.9.9:1", problem: []string{"no route", "no interfaces", "--advertise"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := mux.Reachable{
				Route: func(address string) (netip.Addr, error) {
					if ip, ok := routes[address]; ok {
						return netip.ParseAddr(ip)
					}
					return netip.Addr{}, errors.New("no route")
				},
				Local: func() (list []netip.Addr, err error) {
					if test.local == "" {
						return nil, errors.New("no interfaces")
					}
					for _, s := range strings.Fields(test.local) {
						list = append(list, netip.MustParseAddr(s))
					}
					return list, nil
				},
			}
			got, err := r.Find(netip.MustParseAddrPort(test.listen), test.wanted, strings.Fields(test.seeds))
			if test.problem != nil {
				wantError(t, err, test.problem...)
				return
			}
			if err != nil || got.Address.String() != test.want || got.How != test.how {
				t.Errorf("%s by %s, %v, want %s by %s", got.Address, got.How, err, test.want, test.how)
			}
		})
	}
}

func TestTheSystemKnowsAnAddress(t *testing.T) {
	got, err := mux.Reachable{}.Find(netip.MustParseAddrPort("0.0.0.0:7946"), "", []string{"127.0.0.1:9"})
	if err != nil || got.Address.String() != "127.0.0.1:7946" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := (mux.Reachable{}).Find(netip.MustParseAddrPort("0.0.0.0:7946"), "", nil); err != nil || got.Address.Addr().IsUnspecified() {
		t.Errorf("%v, %v", got, err)
	}
}
