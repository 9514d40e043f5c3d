package api

// Parameters and answers that several operations share.

var (
	detailParam      = param{name: "detail", text: "1: an envelope with all that is known of the entry", values: switchWords()}
	atParam          = param{name: "at", text: "a revision of the past, as 1.1842 or 1842"}
	prefixParam      = param{name: "prefix", text: "the prefix; every key by default"}
	recurseParam     = param{name: "recurse", text: "1: the key is a prefix", values: switchWords()}
	ifMatchParam     = param{name: "If-Match", header: true, text: `an ETag that the key must have, as "1.1842"; * for any`}
	ifNoneMatchParam = param{name: "If-None-Match", header: true, text: "*: the key must not be there"}
)

var (
	badRequest  = answer{status: 400, text: "bad_key, bad_request: the key or a parameter can't be meant", document: Problem{}}
	keyMissing  = answer{status: 404, text: "not_found: there is nothing to change", document: Problem{}}
	compacted   = answer{status: 410, text: "compacted: the revision is not kept any more; rev is the oldest that is", document: Problem{}}
	conflicting = answer{status: 412, text: "conflict: the condition does not hold; rev is the key's revision", document: Problem{}}
	tooLarge    = answer{status: 413, text: "too_large: the body, a value or the transaction", document: Problem{}}
)

// switchWords are the values of a parameter that is on or off. Given without a value it is on.
func switchWords() []string { return []string{"1", "0", "true", "false", ""} }

func writeParams() []param {
	return []param{
		{name: "dryRun", text: "1: check everything, conditions too, and write nothing", values: switchWords()},
		{name: "wait", text: "none: answer when it is durable; local (the default): when this node serves it", values: []string{"local", "none"}},
		{name: "message", text: "why, for the history; one line of at most 1024 bytes"},
	}
}

// writeAnswers are those of an operation that writes.
func writeAnswers(document any, more ...answer) []answer {
	answers := []answer{
		{status: 200, text: "done, and served as applied says", document: document},
		{status: 202, text: "written, and not served in time", document: document},
		badRequest,
	}
	answers = append(answers, more...)
	return append(answers,
		answer{status: 422, text: "invalid: faults says all that is wrong", document: Problem{}},
		answer{status: 503, text: "read_only: the disk refused a write before", document: Problem{}},
		answer{status: 507, text: "disk_full", document: Problem{}},
	)
}
