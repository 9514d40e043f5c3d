// Package mux makes many protocols out of one port.
//
//	accept ─► gate ─► handshake: who, which protocol ─► Listener(protocol)
//	Dial(protocol, address) ─► connect ─► handshake ─► net.Conn
//
// A Handshaker, which package identity has, proves who is on the other side and
// settles the protocol. Until that is done nothing is known of a peer, so it may
// take neither long nor much: the gate bounds how many are at it, and makes room
// at the cost of whoever holds most of it. Packets (UDP) pass as they are.
//
// A Mux may be used by any number of goroutines. Close ends everything it
// started, and every connection.
package mux
