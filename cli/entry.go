package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"grapevine/agent/api"
	"grapevine/kv"
)

// bare is a value as it is stored: what the API holds as JSON, as text or as base64.
func bare(value json.RawMessage, encoding api.Encoding) ([]byte, error) {
	if encoding == "" {
		return value, nil
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return nil, fmt.Errorf("a value in %s: %w", encoding, err)
	}
	if encoding == "base64" {
		return base64.StdEncoding.DecodeString(text)
	}
	return []byte(text), nil
}

// compact is a value on one line.
func compact(value json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return string(value)
	}
	return b.String()
}

// checkKey refuses a key that no agent takes, before it becomes part of a URL.
func checkKey(key string) error {
	if _, err := kv.ParseKey(key); err != nil {
		return &failure{code: exitInvalid, problem: err.Error(), cause: err}
	}
	return nil
}

// checkPrefix is checkKey for a prefix: it may end in a slash.
func checkPrefix(prefix string) error {
	return checkKey(strings.TrimSuffix(prefix, "/"))
}
