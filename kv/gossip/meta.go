package gossip

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what a node says of itself, in bytes. All together stay below the 512
// that memberlist carries with a member.
const (
	maxIDBytes      = 64
	maxNameBytes    = 96
	maxVersionBytes = 48
	maxRegionBytes  = 64
	maxAddressBytes = 96
	maxBootBytes    = 32
)

// metaVersion is the first byte of an encoded Meta.
const metaVersion = 1

// NodeID names a node for all its life, as opposed to the host it runs on. It has
// 1 to 64 characters of a-z, 0-9.
type NodeID string

// Role is a node's part in the order of writes.
type Role uint8

// The roles: one of those who decide, one who follows their log and may become a
// voter, and one who only follows.
const (
	Voter Role = iota + 1
	Learner
	Edge
)

var roleNames = map[Role]string{Voter: "voter", Learner: "learner", Edge: "edge"}

func (r Role) String() string {
	if name, ok := roleNames[r]; ok {
		return name
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// Meta is what a node says of itself to all members.
type Meta struct {
	ID      NodeID
	Name    string // for people
	Role    Role
	Version string // of the program
	Region  string // may be empty
	// Peer is the address at which the other nodes reach its other services, as
	// host:port; empty means the same as that of the gossip.
	Peer string
	// NoGateway says that the node runs no gateway: it serves no requests, and nobody
	// waits for it to serve a change.
	NoGateway bool
}

// check refuses what does not fit, or would disturb a table or a log line.
func (m Meta) check() error {
	return errors.Join(
		checkID(m.ID),
		checkText("name", m.Name, maxNameBytes),
		checkText("version", m.Version, maxVersionBytes),
		checkText("region", m.Region, maxRegionBytes),
		checkText("peer address", m.Peer, maxAddressBytes),
		checkRole(m.Role),
	)
}

func checkID(id NodeID) error {
	notPlain := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	if id == "" || len(id) > maxIDBytes || strings.ContainsFunc(string(id), notPlain) {
		return fmt.Errorf("node id %.80q: want 1 to %d of a-z and 0-9", string(id), maxIDBytes)
	}
	return nil
}

func checkText(what, text string, max int) error {
	notPrintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case len(text) > max:
		return fmt.Errorf("%s %.20q...: has %d bytes, at most %d are allowed", what, text, len(text), max)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, notPrintable):
		return fmt.Errorf("%s %q: has characters that can't be printed", what, text)
	}
	return nil
}

func checkRole(r Role) error {
	if _, ok := roleNames[r]; !ok {
		return fmt.Errorf("%v: want voter, learner or edge", r)
	}
	return nil
}

// flagNoGateway is the only one of a Meta's flags.
const flagNoGateway = 1

// encodeMeta writes a Meta that check has passed:
// u8 version, text id, text name, u8 role, text version, text region, text peer, and u8 flags
// where there are any.
func encodeMeta(m Meta) []byte {
	var e encoder
	e.u8(metaVersion)
	e.text(string(m.ID), maxIDBytes)
	e.text(m.Name, maxNameBytes)
	e.u8(uint8(m.Role))
	e.text(m.Version, maxVersionBytes)
	e.text(m.Region, maxRegionBytes)
	e.text(m.Peer, maxAddressBytes)
	if m.NoGateway {
		e.u8(flagNoGateway)
	}
	return e.buf
}

func decodeMeta(b []byte) (Meta, error) {
	d := decoder{rest: b}
	if version := d.u8(); version != metaVersion && d.problem == "" {
		return Meta{}, fmt.Errorf("what a node says of itself has version %d, here is %d", version, metaVersion)
	}
	m := Meta{
		ID:      NodeID(d.text(maxIDBytes)),
		Name:    d.text(maxNameBytes),
		Role:    Role(d.u8()),
		Version: d.text(maxVersionBytes),
		Region:  d.text(maxRegionBytes),
		Peer:    d.text(maxAddressBytes),
	}
	if len(d.rest) > 0 && d.problem == "" {
		m.NoGateway = true
		if flags := d.u8(); flags != flagNoGateway {
			return Meta{}, fmt.Errorf("what a node says of itself has flags %#x, known is %#x", flags, flagNoGateway)
		}
	}
	if problem := d.end(); problem != "" {
		return Meta{}, fmt.Errorf("what a node says of itself %s", problem)
	}
	return m, m.check()
}
