package identity

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// maxJoins bounds the joins under way; more are told to come again.
	maxJoins = 64
	// joinTimeout bounds one join, the voters' agreement included.
	joinTimeout = 20 * time.Second
	// maxSkew is how far the clocks of a new node and a voter may be apart. A fresh
	// certificate is backdated by more.
	maxSkew = backdate / 2
)

// DoorOptions are what a Door needs of the node. Self and Token are required.
type DoorOptions struct {
	Self *Identity
	// Token finds the record of a token in this node's store.
	Token func(id string) (TokenRecord, bool)
	// Use has the voters agree on a use of a token: it stores what UseBy of the
	// newest record gives, by a transaction that fails if the record has changed or
	// is gone, and then tries again. It is asked only where NeedsQuorum says so.
	Use func(ctx context.Context, id, node string, key PublicKey) error
	// Holder tells the key of a node that the cluster knows, so that nobody takes
	// over its id; nil: none is known.
	Holder func(node string) (PublicKey, bool)
	// Seeds are addresses of members, and Voters those of voters; each may be nil.
	Seeds, Voters func() []string
	// Forward passes a request on to a voter, for a node that is none: by Dial with
	// gv-join/1 and AskToJoin. nil: it can't.
	Forward func(context.Context, *JoinRequest) (*JoinAnswer, error)
	Logger  *slog.Logger // nil: none
}

// Door lets new nodes in, and renews the certificates of members.
type Door struct {
	DoorOptions
	under chan struct{} // a place for each join under way
	told  quiet
}

// NewDoor makes a door.
func NewDoor(o DoorOptions) *Door {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Door{DoorOptions: o, under: make(chan struct{}, maxJoins)}
}

// Handler serves the door's paths, on gv-join/1 for those who want to join, and
// on gv-peer/1 for members.
func (d *Door) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+JoinPath, d.join)
	mux.HandleFunc("POST "+VotersPath, d.voters)
	mux.HandleFunc("POST "+RenewPath, d.renew)
	return mux
}

// Server gives a server for gv-join/1, where anybody may knock: nothing there
// may take long or be large.
func (d *Door) Server() *http.Server {
	return &http.Server{
		Handler:           d.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      joinTimeout + 10*time.Second,
		IdleTimeout:       5 * time.Second,
		MaxHeaderBytes:    8 << 10,
		ConnContext:       ConnContext,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // strangers must not fill the log
	}
}

func (d *Door) join(w http.ResponseWriter, r *http.Request) {
	request := new(JoinRequest)
	err := readBody(w, r, request)
	var answer *JoinAnswer
	if err == nil {
		answer, err = d.decide(r.Context(), request)
	}
	if err == nil {
		answer.Observed = remoteHost(r)
		d.Logger.Info("node admitted", "admitted", request.Node, "role", request.Role, "token", request.Secret.id(),
			"address", request.Address, "observed", answer.Observed, "version", shorten(request.Version))
	} else if others, may := d.told.may(time.Now()); may {
		d.Logger.Warn("join refused", "others", others, "asking", shorten(request.Node), "reason", refusalOf(err).Reason, "from", r.RemoteAddr, "err", err)
	}
	reply(w, answer, err)
}

// decide admits a node or refuses it.
func (d *Door) decide(ctx context.Context, request *JoinRequest) (*JoinAnswer, error) {
	select {
	case d.under <- struct{}{}:
		defer func() { <-d.under }()
	default:
		return nil, refuse(ReasonBusy, "%d nodes are joining through this one; try again", maxJoins)
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	if err := d.checkRequest(request); err != nil {
		return nil, err
	}
	authority := d.Self.Authority()
	if authority == nil {
		return d.forward(ctx, request)
	}
	record, err := d.checkToken(request)
	if err != nil {
		return nil, err
	}
	key, err := d.checkKey(request)
	if err != nil {
		return nil, err
	}
	if err := d.use(ctx, record, request.Node, key); err != nil {
		return nil, err
	}
	return d.admit(authority, request, key)
}

// checkRequest looks at what needs no token.
func (d *Door) checkRequest(request *JoinRequest) error {
	if err := CheckNodeID(request.Node); err != nil {
		return refuse(ReasonRequest, "%v", err)
	}
	if _, err := ParseRole(string(request.Role)); err != nil {
		return refuse(ReasonRequest, "%v", err)
	}
	if len(request.Version) > 100 || request.Address != "" && checkSeed(request.Address) != nil {
		return refuse(ReasonRequest, "version %q, address %q: want at most 100 bytes, and host:port or nothing", shorten(request.Version), shorten(request.Address))
	}
	if id := d.Self.Cluster().ID(); request.Cluster != id {
		return refuse(ReasonCluster, "the join token is of cluster %s, and this node is of cluster %s", request.Cluster, id)
	}
	if d.Self.denied(request.Node) {
		return refuse(ReasonRevoked, "node %s was revoked; it can come back only with a new id, that is with a new data directory", request.Node)
	}
	return nil
}

func (d *Door) checkToken(request *JoinRequest) (TokenRecord, error) {
	id := request.Secret.id()
	record, known := d.Token(id)
	if !known || !record.matches(request.Secret) {
		return TokenRecord{}, refuse(ReasonUnknown, "join token %s: is not known; it was revoked, or is so new that this node has not heard of it", id)
	}
	if request.Role == Voter && record.Role != Voter {
		return TokenRecord{}, refuse(ReasonRole, "join token %s: is for edges, and node %s asks to be a voter; join as an edge, or with a token for voters", id, request.Node)
	}
	now := time.Now()
	if record.State(now) == TokenExpired {
		return TokenRecord{}, refuse(ReasonExpired, "join token %s: expired at %s; agent token join prints a new one", id, record.Expires.Format(time.RFC3339))
	}
	if skew := request.Time.Sub(now); skew.Abs() > maxSkew {
		return TokenRecord{}, refuse(ReasonClock, "the clock of node %s shows %s and that of this voter %s; set them right (at most %s may lie between)",
			request.Node, request.Time.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), maxSkew)
	}
	return record, nil
}

