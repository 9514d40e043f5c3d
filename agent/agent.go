package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"grapevine/agent/announcing"
	"grapevine/agent/api"
	"grapevine/agent/cluster"
	"grapevine/gateway"
	"grapevine/gateway/accesslog"
	"grapevine/gateway/http1"
	"grapevine/gateway/spec"
	"grapevine/kv"
	"grapevine/kv/consensus"
)

// Agent is one node. Its methods are called in the order New, Open, Run; Reload, Force and Addresses may be
// called from any goroutine after Open.
type Agent struct {
	config Config
	logs   logs
	logger *slog.Logger

	settings settings
	id       string
	started  time.Time

	dir       *dataDir // nil: in memory
	store     *kv.Store
	gateway   *gateway.Gateway // nil: the node runs none
	access    *accesslog.Logger
	metrics   *metrics
	api       *api.API
	writes    api.Log // what orders writes
	listeners *listeners
	cluster   *cluster.Node // nil: in none
	leases    *announcing.Leases
	policy    announcePolicy
	synced    atomic.Bool   // the node has heard what its cluster serves
	left      chan struct{} // closed when the node has left its cluster
	leaving   sync.Once

	// front serves the proxy, doors all the others. There is none without a gateway.
	front *http1.Server
	doors map[string]*http.Server

	force     chan struct{}
	forceOnce sync.Once

	// reloading is held while the static files are read anew.
	reloading sync.Mutex
	reload    atomic.Pointer[api.Reload]
}

// New makes an agent that writes its log to w.
func New(config Config, w io.Writer) *Agent {
	config.Drain = cmp.Or(config.Drain, DefaultDrain)
	logs := newLogs(w)
	a := &Agent{config: config, logs: logs, logger: slog.New(logs), force: make(chan struct{}), left: make(chan struct{})}
	if config.AccessLog != nil {
		a.access = accesslog.New(config.AccessLog)
	}
	return a
}

// Open reads the files, takes the data directory, loads the table and binds the listeners, in this order. When it
// fails it lets go of everything; the error has an ExitCode method.
func (a *Agent) Open() (err error) {
	defer func() {
		if err != nil {
			err = exit(exitFailure, errors.Join(err, a.release()))
		}
	}()
	// The file first: who made a mistake there hears of it before anything is touched.
	file, err := a.config.readFiles()
	if err != nil {
		return err
	}
	if a.settings, err = a.config.resolve(file); err != nil {
		return err
	}
	a.started = time.Now()
	a.logger = a.logger.With("node", a.settings.node)
	// The data directory before what is in it: its lock keeps two agents from the same store and socket.
	if err := a.openStore(); err != nil {
		return err
	}
	// The table before the listeners: a node that can be reached can serve.
	if err := a.load(file); err != nil {
		return err
	}
	if a.listeners, err = listen(a.settings); err != nil {
		return err
	}
	peers := newLater()
	if err := a.openCluster(peers); err != nil {
		return err
	}
	if err := a.openLeases(file); err != nil {
		return err
	}
	a.build()
	peers.is(a.api.Handler(api.Peers))
	return nil
}

// openCluster makes the node's part in its cluster. Other nodes may ask peers from then on.
func (a *Agent) openCluster(peers http.Handler) (err error) {
	if a.listeners.cluster.Listener == nil {
		return a.announceAlone()
	}
	s := a.settings
	o := cluster.Options{
		ID: a.id, Name: s.node, Region: s.region, Version: a.config.Version,
		Store: a.store, Dir: s.dataDir, Port: a.listeners.cluster, Advertise: a.config.Advertise,
		Join: s.cluster.join, Role: s.cluster.role, Adopt: a.config.Adopt, Insecure: a.config.Insecure,
		API: peers, Stop: a.leave, Logger: a.logger, Build: a.config.Build, Addresses: a.Addresses(),
	}
	if a.gateway != nil {
		o.Check, o.Gateway, o.Answers = a.gateway.Check, a.gateway, a.gateway.Answers
	}
	if a.cluster, err = cluster.New(o); err != nil {
		return err
	}
	if a.gateway != nil {
		a.report(a.gateway.Table())
	}
	return nil
}

