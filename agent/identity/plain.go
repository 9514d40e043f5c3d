package identity

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Without TLS the client sends one line, and the server answers with one:
//
//	grapevine PROTOCOL NODE ROLE\n     a node that isn't one yet sends - -
//	ok NODE ROLE\n
//	no REASON\n
const (
	greeting = "grapevine"
	nobody   = "-"
	// maxLine bounds a line with its end.
	maxLine = 256
)

// plainConn is a connection without TLS, whose peer said who it is.
type plainConn struct {
	net.Conn
	peer Peer
}

// CheckAddress refuses, for a cluster without TLS, an address that others can
// reach. The address is host:port.
func (i *Identity) CheckAddress(address string) error {
	if !i.Insecure() {
		return nil
	}
	return checkLoopback(address)
}

func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("address %q: is not loopback, and --insecure leaves TLS out, so that whoever reaches it would be taken for a member; use 127.0.0.1, or start without --insecure",
		shorten(address))
}

func (i *Identity) plainServer(ctx context.Context, conn net.Conn, protocols []string) (net.Conn, string, string, error) {
	if err := checkLoopback(conn.RemoteAddr().String()); err != nil {
		return nil, "", "", err
	}
	stop := bind(ctx, conn)
	protocol, peer, err := i.receive(conn, protocols)
	if err != nil {
		fmt.Fprintf(conn, "no %s\n", oneLine(err.Error(), maxLine-len("no \n"))) // best effort: the error is returned anyway
		return nil, "", "", errors.Join(err, stop())
	}
	if _, err := fmt.Fprintf(conn, "ok %s\n", words(i.self)); err != nil {
		return nil, "", "", errors.Join(err, stop())
	}
	return &plainConn{conn, peer}, protocol, peer.Node, stop()
}

// receive reads the client's line and decides.
func (i *Identity) receive(conn net.Conn, protocols []string) (string, Peer, error) {
	line, err := readLine(conn)
	if err != nil {
		return "", Peer{}, err
	}
	protocol, peer, err := parseGreeting(line)
	if err != nil {
		return "", Peer{}, err
	}
	if !slices.Contains(protocols, protocol) {
		return "", Peer{}, fmt.Errorf("protocol %q: is not offered here", shorten(protocol))
	}
	return protocol, peer, i.admit(protocol, peer)
}

func (i *Identity) plainClient(ctx context.Context, conn net.Conn, protocol, node string) (net.Conn, string, error) {
	peer, err := plainHello(ctx, conn, protocol, i.self)
	if err == nil {
		err = i.admit(protocol, peer)
	}
	if err == nil {
		err = expect(peer, node)
	}
	if err != nil {
		return nil, "", err
	}
	return &plainConn{conn, peer}, peer.Node, nil
}

// plainHello greets as self, which is the zero Peer for one that wants to join.
func plainHello(ctx context.Context, conn net.Conn, protocol string, self Peer) (Peer, error) {
	if err := checkLoopback(conn.RemoteAddr().String()); err != nil {
		return Peer{}, err
	}
	stop := bind(ctx, conn)
	_, err := fmt.Fprintf(conn, "%s %s %s\n", greeting, protocol, words(self))
	line := ""
	if err == nil {
		line, err = readLine(conn)
	}
	if err = errors.Join(err, stop()); err != nil {
		return Peer{}, err
	}
	return parseAnswer(line)
}

func parseGreeting(line string) (protocol string, peer Peer, err error) {
	fields := strings.Split(line, " ")
	if len(fields) != 4 || fields[0] != greeting {
		return "", Peer{}, fmt.Errorf("%q: is no greeting of a node without TLS; do both sides run with --insecure?", shorten(line))
	}
	peer, err = parseWords(fields[2], fields[3])
	return fields[1], peer, err
}

func parseAnswer(line string) (Peer, error) {
	if reason, refused := strings.CutPrefix(line, "no "); refused {
		return Peer{}, fmt.Errorf("the node refuses: %s", oneLine(reason, maxLine))
	}
	fields := strings.Split(line, " ")
	if len(fields) != 3 || fields[0] != "ok" {
		return Peer{}, fmt.Errorf("%q: is no answer of a node without TLS; do both sides run with --insecure?", shorten(line))
	}
	return parseWords(fields[1], fields[2])
}

// words are how a peer stands in a line.
func words(p Peer) string {
	if p.Node == "" {
		return nobody + " " + nobody
	}
	return p.Node + " " + string(p.Role)
}

func parseWords(node, role string) (Peer, error) {
	if node == nobody && role == nobody {
		return Peer{}, nil
	}
	if err := CheckNodeID(node); err != nil {
		return Peer{}, err
	}
	r, err := ParseRole(role)
	return Peer{Node: node, Role: r}, err
}

// readLine reads to the end of a line and not a byte further: what follows is
// the protocol's.
func readLine(conn net.Conn) (string, error) {
	var line []byte
	var b [1]byte
	for len(line) < maxLine {
		if _, err := conn.Read(b[:]); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[0])
	}
	return "", fmt.Errorf("%q: has no end of line within %d bytes", shorten(string(line)), maxLine)
}

// oneLine makes a message fit for a line of at most most bytes, and for a terminal.
func oneLine(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), most)]
}

// bind ends the waits on conn when ctx ends. stop ends that, and says whether
// ctx came first.
func bind(ctx context.Context, conn net.Conn) (stop func() error) {
	release := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	return func() error {
		if !release() {
			return ctx.Err()
		}
		return nil
	}
}
