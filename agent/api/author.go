package api

import (
	"context"
	"net"
	"os/user"
	"strconv"
)

// AuthorHeader tells the API of another node who wrote. It counts at the Peer door only.
const AuthorHeader = "Grapevine-Author"

// authorKey is where ConnContext leaves the author of a connection.
type authorKey struct{}

// connKey is where ConnContext leaves the connection itself, below what is put around it.
type connKey struct{}

// ConnContext is the ConnContext of the servers that serve an API: it learns who is at the other end, once for each
// connection.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if wrapped, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = wrapped.NetConn()
	}
	return context.WithValue(context.WithValue(ctx, authorKey{}, peerName(conn)), connKey{}, conn)
}

// author is who the store shall remember as the writer.
func (c *call) author() string {
	if c.door == Peers {
		return c.r.Header.Get(AuthorHeader)
	}
	return Author(c.r.Context())
}

// Author is who asked for what a Cluster is to do in ctx, empty where that is not known.
func Author(ctx context.Context) string {
	name, _ := ctx.Value(authorKey{}).(string)
	return name
}

func peerName(conn net.Conn) string {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return "tcp:" + conn.RemoteAddr().String()
	}
	uid, err := peerUID(socket)
	if err != nil {
		return "unix:unknown"
	}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "uid:" + strconv.Itoa(uid)
}
