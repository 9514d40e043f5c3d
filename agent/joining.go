package agent

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"grapevine/agent/cluster"
	"grapevine/agent/identity"
)

// DefaultGossip is where other nodes reach this one unless it is told otherwise. A --dev agent has no such port then.
const DefaultGossip = "127.0.0.1:7946"

// clusterSettings are what the node brings into its cluster.
type clusterSettings struct {
	join *cluster.Join // nil: it founds one, if it is in none
	role identity.Role // empty: what its token allows
}

// resolveCluster reads what the command line says of the cluster. Every fault is noted.
func (r *resolver) resolveCluster(c Config) (s clusterSettings) {
	problem := func(format string, args ...any) { r.usage = append(r.usage, fmt.Errorf(format, args...)) }
	join, err := readJoin(c.Join, c.TokenFile)
	if err != nil {
		problem("%w", err)
	}
	s.join = join
	switch c.Voter {
	case "", VoterAuto:
	case VoterYes:
		s.role = identity.Voter
	case VoterNo:
		s.role = identity.Edge
	default:
		problem("--voter %q: neither %s, %s nor %s", c.Voter, VoterAuto, VoterYes, VoterNo)
	}
	if c.BootstrapExpect > 0 {
		problem("--bootstrap-expect %d: is not in this version; start one node, and the others with --join", c.BootstrapExpect)
	}
	if c.NoGateway && s.join != nil {
		s.role = identity.Edge
	}
	if s.role == identity.Edge && s.join == nil {
		problem("--voter no: a node that founds a cluster votes; give it --join")
	}
	return s
}

// readJoin reads one token, or addresses beside a file that holds the token.
func readJoin(join []string, file string) (*cluster.Join, error) {
	switch {
	case len(join) == 0 && file == "":
		return nil, nil
	case len(join) == 0:
		return tokenOf(file, nil)
	case strings.HasPrefix(join[0], identity.TokenPrefix):
		if len(join) > 1 || file != "" {
			return nil, errors.New("--join: one token says all there is; give either a token, or addresses with --token-file")
		}
		token, err := identity.ParseToken(join[0])
		if err != nil {
			return nil, fmt.Errorf("--join: %w", err)
		}
		return &cluster.Join{Token: token}, nil
	case file == "":
		return nil, fmt.Errorf("--join %q: addresses need --token-file, or give the token that agent token join printed", strings.Join(join, ","))
	}
	return tokenOf(file, join)
}

func tokenOf(file string, seeds []string) (*cluster.Join, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--token-file %q: %w", file, bare(err))
	}
	token, err := identity.ParseToken(string(text))
	if err != nil {
		return nil, fmt.Errorf("--token-file %q: %w", file, err)
	}
	return &cluster.Join{Token: token, Seeds: seeds}, nil
}
