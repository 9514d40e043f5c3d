package api

import "net/http"

// memberOperations are about the nodes of the cluster.
func memberOperations() []operation {
	return []operation{
		{
			name: "listMembers", method: http.MethodGet, path: "/v1/members", serve: (*API).members,
			summary: "The nodes of the cluster",
			text:    "As the node that is asked knows them, without asking any other. A node that is in no cluster names itself.",
			answers: []answer{{status: 200, text: "the nodes", document: MemberList{}}},
		},
		{
			name: "joinMembers", method: http.MethodPost, path: "/v1/members/join", serve: (*API).join,
			summary: "Get in touch with nodes of the cluster",
			text: "For a node that has lost touch, and whose others are where it does not look for them. It doesn't make a node a member of a cluster: " +
				"agent run --join does.",
			params:  []param{timeoutParam},
			body:    &body{types: []string{typeJSON}, document: Joining{}, limit: maxSmallBody},
			answers: []answer{{status: 200, text: "one of them answered", document: Joined{}}, badRequest, refused, unreachable, unknown},
		},
		{
			name: "leave", method: http.MethodPost, path: "/v1/leave", serve: (*API).leave,
			summary: "Take this node out of the cluster",
			text:    "A voter hands its vote over first. Afterwards the agent stops.",
			params:  []param{timeoutParam},
			body:    &body{types: []string{typeJSON}, document: Nothing{}, limit: maxSmallBody},
			answers: changeAnswers(Gone{}, "it is out, and stops"),
		},
		{
			name: "removeMember", method: http.MethodDelete, path: "/v1/members/{node}", serve: (*API).forceLeave,
			summary: "Take another node out of the cluster",
			text:    "For one that can't leave by itself. A node that lives is refused, unless it is revoked.",
			params:  []param{{name: "revoke", text: "1: refuse its certificate from now on", values: switchWords()}, timeoutParam},
			answers: changeAnswers(Gone{}, "it is out", noSuchNode),
		},
		{
			name: "probeReachability", method: http.MethodGet, path: "/v1/reachability", serve: (*API).reachability,
			summary: "Who reaches whom",
			text:    "Each live node probes each other, by UDP, by TCP and, where both order writes, by raft.",
			params:  []param{timeoutParam},
			answers: []answer{{status: 200, text: "what each of them found", document: Reachability{}}, badRequest, timedOut},
		},
	}
}

// voterOperations are about the nodes that order writes.
func voterOperations() []operation {
	return []operation{
		{
			name: "listPeers", method: http.MethodGet, path: "/v1/raft/peers", serve: (*API).peers,
			summary: "The voters and learners",
			params:  []param{timeoutParam},
			answers: []answer{{status: 200, text: "the peers", document: PeerList{}}, badRequest, noQuorum, timedOut},
		},
		{
			name: "transferLeadership", method: http.MethodPost, path: "/v1/raft/transfer-leadership", serve: (*API).transferLeadership,
			summary: "Let another voter lead",
			params:  []param{timeoutParam},
			body:    &body{types: []string{typeJSON}, document: Transfer{}, limit: maxSmallBody},
			answers: changeAnswers(Leadership{}, "another leads", noSuchNode),
		},
		{
			name: "promote", method: http.MethodPost, path: "/v1/raft/promote", serve: (*API).promote,
			summary: "Make a node a voter",
			text:    "It has to be one that may vote. It ends what demote began.",
			params:  []param{timeoutParam},
			body:    &body{types: []string{typeJSON}, document: Voter{}, limit: maxSmallBody},
			answers: changeAnswers(RoleChange{}, "it votes", noSuchNode),
		},
		{
			name: "demote", method: http.MethodPost, path: "/v1/raft/demote", serve: (*API).demote,
			summary: "Make a voter a learner",
			text:    "It gets no vote again until it is promoted, or leaves. Refused where the rest could not write.",
			params:  []param{timeoutParam},
			body:    &body{types: []string{typeJSON}, document: Voter{}, limit: maxSmallBody},
			answers: changeAnswers(RoleChange{}, "it does not vote any more", noSuchNode),
		},
	}
}

