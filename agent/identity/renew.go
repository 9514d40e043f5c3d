package identity

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	// Waits between attempts to renew a certificate.
	leastRenewWait = time.Minute
	mostRenewWait  = time.Hour
	// renewCheck is how often the clock is looked at: waits go on in a host that
	// sleeps, and clocks are set.
	renewCheck = time.Hour
	// renewTimeout bounds one attempt.
	renewTimeout = 30 * time.Second
)

// alarms are the times before a certificate's end at which a failure to renew it
// is told again; the last is the end itself.
var alarms = []time.Duration{30 * 24 * time.Hour, 7 * 24 * time.Hour, 24 * time.Hour, 0}

// RenewAt is when this node's certificate ought to be renewed: after two thirds
// of its life.
func (i *Identity) RenewAt() time.Time {
	leaf := i.now.Load().leaf
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3)
}

// Renew gets a new certificate for the same node, role and key, on disk when it
// returns. A voter signs it itself; an edge has ask bring the request to a voter,
// by Dial with gv-peer/1 and AskToRenew. Connections keep the old one.
func (i *Identity) Renew(ctx context.Context, ask func(ctx context.Context, request []byte) ([]byte, error)) error {
	request, err := newRequest(i.self.Node, i.key)
	if err != nil {
		return err
	}
	var der []byte
	if i.authority != nil {
		der, err = i.authority.issueFor(i.self.Node, i.self.Role, request)
	} else {
		der, err = ask(ctx, request)
	}
	if err != nil {
		return err
	}
	return i.change(func(h *holding) (*holding, error) { return h.with(der) })
}

// KeepFresh renews the certificate whenever it is time, until ctx ends, whose
// error it returns. While it fails it tries again, and the node goes on with what
// it has.
func (i *Identity) KeepFresh(ctx context.Context, ask func(ctx context.Context, request []byte) ([]byte, error), logger *slog.Logger) error {
	for {
		if err := i.awaitRenewal(ctx); err != nil {
			return err
		}
		if err := i.renewNow(ctx, ask, logger); err != nil {
			return err
		}
	}
}

// awaitRenewal waits for the time, and somewhat more: nodes that joined together
// need not renew together.
func (i *Identity) awaitRenewal(ctx context.Context) error {
	at := i.RenewAt().Add(rand.N(i.Expires().Sub(i.RenewAt()) / 10))
	for i.authority == nil || i.valid() { // a voter need not wait for what is over or not yet valid
		left := time.Until(at)
		if left <= 0 {
			break
		}
		if err := pause(ctx, min(left, renewCheck)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// valid reports whether the certificate is, by this node's clock.
func (i *Identity) valid() bool {
	leaf, now := i.now.Load().leaf, time.Now()
	return now.After(leaf.NotBefore) && now.Before(leaf.NotAfter)
}

// renewNow tries until it works or ctx ends.
func (i *Identity) renewNow(ctx context.Context, ask func(context.Context, []byte) ([]byte, error), logger *slog.Logger) error {
	waits := backoff{least: leastRenewWait, most: mostRenewWait}
	told := -1
	for {
		attempt, cancel := context.WithTimeout(ctx, renewTimeout)
		err := i.Renew(attempt, ask)
		cancel()
		if err == nil {
			logger.Info("certificate renewed", "expires", i.Expires())
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if stage := i.alarmStage(); stage > told {
			told = stage
			logger.Log(ctx, levelOf(stage), "certificate not renewed", "expires", i.Expires(), "err", err)
		}
		if err := waits.wait(ctx); err != nil {
			return err
		}
	}
}

// alarmStage counts the alarms that are due.
func (i *Identity) alarmStage() (stage int) {
	left := time.Until(i.Expires())
	for _, alarm := range alarms {
		if left <= alarm {
			stage++
		}
	}
	return stage
}

// levelOf is a warning at first, and an error from the first alarm on.
func levelOf(stage int) slog.Level {
	if stage == 0 {
		return slog.LevelWarn
	}
	return slog.LevelError
}

// renew gives a member a new certificate. Node and role are those that the
// connection proves; the request may only name the same key.
func (d *Door) renew(w http.ResponseWriter, r *http.Request) {
	certificate, err := d.renewed(w, r)
	if err != nil {
		d.Logger.Warn("renewal refused", "from", r.RemoteAddr, "err", err)
		reply(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/pkix-cert")
	w.Write(certificate) // who has hung up asks again
}

func (d *Door) renewed(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	peer, known := PeerFrom(r.Context())
	authority := d.Self.Authority()
	switch {
	case !known:
		return nil, refuse(ReasonRequest, "renewal: is for members, and the peer shows no certificate")
	case d.Self.denied(peer.Node):
		return nil, refuse(ReasonRevoked, "renewal: node %s was revoked", peer.Node)
	case authority == nil:
		return nil, refuse(ReasonVoter, "renewal: node %s is an edge; only a voter can do it", d.Self.Node())
	}
	request, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJoinRequest))
	if err != nil {
		return nil, refuse(ReasonRequest, "renewal: %v", err)
	}
	key, err := requestKey(request)
	if err != nil {
		return nil, refuse(ReasonRequest, "renewal: %v", err)
	}
	if peer.Key != (PublicKey{}) && peer.Key != PublicKey(key) {
		return nil, refuse(ReasonTaken, "renewal: node %s asks for another key than it has; its id is bound to the key", peer.Node)
	}
	der, err := authority.issueFor(peer.Node, peer.Role, request)
	if err != nil {
		return nil, errors.Join(refuse(ReasonFault, "renewal: the voter could not sign"), err)
	}
	return der, nil
}
