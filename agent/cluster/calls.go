package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"grapevine/agent/api"
	"grapevine/agent/identity"
)

// The paths of calls between nodes, beside those of consensus (/peer/v1/), of
// identity (/cluster/) and of the API (/v1/). Questions and answers are JSON.
const (
	pathLeader = "/node/leader" // who leads: leaderNews
	pathSelf   = "/node/self"   // how this node is called in raft: selfNews
	pathPeers  = "/node/peers"  // raft's servers: []api.Peer
	pathAwait  = "/node/await"  // awaitQuestion to api.Receipt, of the leader
	pathVoters = "/node/voters" // voterChange to voterNews, of the leader
	pathHead   = "/node/head"   // how far this node is: headNews
	pathProbe  = "/node/probe"  // []probeTarget to []api.Reach
	pathRing   = "/node/ring"   // which gossip keys the node has: ringNews
	pathKeys   = "/node/keys"   // the gossip keys themselves: ringGift
)

const (
	// maxCallBytes bounds a question and an answer.
	maxCallBytes = 4 << 20
	// callPatience bounds a call whose caller does not say how long it waits.
	callPatience = 30 * time.Second
)

// calls asks other nodes and answers them, by HTTP/1.1 on gv-peer/1.
type calls struct {
	m    *member
	http *http.Client
}

func newCalls(m *member) *calls {
	return &calls{m, &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return m.mux.Dial(ctx, identity.ProtocolPeer, address)
		},
		IdleConnTimeout: 90 * time.Second, // as net/http's own
	}}}
}

func (c *calls) close() { c.http.CloseIdleConnections() }

// server answers other nodes.
func (c *calls) server() *http.Server {
	m, mux := c.m, http.NewServeMux()
	mux.HandleFunc("GET "+pathLeader, answer(func(context.Context, struct{}) (leaderNews, error) { return m.lead.news(), nil }))
	mux.HandleFunc("GET "+pathSelf, answer(func(context.Context, struct{}) (selfNews, error) { return m.self(), nil }))
	mux.HandleFunc("GET "+pathHead, answer(func(context.Context, struct{}) (headNews, error) { return m.head(), nil }))
	mux.HandleFunc("GET "+pathPeers, answer(func(context.Context, struct{}) ([]api.Peer, error) { return m.peersHere() }))
	mux.HandleFunc("POST "+pathAwait, answer(asLeader(m, m.awaitHere)))
	mux.HandleFunc("POST "+pathVoters, answer(govern(m, asLeader(m, m.changeVoters))))
	mux.HandleFunc("POST "+pathProbe, answer(m.probe))
	mux.HandleFunc("POST "+pathOwner, answer(m.announcer.news))
	mux.HandleFunc("POST "+pathApplied, answer(m.appliedHere))
	mux.HandleFunc("POST "+pathDrained, answer(m.drainedHere))
	mux.HandleFunc("GET "+pathRing, answer(func(context.Context, struct{}) (ringNews, error) { return m.ring.news(), nil }))
	mux.HandleFunc("POST "+pathSettle, answer(govern(m, asLeader(m, m.settle))))
	mux.HandleFunc("POST "+pathYield, answer(govern(m, m.yield)))
	mux.HandleFunc("GET "+pathState, m.giveState(make(chan struct{}, statesAtOnce)))
	mux.HandleFunc("GET "+pathKeys, answer(m.ring.give))
	mux.Handle("/cluster/", m.door.Handler())
	if m.raft != nil {
		mux.Handle("/peer/v1/", m.raft.Handler(errorCodec{}))
	}
	if m.n.o.API != nil {
		mux.Handle("/v1/", m.guardAPI(m.n.o.API))
	}
	return &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ConnContext: identity.ConnContext, ErrorLog: discardLog,
	}
}

// get asks the node at an address.
func (c *calls) get(ctx context.Context, address, path string, out any) error {
	return c.do(ctx, http.MethodGet, address, path, nil, out)
}

func (c *calls) post(ctx context.Context, address, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPost, address, path, body, out)
}

func (c *calls) do(ctx context.Context, method, address, path string, body []byte, out any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		request.Header.Set(patienceHeader, time.Until(deadline).String())
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxCallBytes+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxCallBytes:
		return fmt.Errorf("node at %s: %s: the answer has more than %d bytes", address, path, maxCallBytes)
	case response.StatusCode != http.StatusOK:
		return readFailure(response.StatusCode, data)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("node at %s: %s: %w", address, path, err)
	}
	return nil
}

// patienceHeader says how long the caller waits, as a duration.
const patienceHeader = "Grapevine-Patience"

// answer serves one kind of question.
func answer[In, Out any](do func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if r.Method == http.MethodPost {
			if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCallBytes)).Decode(&in); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		patience, err := time.ParseDuration(r.Header.Get(patienceHeader))
		if err != nil {
			patience = callPatience
		}
		ctx, cancel := context.WithTimeout(r.Context(), min(patience, api.MaxBound))
		defer cancel()
		out, err := do(ctx, in)
		if err != nil {
			writeFailure(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // who is gone does not hear it
	}
}

// errNotLeader says that another node has to be asked.
type errNotLeader struct{ leader leaderNews }

func (e *errNotLeader) Error() string { return "this node does not lead" }

// asLeader lets only the leader answer.
func asLeader[In, Out any](m *member, do func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (out Out, err error) {
		if !m.lead.leads() {
			return out, &errNotLeader{m.lead.news()}
		}
		return do(ctx, in)
	}
}

// onLeader has the leader answer, wherever it is, and waits for one as long as ctx
// lasts. What it returns without an answer is why there was none.
func onLeader[In, Out any](ctx context.Context, m *member, path string, in In, here func(context.Context, In) (Out, error)) (Out, error) {
	const pause = 100 * time.Millisecond
	to := m.lead.news()
	for {
		out, final, err := askLeader(ctx, m, to, path, in, here)
		if final {
			return out, err
		}
		if other, moved := asNotLeader(err); moved && other.Address != "" && other != to && other.Node != m.n.o.ID {
			to = other
			continue
		}
		if !sleep(ctx, pause) {
			return out, m.noLeader(err)
		}
		to = m.lead.news()
		if voter, ok := m.anyVoter(); ok && to.Address == "" {
			to = leaderNews{Node: string(voter.ID), Address: voter.Peer}
		}
	}
}

// askLeader asks whoever is believed to lead. final says that it has answered.
func askLeader[In, Out any](ctx context.Context, m *member, to leaderNews, path string, in In, here func(context.Context, In) (Out, error)) (out Out, final bool, err error) {
	switch {
	case m.lead.leads():
		out, err = here(ctx, in)
		_, moved := asNotLeader(err)
		return out, !moved, err
	case to.Address == "" || to.Node == m.n.o.ID:
		return out, false, nil
	}
	err = m.calls.post(ctx, to.Address, path, in, &out)
	return out, err == nil || isAnswer(err), err
}
