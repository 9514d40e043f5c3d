package agent

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"grapevine/agent/cluster"
)

// listeners are the doors of a node; one that it hasn't is nil.
type listeners struct {
	http, admin, metrics, socket net.Listener
	// cluster has no listener where the node is in no cluster. Its cluster.Node closes it.
	cluster cluster.Port
}

// listen opens every listener, or none: whoever starts the agent hears of all that is in the way at once.
func listen(s settings) (*listeners, error) {
	l := new(listeners)
	var problems []error
	for _, door := range []struct {
		setting
		listener *net.Listener
		open     func(string) (net.Listener, error)
	}{
		{s.http, &l.http, listenFront},
		{s.admin, &l.admin, listenTCP},
		{s.metrics, &l.metrics, listenTCP},
		{s.socket, &l.socket, listenSocket},
	} {
		if door.value == "" {
			continue
		}
		listener, err := door.open(door.value)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s listener %q: %w; choose another with --%s", door.name, door.value, err, door.name))
			continue
		}
		if door.listener != &l.http { // whose engine bounds its writes itself, and wants plain connections
			listener = patientListener{listener}
		}
		*door.listener = listener
	}
	if s.gossip.value != "" {
		var err error
		if l.cluster, err = listenPort(s.gossip.value); err != nil {
			problems = append(problems, fmt.Errorf("gossip listener %q: %w; choose another with --gossip", s.gossip.value, err))
		}
	}
	if problems != nil {
		return nil, errors.Join(append(problems, l.close(), l.closeCluster())...)
	}
	return l, nil
}

// all are the listeners that are there, by name.
func (l *listeners) all() map[string]net.Listener {
	there := map[string]net.Listener{}
	for name, listener := range map[string]net.Listener{"http": l.http, "admin": l.admin, "metrics": l.metrics, "socket": l.socket} {
		if listener != nil {
			there[name] = listener
		}
	}
	return there
}

// closeCluster closes the cluster's port, where nobody has taken it.
func (l *listeners) closeCluster() error {
	if l.cluster.Packets == nil {
		return nil
	}
	return errors.Join(l.cluster.Listener.Close(), l.cluster.Packets.Close())
}

// close closes those that no server has closed yet.
func (l *listeners) close() error {
	var errs []error
	for _, listener := range l.all() {
		if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func listenTCP(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, bindError(err)
	}
	return listener, nil
}

// bindError is the cause alone; the address stands in the message already.
func bindError(err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return errors.New("address already in use")
	case errors.Is(err, syscall.EACCES):
		return errors.New("permission denied")
	case errors.As(err, &op):
		return op.Err
	}
	return err
}
