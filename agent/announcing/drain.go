package announcing

import (
	"context"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// Drain asks all nodes to send the instance no new requests, if nobody has yet, and waits until every live gateway has
// confirmed that, or ctx ends. The instance stays, draining, until its connection ends. Errors: a *NoLeaseError, or those of
// kv.Own; a handshake that is not over is none.
func (l *Lease) Drain(ctx context.Context, by, reason string) (Handshake, error) {
	h, err := l.startDraining(by, reason)
	if err != nil {
		return Handshake{}, err
	}
	if result, whole := h.await(ctx); !whole {
		l.out.put(Drained{EventDrained, result})
		return result, nil
	}
	return h.result(), nil
}

func (l *Lease) startDraining(by, reason string) (*handshake, error) {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	switch {
	case l.ended:
		return nil, &NoLeaseError{"the lease has ended"}
	case l.draining != "":
		if by == ByClient {
			l.draining = by // it goes, whoever was first, and no operator can put it back
		}
		return l.handshake, nil
	}
	l.draining = by
	if err := l.write(); err != nil {
		l.draining = ""
		return nil, err
	}
	l.out.put(Draining{EventDraining, by, reason})
	l.leases.o.Logger.Info("instance is draining", "key", string(l.announcement.Key), "by", by, "reason", reason)
	l.leases.receipts.want()
	l.shake()
	return l.handshake, nil
}

// shake begins the handshake.
func (l *Lease) shake() {
	ctx, cancel := context.WithCancel(l.leases.ctx)
	h := newHandshake(cancel)
	l.handshake = h
	l.leases.tasks.Go(func() {
		defer cancel()
		if h.run(ctx, l.leases, l.announcement.Key) {
			l.out.put(Drained{EventDrained, h.result()})
			l.leases.o.Logger.Info("instance is drained", "key", string(l.announcement.Key), "took", h.result().Took)
		}
	})
}

// calm ends the handshake, if there is one.
func (l *Lease) calm() {
	if l.handshake != nil {
		l.handshake.cancel()
	}
}

// undrain takes requests again.
func (l *Lease) undrain() error {
	switch l.draining {
	case "":
		return nil
	case ByClient:
		return &RefusedError{"its own process drains it, and is about to end"}
	}
	l.draining = ""
	if err := l.write(); err != nil {
		l.draining = ByOperator
		return err
	}
	l.calm()
	l.handshake = nil
	l.out.put(StatusChange{EventStatus, l.taken, "an operator has put it back"})
	l.leases.receipts.want()
	return nil
}

// Drain is Lease.Drain for an instance of this node, by an operator. Errors: a *NoLeaseError where this node does not
// announce it, or those of kv.Own.
func (l *Leases) Drain(ctx context.Context, key kv.Key, reason string) (Handshake, error) {
	l.mu.Lock()
	lease := l.byKey[key]
	l.mu.Unlock()
	if lease != nil {
		return lease.Drain(ctx, ByOperator, reason)
	}
	if err := l.rewrite(key, true); err != nil {
		return Handshake{}, err
	}
	// Nobody holds it: it waits for its client since the agent was restarted.
	ctx, cancel := context.WithCancel(ctx)
	h := newHandshake(cancel)
	defer cancel()
	h.run(ctx, l, key)
	return h.result(), nil
}

// Undrain has an instance of this node take requests again that an operator drained. Errors: a *NoLeaseError, a
// *RefusedError where its own process drains it, or those of kv.Own.
func (l *Leases) Undrain(key kv.Key) error {
	l.mu.Lock()
	lease := l.byKey[key]
	if lease != nil {
		defer l.mu.Unlock()
		return lease.undrain()
	}
	l.mu.Unlock()
	return l.rewrite(key, false)
}

// rewrite changes a key that nobody holds.
func (l *Leases) rewrite(key kv.Key, draining bool) error {
	instance, _ := l.stored(key)
	if instance == nil {
		return &NoLeaseError{"this node announces no such instance"}
	}
	if draining {
		instance.Status = statusDraining
		return l.o.Own.PutDraining(key, spec.Encode(instance))
	}
	instance.Status = ""
	return l.o.Own.Put(key, spec.Encode(instance))
}