// checkKey sees to it that nobody gets the id of another node.
func (d *Door) checkKey(request *JoinRequest) (PublicKey, error) {
	public, err := requestKey(request.Request)
	if err != nil {
		return PublicKey{}, refuse(ReasonRequest, "%v", err)
	}
	key := PublicKey(public)
	holder, known := PublicKey{}, false
	if self := d.Self.Self(); self.Node == request.Node {
		holder, known = self.Key, true
	} else if d.Holder != nil {
		holder, known = d.Holder(request.Node)
	}
	if known && holder != key {
		return PublicKey{}, refuse(ReasonTaken, "node id %s: is that of a member with another key; a node that lost its key needs a new id, that is a new data directory", request.Node)
	}
	return key, nil
}

func (d *Door) use(ctx context.Context, record TokenRecord, node string, key PublicKey) error {
	if !record.NeedsQuorum() {
		return nil
	}
	if _, _, err := record.UseBy(node, key, time.Now()); err != nil {
		return err
	}
	if d.Use == nil {
		return refuse(ReasonNoQuorum, "join token %s: the voters have to agree on its use, and can't be asked", record.ID)
	}
	err := d.Use(ctx, record.ID, node, key)
	if err == nil || errors.As(err, new(*Refusal)) {
		return err
	}
	return refuse(ReasonNoQuorum, "join token %s: the voters did not agree on its use: %v; unlimited tokens for edges need no agreement", record.ID, err)
}

// admit makes the answer.
func (d *Door) admit(authority *Authority, request *JoinRequest, key PublicKey) (*JoinAnswer, error) {
	certificate, err := authority.issue(request.Node, request.Role, ed25519.PublicKey(key[:]))
	if err != nil {
		return nil, err
	}
	answer := &JoinAnswer{
		CA: authority.cluster.ca.Raw, Certificate: certificate,
		GossipKeys: d.Self.GossipKeys(), Seeds: bounded(d.Seeds),
	}
	if request.Role == Voter {
		answer.CAKey, answer.VoterKey = authority.caKey.Seed(), authority.voterKey.Seed()
	}
	return answer, nil
}

// forward has a voter decide. A voter's token never goes this way: its answer
// holds keys that this node must not see, nor may it have the token.
func (d *Door) forward(ctx context.Context, request *JoinRequest) (*JoinAnswer, error) {
	if request.Role == Voter {
		return nil, refuse(ReasonVoter, "node %s is an edge: a node that is to be a voter has to ask a voter", d.Self.Node())
	}
	if d.Forward == nil || request.Forwarded {
		return nil, refuse(ReasonVoter, "node %s is an edge, and knows no voter to ask", d.Self.Node())
	}
	passed := *request
	passed.Forwarded = true
	answer, err := d.Forward(ctx, &passed)
	if err == nil || errors.As(err, new(*Refusal)) {
		return answer, err
	}
	return nil, refuse(ReasonVoter, "node %s is an edge, and reached no voter: %v", d.Self.Node(), err)
}

// voters tells the holder of a voter's token whom to give it to.
func (d *Door) voters(w http.ResponseWriter, r *http.Request) {
	var request votersRequest
	if err := readBody(w, r, &request); err != nil {
		reply(w, nil, err)
		return
	}
	record, known := d.Token(request.Token)
	if !known || record.Role != Voter || record.State(time.Now()) == TokenExpired {
		reply(w, nil, refuse(ReasonUnknown, "join token %s: is not known here as a live one for voters", shorten(request.Token)))
		return
	}
	reply(w, votersAnswer{bounded(d.Voters)}, nil)
}

// refusalOf tells a stranger no more of an error than a refusal says.
func refusalOf(err error) *Refusal {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	return refuse(ReasonFault, "the voter has a fault of its own; its log says more")
}

func bounded(addresses func() []string) []string {
	if addresses == nil {
		return []string{}
	}
	list := slices.DeleteFunc(slices.Clone(addresses()), func(a string) bool { return checkSeed(a) != nil })
	return list[:min(len(list), maxAnswerSeeds)]
}

func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(host, "::ffff:")
}
