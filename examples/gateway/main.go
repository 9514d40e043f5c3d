// Command gateway is a gateway of one's own: it serves what the cluster of an agent serves, with a step that no other
// gateway has. It is no node, and needs nothing but the agent's socket.
//
//	gateway -listen 127.0.0.1:8090 -data gateway.db
//
// AGENT_ADDR names the agent; without it the usual places are tried.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"grapevine/gateway"
	"grapevine/gateway/exchange"
	"grapevine/gateway/follow"
	"grapevine/gateway/http1"
	"grapevine/kv"
)

// drain is how long requests may take that are under way when the gateway stops.
const drain = 10 * time.Second

func main() {
	listen := flag.String("listen", "127.0.0.1:8090", "where to listen")
	data := flag.String("data", "", "the file that keeps what was heard; none: a restart begins with nothing")
	name := flag.String("name", "my-gateway", "the name that responses carry")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, *data, *name); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, listen, data, name string) (err error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	store, err := kv.Open(kv.Options{Path: data})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	source, err := follow.New(follow.Options{Store: store, Logger: logger})
	if err != nil {
		return err
	}
	g := gateway.New(gateway.Options{Source: source, Keeper: store, Waiting: source.Waiting, Logger: logger})
	g.Use(servedBy(name))
	if err := g.Load(); err != nil {
		return err
	}
	defer g.Close()
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http1.Server{Handler: g, Refuse: g.Refuse, Logger: logger}
	return serve(ctx, g, source, server, listener)
}

// serve runs all that has to run, and stops it in order: what follows the agent serves the last requests, too.
func serve(ctx context.Context, g *gateway.Gateway, source *follow.Source, server *http1.Server, listener net.Listener) error {
	following, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { _ = source.Run(following) })           // nil, once it is stopped
	group.Go(func() { _ = g.Run(following) })                // the same
	group.Go(func() { _ = g.EndOverdue(following, server) }) // the same
	ended := make(chan error, 1)
	group.Go(func() { ended <- server.Serve(listener) })
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	g.Drain() // not ready, for load balancers that look
	bound, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	return errors.Join(server.Shutdown(bound), server.Close())
}

// servedBy is a step of one's own: it names the gateway in every response.
func servedBy(name string) exchange.Middleware {
	value := []byte(name)
	return func(next exchange.Handler) exchange.Handler {
		return exchange.HandlerFunc(func(x *exchange.Exchange) {
			next.Serve(x)
			x.Response.Fields.Set("X-Served-By", value)
		})
	}
}