// recoveryOperations are about a cluster that has lost a majority of its voters.
func recoveryOperations() []operation {
	return []operation{
		{
			name: "planRecovery", method: http.MethodGet, path: "/v1/raft/recovery", serve: (*API).planRecovery,
			summary: "What a recovery would do",
			text:    "Asks all nodes that live how far they are. Refused, as the recovery would be, while the cluster has a leader or another node is the one to do it on.",
			params:  []param{timeoutParam},
			answers: []answer{{status: 200, text: "the plan", document: Recovery{}}, badRequest, refused, timedOut},
		},
		{
			name: "recover", method: http.MethodPost, path: "/v1/raft/recovery", serve: (*API).recoverCluster,
			summary: "Make this node the only voter",
			text: "For a cluster that has lost a majority of its voters for good. Begins the next epoch with what this node holds. What nobody has who can be " +
				"reached is lost.",
			params:  []param{timeoutParam},
			body:    &body{types: []string{typeJSON}, document: Nothing{}, limit: maxSmallBody},
			answers: changeAnswers(Recovery{}, "it leads"),
		},
	}
}

// admissionOperations are about who may become a node, and proves to be one.
func admissionOperations() []operation {
	return []operation{
		{
			name: "createToken", method: http.MethodPost, path: "/v1/tokens", serve: (*API).createToken,
			summary: "Make a join token",
			text:    "Whoever has the token can become a node of its role.",
			params:  []param{timeoutParam},
			body:    &body{types: []string{typeJSON}, document: TokenRequest{}, limit: maxSmallBody},
			answers: changeAnswers(NewToken{}, "the token"),
		},
		{
			name: "listTokens", method: http.MethodGet, path: "/v1/tokens", serve: (*API).tokens,
			summary: "The join tokens",
			params:  []param{timeoutParam},
			answers: []answer{{status: 200, text: "the tokens, without their secrets", document: TokenList{}}, badRequest, timedOut},
		},
		{
			name: "revokeToken", method: http.MethodDelete, path: "/v1/tokens/{id}", serve: (*API).revokeToken,
			summary: "Revoke a join token",
			params:  []param{timeoutParam},
			answers: changeAnswers(Revoked{}, "it admits nobody any more", noSuchToken),
		},
		{
			name: "listAlarms", method: http.MethodGet, path: "/v1/alarms", serve: (*API).alarms,
			summary: "The nodes whose history contradicts that of the node that is asked",
			answers: []answer{{status: 200, text: "the contradictions", document: AlarmList{}}, refused},
		},
		{
			name: "showAlarm", method: http.MethodGet, path: "/v1/alarms/{node}", serve: (*API).difference,
			summary: "What another node holds that differs",
			text:    "Key by key, without those that nodes keep about themselves.",
			params:  []param{timeoutParam},
			answers: []answer{{status: 200, text: "the difference", document: Difference{}}, badRequest, noSuchNode, refused, unreachable, timedOut},
		},
		{
			name: "settleAlarm", method: http.MethodPost, path: "/v1/alarms/{node}", serve: (*API).settle,
			summary: "Settle a contradiction",
			text: "The other node gives up its history, which is kept beside its store, and takes that of the cluster. What it holds can be written to the " +
				"cluster before, as one new revision. Only the leader's alarms count.",
			params:  []param{timeoutParam},
			body:    &body{types: []string{typeJSON}, document: Settling{}, limit: maxSmallBody},
			answers: changeAnswers(Settled{}, "it is settled", noSuchNode),
		},
		{
			name: "readKeyring", method: http.MethodGet, path: "/v1/keyring", serve: (*API).keyring,
			summary: "Which gossip keys the nodes have",
			text:    "By the ids of the keys; the keys themselves are never told.",
			params:  []param{timeoutParam},
			answers: []answer{{status: 200, text: "the keys, and who has which", document: Keyring{}}, badRequest, refused, timedOut},
		},
		{
			name: "rotateKeys", method: http.MethodPost, path: "/v1/keyring/rotate", serve: (*API).rotateKeys,
			summary: "Replace the gossip key",
			text: "In phases, each of which waits until the one before is true on all live nodes. It answers when the rotation is over or the time " +
				"nearly is; then the rest goes on by itself.",
			params:  []param{timeoutParam},
			body:    &body{types: []string{typeJSON}, document: Nothing{}, limit: maxSmallBody},
			answers: changeAnswers(Keyring{}, "how far it is"),
		},
		{
			name: "listCertificates", method: http.MethodGet, path: "/v1/certificates", serve: (*API).certificates,
			summary: "The certificates of the cluster's CA and of this node",
			answers: []answer{{status: 200, text: "the certificates", document: CertificateList{}}},
		},
	}
}

// changeAnswers are those of an operation that changes the cluster.
func changeAnswers(document any, text string, more ...answer) []answer {
	answers := append([]answer{{status: 200, text: text, document: document}, badRequest}, more...)
	return append(answers, refused, noQuorum, unknown)
}
