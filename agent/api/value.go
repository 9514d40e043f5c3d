package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// Encoding says how a value that is not JSON stands in a JSON document.
type Encoding string

const (
	// EncodingText is a JSON string that holds the value. Without the mark, the text hello could not be told from the
	// JSON "hello".
	EncodingText Encoding = "text"
	// EncodingBase64 is a JSON string that holds the bytes in base64 (RFC 4648 §4).
	EncodingBase64 Encoding = "base64"
)

// wireValue puts the bytes of a value into a JSON document.
func wireValue(value []byte) (json.RawMessage, Encoding) {
	switch {
	case json.Valid(value):
		return value, ""
	case utf8.Valid(value):
		return quote(string(value)), EncodingText
	default:
		return quote(base64.StdEncoding.EncodeToString(value)), EncodingBase64
	}
}

func quote(s string) json.RawMessage {
	var b bytes.Buffer
	if err := encode(&b, s); err != nil { // a string always marshals
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decodeWire takes a value out of a JSON document and reads it as that of a key. Under gateway/ a text is what a person
// would type, shorthand or YAML; for a free key a value is kept as it stands.
func decodeWire(key string, value json.RawMessage, encoding Encoding) (spec.Decoded, error) {
	var text string
	isText := json.Unmarshal(value, &text) == nil && string(value) != "null"
	switch {
	case len(value) == 0:
		return spec.Decoded{}, spec.Faults{{Key: key, Problem: "has no value"}}
	case encoding == "" && (free(key) || !isText):
		return spec.Decode(key, value, spec.FormJSON)
	case encoding == "" && isText:
		return spec.Decode(key, []byte(text), spec.FormAuto)
	case !free(key):
		return spec.Decoded{}, spec.Faults{{Key: key, Field: "encoding", Value: string(encoding), Problem: "is for free keys only"}}
	case !isText:
		return spec.Decoded{}, spec.Faults{{Key: key, Problem: "a value with an encoding is a JSON string"}}
	}
	return decodeBytes(key, text, encoding)
}

func decodeBytes(key string, text string, encoding Encoding) (spec.Decoded, error) {
	switch encoding {
	case EncodingText:
		return spec.Decode(key, []byte(text), spec.FormAuto)
	case EncodingBase64:
		value, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return spec.Decoded{}, spec.Faults{{Key: key, Problem: "is not base64: " + err.Error()}}
		}
		return spec.Decode(key, value, spec.FormAuto)
	default:
		return spec.Decoded{}, spec.Faults{{Key: key, Field: "encoding", Value: string(encoding), Problem: "is neither text nor base64"}}
	}
}

// free says whether a key holds whatever its writer likes.
func free(key string) bool { return !kv.Under("gateway", kv.Key(key)) }

// envelope describes an entry.
func envelope(e kv.Entry) Envelope {
	value, encoding := wireValue(e.Value)
	return Envelope{
		Key: string(e.Key), Value: value, Encoding: encoding, Class: class(e.Key),
		ModRev: e.ModRev.String(), CreateRev: e.CreateRev.String(), Version: e.Version,
		By: e.By, Reason: e.Message, At: e.At, Owner: ownerOf(e),
	}
}

func ownerOf(e kv.Entry) *Owner {
	if e.Own == nil {
		return nil
	}
	return &Owner{
		Node: string(e.Own.Owner), Incarnation: e.Own.Mark.Incarnation, Seq: e.Own.Mark.Seq,
		Draining: e.Own.Draining, Orphaned: e.Own.Orphaned,
	}
}

func class(key kv.Key) string {
	if spec.Ephemeral(string(key)) {
		return "ephemeral"
	}
	return "operator"
}
