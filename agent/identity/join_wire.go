package identity

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// The paths of gv-join/1, on which POST takes and gives JSON; JoinPath and
// RenewPath are served on gv-peer/1 too.
const (
	JoinPath   = "/cluster/join"   // JoinRequest to JoinAnswer
	VotersPath = "/cluster/voters" // votersRequest to votersAnswer
	RenewPath  = "/cluster/renew"  // a certificate request to a certificate, both DER
)

// Bounds of bodies in bytes.
const (
	maxJoinRequest = 16 << 10
	maxJoinAnswer  = 256 << 10
)

// maxAnswerSeeds bounds the addresses that an answer names.
const maxAnswerSeeds = 64

// JoinRequest is what a node that wants to join says of itself. It holds the
// token's secret.
type JoinRequest struct {
	Cluster ClusterID `json:"cluster"`
	Secret  Secret    `json:"secret"`
	Node    string    `json:"node"`
	Role    Role      `json:"role"` // that it wants to have
	// Request is a certificate request (PKCS #10), which proves that the node has
	// the key.
	Request []byte    `json:"request"`
	Version string    `json:"version"` // of its program
	Address string    `json:"address"` // that it will announce, host:port; "" if it asks what others see
	Time    time.Time `json:"time"`    // by its clock
	// Forwarded is set by a node that passes the request on; such a request is not
	// passed on again.
	Forwarded bool `json:"forwarded,omitempty"`
}

// JoinAnswer makes a node a member.
type JoinAnswer struct {
	CA          []byte   `json:"ca"`          // DER
	Certificate []byte   `json:"certificate"` // DER
	GossipKeys  [][]byte `json:"gossipKeys"`
	Seeds       []string `json:"seeds"` // host:port of members
	// CAKey and VoterKey are the seeds (RFC 8032 §5.1.5) of the cluster's two keys.
	// Only a voter gets them, from a voter, over a connection between the two.
	CAKey    []byte `json:"caKey,omitempty"`
	VoterKey []byte `json:"voterKey,omitempty"`
	// Observed is the IP address that the node's connection came from.
	Observed string `json:"observed"`
}

// votersRequest names a voter's token without giving it away.
type votersRequest struct {
	Token string `json:"token"`
}

type votersAnswer struct {
	Voters []string `json:"voters"`
}

// MarshalText writes hexadecimal digits.
func (c ClusterID) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads hexadecimal digits.
func (c *ClusterID) UnmarshalText(text []byte) error { return readHex("cluster id", c[:], text) }

// MarshalText gives the secret away: it is for requests alone.
func (s Secret) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%x", s[:]), nil }

// UnmarshalText reads hexadecimal digits.
func (s *Secret) UnmarshalText(text []byte) error { return readHex("secret", s[:], text) }

// readBody reads a JSON body of at most most bytes. Fields that this version
// does not know are left out: newer nodes may send them.
func readBody(w http.ResponseWriter, r *http.Request, value any) error {
	body := http.MaxBytesReader(w, r.Body, maxJoinRequest)
	if err := json.NewDecoder(body).Decode(value); err != nil {
		return refuse(ReasonRequest, "join request: %v", err)
	}
	return nil
}

// reply answers with value, or with the refusal that err is.
func reply(w http.ResponseWriter, value any, err error) {
	status := http.StatusOK
	if err != nil {
		refusal := refusalOf(err)
		value, status = refusal, refusal.status()
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(value) // who has hung up needs no answer
}

func readHex(name string, into, text []byte) error {
	if len(text) != hex.EncodedLen(len(into)) {
		return fmt.Errorf("%s: has %d digits, want %d", name, len(text), hex.EncodedLen(len(into)))
	}
	if _, err := hex.Decode(into, text); err != nil {
		return fmt.Errorf("%s: is not hexadecimal", name)
	}
	return nil
}
