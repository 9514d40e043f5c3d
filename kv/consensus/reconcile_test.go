package consensus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"grapevine/kv/consensus"
)

// standing reads a state from words, one a node:
//
//	a        a member that is alive for an hour and may vote
//	a+ a-    a voter, a learner of the configuration; the first voter leads
//	@eu      its region
//	!5s      dead for 5 s
//	~5s      alive for 5 s
//	lag=200  entries behind; lag=? not known
//	edge     may not vote
//	demoted  an operator took its vote
//	left     has left
//	id=x     its server id as membership has it, instead of its node's
//	at=x     its address as membership has it, instead of its node's
//	level=2  its feature level
//	gone     in the configuration, and nobody has heard of it
func standing(t *testing.T, state string) consensus.Standing {
	t.Helper()
	s := consensus.Standing{Lag: map[string]uint64{}}
	for _, words := range strings.Split(state, ",") {
		fields := strings.Fields(words)
		node := strings.TrimRight(fields[0], "+-")
		server := node
		m := consensus.Member{Node: consensus.NodeOf(node), Server: node, Address: consensus.NodeOf(node) + ":1", Votes: true, Alive: true, Since: time.Hour, Level: 1}
		known, heard := true, true
		var lag uint64
		for _, word := range fields[1:] {
			name, value, _ := strings.Cut(word, "=")
			var err error
			switch {
			case name == "edge":
				m.Votes = false
			case name == "demoted":
				m.Demoted = true
			case name == "left":
				m.Left, m.Alive = true, false
			case name == "gone":
				heard = false
			case name == "id":
				m.Server = value
			case name == "at":
				m.Address = value
			case name == "level":
				_, err = fmt.Sscan(value, &m.Level)
			case word == "lag=?":
				known = false
			case name == "lag":
				_, err = fmt.Sscan(value, &lag)
			case word[0] == '@':
				m.Region = word[1:]
			case word[0] == '!':
				m.Alive = false
				m.Since, err = time.ParseDuration(word[1:])
			case word[0] == '~':
				m.Since, err = time.ParseDuration(word[1:])
			default:
				t.Fatalf("%s: what is %q?", state, word)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if heard {
			s.Members = append(s.Members, m)
		}
		if suffix := strings.TrimPrefix(fields[0], node); suffix != "" {
			s.Servers = append(s.Servers, consensus.Server{ID: server, Address: consensus.NodeOf(node) + ":1", Voter: suffix == "+"})
			if suffix == "+" && s.Leader == "" {
				s.Leader = server
			}
		}
		if known && m.Alive {
			s.Lag[server] = lag
		}
	}
	return s
}

func TestDecide(t *testing.T) {
	for _, row := range []struct{ name, state, want string }{
		{"one node", "a+", ""},
		{"a second follows", "a+, b", "add learner b"},
		{"two are a voter and a learner", "a+, b-", ""},
		{"two voters are one too many", "a+, b+", "demote b"},
		{"a third follows too", "a+, b-, c", "add learner c"},
		{"an edge stays out", "a+, b edge", ""},
		{"a node that has no server id yet", "a+, b id= at=", ""},
		{"a dead one is not added", "a+, b !1s", ""},
		{"growing waits for nobody", "a+, b- ~1s, c- ~1s", "promote b"},
		{"growing waits until both are caught up", "a+, b-, c- lag=100", ""},
		{"growing waits until both are known", "a+, b-, c- lag=?", ""},
		{"then the third", "a+, b+, c- ~1s", "promote c"},
		{"the third is behind: it may come", "a+, b+, c- lag=5000", ""},
		{"the third died while growing", "a+, b+, c- !70s", "remove c"},
		{"back to one without a third", "a+, b+, c !70s", "demote b"},
		{"two voters, a third comes", "a+, b+, c", "add learner c"},
		{"two voters of which one is ill", "a+, b+ !5s, c-", ""},
		{"three voters", "a+, b+, c+", ""},
		{"a fourth stands by", "a+, b+, c+, d", "add learner d"},
		{"a fifth too", "a+, b+, c+, d-, e", "add learner e"},
		{"a sixth does not", "a+, b+, c+, d-, e-, f", ""},
		{"with seven there are five voters", "a+, b+, c+, d-, e-, f, g", "promote d"},
		{"and then the fifth", "a+, b+, c+, d+, e-, f, g", "promote e"},
		{"and two stand by", "a+, b+, c+, d+, e+, f, g", "add learner f"},
		{"many edges change nothing", "a+, b+, c+, d edge, e edge, f edge, g edge, h edge", ""},
		{"from seven to six: three voters", "a+, b+, c+, d+, e+, f-", "demote e"},
		{"one after the other", "a+, b+, c+, d+, e-, f-", "demote d"},
		{"too many learners", "a+, b+, c+, d-, e-, f-", "remove f"},

		{"a voter that is ill is left alone", "a+, b+, c+ !59s, d-", ""},
		{"a dead one is not removed without another", "a+, b+, c+ !1h", ""},
		{"a candidate must have been alive", "a+, b+, c+ !60s, d- ~9s", ""},
		{"and be caught up", "a+, b+, c+ !60s, d- lag=100", ""},
		{"a dead one is replaced", "a+, b+, c+ !60s, d- ~10s", "promote d"},
		{"then it goes", "a+, b+, c+ !70s, d+", "remove c"},
		{"a newcomer is added to replace it", "a+, b+, c+ !70s, d", "add learner d"},
		{"two are not well: nothing goes", "a+, b+, c+, d+ !70s, e+ !5s, f+, g-", ""},
		{"two dead of five: the first is replaced", "a+, b+, c+, d+ !70s, e+ !70s, f-, g-", "promote f"},
		{"then the second", "a+, b+, c+, d+ !70s, e+ !70s, f+, g-", "promote g"},
		{"but none goes while two are not well", "a+, b+, c+, d+ !70s, e+ !70s, f+, g+", ""},
		{"no quorum: nothing", "a+, b+ !70s, c+ !70s, d-, e-", ""},
		{"it came back before it was replaced", "a+, b+, c+ ~1s, d-", ""},
		{"it came back after it was replaced", "a+, b+, c+, d+", "demote d"},
		{"a candidate of a lower level", "a+ level=2, b+ level=2, c+ !70s, d- level=1", ""},
		{"of a higher one", "a+ level=1, b+, c+ !70s, d- level=2", "promote d"},
		{"a server nobody has heard of", "a+, b+, c+ gone, d-", ""},
		{"and a learner like that", "a+, b- gone", ""},

		{"a voter that left goes at once", "a+, b+, c+ left, d-", "remove c"},
		{"of three, two remain: one voter", "a+, b+, c left", "demote b"},
		{"one of two voters left, and is away", "a+, b+ left", ""},
		{"a learner that left", "a+, b- left", "remove b"},
		{"a dead learner", "a+, b+, c+, d- !60s", "remove d"},
		{"an ill learner", "a+, b+, c+, d- !59s", ""},
		{"a node came back under another id", "a+, b+, c.1+ id=c.2", "remove c.1"},
		{"and as a learner", "a+, b+, c+, d.1- id=d.2", "remove d.1"},
		{"a voter became an edge", "a+, b+, c+ edge, d-", "demote c"},
		{"and then leaves raft", "a+, b+, c- edge", "remove c"},
		{"the leader became an edge", "a+ edge, b+, c+", "hand over b"},
		{"to one that is well", "a+ edge, b+ !5s, c+", "hand over c"},
		{"the leader left", "a+ left, b+, c+, d+", "hand over b"},
		{"the only voter became an edge", "a+ edge, b-", "promote b"},
		{"and hands over", "a+ edge, b+", "hand over b"},
		{"and goes", "b+, a+ edge", "demote a"},
		{"a voter moved", "a+, b+ at=x:2, c+", "move b to x:2"},
		{"so did the leader", "a+ at=x:2", "move a to x:2"},
		{"a dead one is not moved", "a+, b+ !5s at=x:2, c+", ""},

		{"who was demoted has no vote", "a+, b+, c+, d+ demoted, e", "demote d"},
		{"and gets none", "a+, b+, c+, d- demoted", ""},
		{"two others are a voter and a learner", "a+, b+, c- demoted", "demote b"},
		{"and stay so", "a+, b-, c- demoted", ""},
		{"one that is ill is waited for", "a+, b+, c+, d+ demoted !5s", ""},
		{"another votes meanwhile", "a+, b+ demoted !5s, c+, d-, e-", "promote d"},
		{"its place is given to another", "a+, b+, c- demoted, d-", "promote d"},
		{"it does not take the place of who stands by", "a+, b+, c+, d- demoted, e-, f", "add learner f"},
		{"it is not added", "a+, b+, c+, d demoted", ""},
		{"the leader was demoted", "a+ demoted, b+, c+", "hand over b"},
		{"not to another that was", "a+ demoted, b+ demoted, c+, d+", "hand over c"},
		{"one that left", "a+, b+, c+, d- demoted left", "remove d"},

		{"the learner of the empty region first", "a+ @eu, b+ @us, c- @us, d- @ap", "promote d"},
		{"the newcomer of the empty region first", "a+ @eu, b+ @us, c+ @eu, d @eu, e @ap", "add learner e"},
		{"the vote goes from the fullest region", "a+ @eu, b+ @eu, c+ @eu, d+ @us", "demote c"},
		{"a region of its own gets a vote", "a+ @eu, b+ @eu, c+ @eu, d- @us", "promote d"},
		{"one more is no reason", "a+ @eu, b+ @eu, c+ @us, d- @us", ""},
		{"not to one that was just there", "a+ @eu, b+ @eu, c+ @eu, d- @us ~5s", ""},
		{"not while one is not well", "a+ @eu, b+ @eu, c+ @eu !5s, d- @us", ""},
		{"five voters, spread", "a+ @eu, b+ @eu, c+ @eu, d+ @us, e+ @us, f- @us, g- @eu", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			step, why, ok := consensus.Decide(standing(t, row.state))
			got := ""
			if ok {
				got = step.String()
			}
			if step.Kind == consensus.Move {
				got += " to " + step.Address
			}
			if got != row.want {
				t.Errorf("%s\ngot  %q (%s)\nwant %q", row.state, got, why, row.want)
			}
		})
	}
}

// apply does a step as raft would.
func apply(s consensus.Standing, step consensus.Change) consensus.Standing {
	s.Servers = slices.Clone(s.Servers)
	at := slices.IndexFunc(s.Servers, func(server consensus.Server) bool { return server.ID == step.Server })
	switch step.Kind {
	case consensus.AddLearner:
		s.Servers = append(s.Servers, consensus.Server{ID: step.Server, Address: step.Address})
	case consensus.Promote:
		s.Servers[at].Voter = true
	case consensus.Demote:
		s.Servers[at].Voter = false
	case consensus.Remove:
		s.Servers = slices.Delete(s.Servers, at, at+1)
	case consensus.Move:
		s.Servers[at].Address = step.Address
	case consensus.HandOver:
		s.Leader = step.Server
	}
	return s
}

// From any state with a quorum: every step keeps one, and the steps come to an end.
func TestDecideComesToAnEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawStanding(t)
		if healthyVoters(s)*2 <= voters(s) {
			if step, _, ok := consensus.Decide(s); ok {
				t.Fatalf("without a quorum: %v", step)
			}
			return
		}
		var done []string
		for range 60 {
			step, why, ok := consensus.Decide(s)
			if !ok {
				return
			}
			done = append(done, step.String()+": "+why)
			s = apply(s, step)
			if voters(s) == 0 || healthyVoters(s)*2 <= voters(s) {
				t.Fatalf("%d of %d voters are left after\n%s", healthyVoters(s), voters(s), strings.Join(done, "\n"))
			}
			if step.Server == s.Leader && (step.Kind == consensus.Remove || step.Kind == consensus.Demote) {
				t.Fatalf("the leader's own vote is taken: %v", done)
			}
		}
		t.Fatalf("no end after\n%s\n%+v", strings.Join(done, "\n"), s)
	})
}