// reportStore tells the other nodes how far the store of a node without a gateway is, until ctx ends.
func (a *Agent) reportStore(ctx context.Context) error {
	for {
		changed := a.store.Changed()
		a.cluster.Served(a.store.View().Rev(), "")
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// announceAlone is for a node that is in no cluster: nobody knows another incarnation of it, and nobody is there to be
// told what it is.
func (a *Agent) announceAlone() error {
	own, err := a.store.Own(kv.OwnerID(a.id))
	if err != nil {
		return err
	}
	_, err = own.Begin(0)
	return err
}

// leave has the agent stop because the node has left its cluster.
func (a *Agent) leave() { a.leaving.Do(func() { close(a.left) }) }

// report tells the other nodes what is live here.
func (a *Agent) report(t *gateway.Table) {
	if a.cluster != nil {
		a.cluster.Served(t.Rev(), t.Hash())
	}
}

// openStore takes the data directory and opens what is in it.
func (a *Agent) openStore() (err error) {
	path := a.settings.dataDir
	if path == "" {
		a.id = newNodeID(a.started)
		a.store, err = kv.Open(kv.Options{})
		return err
	}
	if a.dir, err = openDataDir(path); err != nil {
		return err
	}
	// The store before the id, so that a store that can't be read leaves the directory as it was.
	if a.store, err = kv.Open(kv.Options{Path: a.dir.file("kv.db")}); err != nil {
		return fmt.Errorf("data directory %q: %w", path, err)
	}
	a.id, err = a.dir.nodeID(a.started)
	return err
}

// load makes the first table. A fault in a static route stops the start.
func (a *Agent) load(file *spec.File) error {
	if a.config.NoGateway {
		return nil
	}
	peers, err := a.peers()
	if err != nil {
		return err
	}
	a.gateway = gateway.New(gateway.Options{
		Source: a.store, Peers: peers, Static: file, Keeper: a.store, Waiting: a.waiting, Logger: a.logger, AccessLog: a.access, Region: a.settings.region,
		OnSwap: func(t *gateway.Table) {
			a.logs.follow(t.Logging())
			a.report(t)
		},
	})
	err = a.gateway.Load()
	var faults spec.Faults
	if errors.As(err, &faults) {
		return exit(exitInvalid, err)
	}
	return err
}

// build makes the servers of the listeners that are there.
func (a *Agent) build() {
	a.metrics = newMetrics(a.config.Version, a.config.Build, a.store.View)
	scrape := a.metrics.handler(a.logger)
	options := api.Options{
		Store: a.store, Node: a.node, Logger: a.logger, Metrics: scrape, Observe: a.metrics.observe, Leases: a.leases, Waiting: a.waiting,
	}
	if a.gateway != nil {
		options.Gateway = a.gateway
		a.metrics.registry.MustRegister(a.gateway.Collector())
		a.front = &http1.Server{Handler: a.gateway, Refuse: a.gateway.Refuse, Logger: a.logger.With("listener", "http")}
	}
	if a.cluster != nil {
		a.metrics.registry.MustRegister(newClusterMetrics(a.cluster))
		options.Log, options.Cluster = a.cluster, a.cluster
	} else {
		options.Log = consensus.NewSingle(a.store, a.gateway.Check)
	}
	a.writes = options.Log
	a.api = api.New(options)
	a.doors = map[string]*http.Server{
		"admin":   newServer("admin", a.api.Handler(api.TCP), a.logger),
		"socket":  newServer("socket", a.api.Handler(api.Socket), a.logger),
		"metrics": newServer("metrics", onlyMetrics(scrape), a.logger),
	}
}

// onlyMetrics serves /metrics and nothing else: its listener may be open to the network.
func onlyMetrics(scrape http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrape)
	return mux
}

// Addresses are the listeners by name (http, admin, socket, metrics), with the ports that the system chose.
func (a *Agent) Addresses() map[string]string {
	addresses := map[string]string{}
	for name, listener := range a.listeners.all() {
		addresses[name] = listener.Addr().String()
	}
	if port := a.listeners.cluster.Listener; port != nil {
		addresses["gossip"] = port.Addr().String()
	}
	return addresses
}

// node is what /v1/status tells of the node itself.
func (a *Agent) node() api.Node {
	return api.Node{
		ID: a.id, Name: a.settings.node, Region: a.settings.region,
		Version: a.config.Version, Build: a.config.Build,
		PID: os.Getpid(), StartedAt: a.started, DataDir: absolute(a.settings.dataDir),
		Listeners: a.Addresses(), Reload: a.reload.Load(),
	}
}
