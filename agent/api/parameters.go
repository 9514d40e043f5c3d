package api

// Parameters and answers that several operations share.

var (
	detailParam      = param{name: "detail", text: "1: an envelope with all that is known of the entry", values: switchWords()}
	atParam          = param{name: "at", text: "a revision of the past, as 1.1842 or 1842"}
	prefixParam      = param{name: "prefix", text: "the prefix; every key by default"}
	recurseParam     = param{name: "recurse", text: "1: the key is a prefix", values: switchWords()}
	nodeParam        = param{name: "node", text: "let this node answer, by name or id: 404 where there is none, 502 where it can't be reached"}
	timeoutParam     = param{name: "timeout", text: "how long it may take, and after a write its receipt; 10s by default, at most 10m"}
	consistencyParam = param{
		name: "consistency", values: []string{"local", "linearizable"},
		text: "local (the default): as this node has it; linearizable: with all that was committed before the request",
	}
	atLeastParam     = param{name: "atLeast", text: "wait until this node has the revision"}
	ifMatchParam     = param{name: "If-Match", header: true, text: `an ETag that the key must have, as "1.1842"; * for any`}
	ifNoneMatchParam = param{name: "If-None-Match", header: true, text: "*: the key must not be there"}
)

var (
	badRequest  = answer{status: 400, text: "bad_key, bad_request: the key or a parameter can't be meant", document: Problem{}}
	keyMissing  = answer{status: 404, text: "not_found: there is nothing to change", document: Problem{}}
	refused     = answer{status: 409, text: "refused: detail says why", document: Problem{}}
	noQuorum    = answer{status: 503, text: "no_quorum: no leader took it in time", document: Problem{}}
	unknown     = answer{status: 504, text: "unknown_outcome: it may have been done, and nothingWritten is false", document: Problem{}}
	timedOut    = answer{status: 504, text: "timeout: nobody answered in time", document: Problem{}}
	behind      = answer{status: 504, text: "timeout: this node did not come so far in time; rev is where it is", document: Problem{}}
	noSuchNode  = answer{status: 404, text: "not_found: there is no such node", document: Problem{}}
	noSuchToken = answer{status: 404, text: "not_found: there is no such token", document: Problem{}}
	unreachable = answer{status: 502, text: "node_unreachable: none of them answered", document: Problem{}}
	compacted   = answer{status: 410, text: "compacted: the revision is not kept any more; rev is the oldest that is", document: Problem{}}
	conflicting = answer{status: 412, text: "conflict: the condition does not hold; rev is the key's revision", document: Problem{}}
	tooLarge    = answer{status: 413, text: "too_large: the body, a value or the transaction", document: Problem{}}
)

// switchWords are the values of a parameter that is on or off. Given without a value it is on.
func switchWords() []string { return []string{"1", "0", "true", "false", ""} }

func writeParams() []param {
	return []param{
		{name: "dryRun", text: "1: check everything, conditions too, and write nothing", values: switchWords()},
		{name: "wait", text: "none: answer when it is durable; local (the default): when this node serves it; 50% or all: when so many of the live nodes do"},
		timeoutParam,
		{name: "message", text: "why, for the history; one line of at most 1024 bytes"},
	}
}

// writeAnswers are those of an operation that writes.
func writeAnswers(document any, more ...answer) []answer {
	answers := []answer{
		{status: 200, text: "done, and served as applied says", document: document},
		{status: 202, text: "written, and not served in time; applied.missing names the nodes", document: document},
		badRequest,
	}
	answers = append(answers, more...)
	return append(answers,
		answer{status: 422, text: "invalid: faults says all that is wrong", document: Problem{}},
		answer{status: 503, text: "no_quorum: no leader took it in time; read_only: the disk refused a write before", document: Problem{}},
		answer{status: 504, text: "unknown_outcome: it may have been written, and nothingWritten is false; timeout: it had no turn in time", document: Problem{}},
		answer{status: 507, text: "disk_full", document: Problem{}},
	)
}