func drawStanding(t *rapid.T) consensus.Standing {
	s := consensus.Standing{Lag: map[string]uint64{}}
	for n := range rapid.IntRange(1, 12).Draw(t, "nodes") {
		id := string(rune('a' + n))
		m := consensus.Member{
			Node: id, Server: id, Address: id + ":1", Region: rapid.SampledFrom([]string{"eu", "us", "ap"}).Draw(t, "region"),
			Votes: rapid.IntRange(0, 5).Draw(t, "votes") > 0, Demoted: rapid.IntRange(0, 5).Draw(t, "demoted") == 0, Alive: rapid.IntRange(0, 4).Draw(t, "alive") > 0,
			Since: time.Duration(rapid.IntRange(0, 120).Draw(t, "since")) * time.Second,
			Left:  rapid.IntRange(0, 9).Draw(t, "left") == 0,
		}
		role := rapid.SampledFrom([]string{"voter", "voter", "learner", "none"}).Draw(t, "role")
		if n == 0 {
			role, m.Alive, m.Left = "voter", true, false
			s.Leader = id
		}
		if rapid.IntRange(0, 9).Draw(t, "known") > 0 || n == 0 {
			s.Members = append(s.Members, m)
		}
		if role != "none" {
			s.Servers = append(s.Servers, consensus.Server{ID: id, Address: id + ":1", Voter: role == "voter"})
		}
		if m.Alive {
			s.Lag[id] = rapid.SampledFrom([]uint64{0, 5, 500}).Draw(t, "lag")
		}
	}
	return s
}

func voters(s consensus.Standing) int {
	n := 0
	for _, server := range s.Servers {
		if server.Voter {
			n++
		}
	}
	return n
}

func healthyVoters(s consensus.Standing) int {
	n := 0
	for _, server := range s.Servers {
		for _, m := range s.Members {
			if server.Voter && m.Server == server.ID && m.Alive && !m.Left {
				n++
			}
		}
	}
	return n
}
