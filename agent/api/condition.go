package api

import (
	"net/http"
	"strings"

	"grapevine/kv"
)

// conditions reads If-Match and If-None-Match as compares of key.
func conditions(h http.Header, key kv.Key, epoch uint32) ([]kv.Compare, error) {
	var compares []kv.Compare
	if match := h.Values("If-Match"); len(match) > 0 {
		c, err := ifMatch(strings.Join(match, ", "), key, epoch)
		if err != nil {
			return nil, err
		}
		compares = append(compares, c)
	}
	if none := h.Values("If-None-Match"); len(none) > 0 {
		if text := strings.Join(none, ", "); text != "*" {
			return nil, fail(codeBadRequest, "If-None-Match %q: a write takes * only, for a key that must not be there", text)
		}
		compares = append(compares, kv.Compare{Key: key, Target: kv.TargetAbsent, Op: kv.Equal})
	}
	return compares, nil
}

func ifMatch(text string, key kv.Key, epoch uint32) (kv.Compare, error) {
	if text == "*" {
		return kv.Compare{Key: key, Target: kv.TargetAbsent, Op: kv.NotEqual}, nil
	}
	rev, err := kv.ParseRev(unquote(text), epoch)
	if err != nil {
		return kv.Compare{}, fail(codeBadRequest, "If-Match %s: want * or one ETag of the key: %v", text, err)
	}
	return kv.Compare{Key: key, Target: kv.TargetModRev, Op: kv.Equal, Rev: rev}, nil
}

// unquote takes the quotes off an ETag, if it has them.
func unquote(tag string) string {
	if len(tag) > 1 && tag[0] == '"' && tag[len(tag)-1] == '"' {
		return tag[1 : len(tag)-1]
	}
	return tag
}

func etag(rev kv.Rev) string { return `"` + rev.String() + `"` }

// conflict tells what stands where a condition expected something else.
func conflict(view kv.View, key kv.Key) error {
	entry, ok := view.Get(key)
	if !ok {
		return fail(codeConflict, "key %q: is not there, so the condition does not hold", key).about(string(key))
	}
	f := fail(codeConflict, "key %q: is at revision %s, so the condition does not hold", key, entry.ModRev).about(string(key))
	f.rev = entry.ModRev.String()
	return f
}
