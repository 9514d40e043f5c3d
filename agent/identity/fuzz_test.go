package identity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"grapevine/agent/identity"
)

func FuzzToken(f *testing.F) {
	token, _ := newToken(f, identity.TokenOptions{Role: identity.Voter, Seeds: []string{"10.0.0.1:7946", "[::1]:1"}})
	f.Add(token.Encode())
	f.Add("gvt1.")
	f.Add("gvt1.AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		token, err := identity.ParseToken(s)
		if err != nil {
			return
		}
		if got := token.Encode(); got != strings.TrimSpace(s) {
			t.Errorf("%q is read as %q", s, got)
		}
	})
}

// FuzzTokenBody gets past the checksum.
func FuzzTokenBody(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 9}, []byte{1, 3, 'a', ':', '1'})
	f.Add([]byte{1, 0x7f, 0, 0, 0, 0, 0, 0, 9}, []byte{1, 3, 'a', ':', '1'})
	f.Fuzz(func(t *testing.T, front, seeds []byte) {
		text := identity.EncodeTokenBody(front, seeds)
		token, err := identity.ParseToken(text)
		if err != nil {
			return
		}
		if token.Encode() != text {
			t.Errorf("%q is read as %q", text, token.Encode())
		}
		if _, err := json.Marshal(token.Info(time.Now())); err != nil {
			t.Error(err)
		}
	})
}

func FuzzTokenRecord(f *testing.F) {
	_, record := newToken(f, identity.TokenOptions{Role: identity.Edge, Uses: 2, Seeds: []string{"a:1"}})
	used, _, err := record.UseBy(nodeID(3), identity.PublicKey{1}, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(record.ID, record.Encode())
	f.Add(used.ID, used.Encode())
	f.Fuzz(func(t *testing.T, id string, value []byte) {
		record, err := identity.DecodeTokenRecord(id, value)
		if err != nil {
			return
		}
		again, err := identity.DecodeTokenRecord(record.ID, record.Encode())
		if err != nil || !reflect.DeepEqual(again, record) && len(record.UsedBy) > 0 {
			t.Errorf("%+v comes back as %+v, %v", record, again, err)
		}
		record.UseBy(nodeID(4), identity.PublicKey{2}, time.Now())
	})
}

func FuzzFile(f *testing.F) {
	path := filepath.Join(f.TempDir(), "identity.pem")
	o := identity.Options{Path: path, Node: nodeID(1)}
	if _, err := identity.Found(o); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:200])
	f.Fuzz(func(t *testing.T, data []byte) {
		again, encoded, err := identity.Recode(data)
		if err != nil {
			return
		}
		if _, twice, err := identity.Recode(encoded); err != nil || !bytes.Equal(twice, encoded) {
			t.Errorf("%v: %q comes back as %q, %v", again, encoded, twice, err)
		}
	})
}

// FuzzCertificate reads certificates as a handshake does before it knows whose
// they are.
func FuzzCertificate(f *testing.F) {
	id, err := identity.Found(identity.Options{Node: nodeID(1)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(id.Cluster().Certificate())
	f.Add(identity.Leaf(id))
	f.Fuzz(func(t *testing.T, der []byte) {
		if cluster, err := identity.ParseCluster(der); err == nil && cluster.Fingerprint() != id.Cluster().Fingerprint() && cluster.ID() == id.Cluster().ID() {
			t.Error("another CA for this cluster")
		}
		if _, err := identity.Inspect(der); err == nil {
			return
		}
	})
}

func FuzzJoinRequest(f *testing.F) {
	id, err := identity.Found(identity.Options{Node: nodeID(1)})
	if err != nil {
		f.Fatal(err)
	}
	token, record, err := id.Cluster().NewToken(identity.TokenOptions{Role: identity.Edge, Seeds: []string{"a:1"}})
	if err != nil {
		f.Fatal(err)
	}
	good, err := json.Marshal(requestOf(f, 2, token, identity.Edge))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range []string{identity.JoinPath, identity.VotersPath, identity.RenewPath} {
		f.Add(path, good)
		f.Add(path, []byte(`{"token":"`+record.ID+`"}`))
	}
	known := func(id string) (identity.TokenRecord, bool) { return record, id == record.ID }
	handler := identity.NewDoor(identity.DoorOptions{Self: id, Token: known}).Handler()
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		request := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", bytes.NewReader(body))
		request.URL.Path = path
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if bytes.Contains(answer.Body.Bytes(), []byte(`"caKey"`)) {
			t.Errorf("an edge's token gave the CA key for %s", body)
		}
	})
}

// FuzzAnswer reads what a seed sends.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	f.Add([]byte("HTTP/1.1 403 Forbidden\r\n\r\n{\"reason\":\"expired\",\"message\":\"a\\u001b[2J\\nb\"}"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := identity.ReadAnswer(bytes.NewReader(data))
		if refusal, ok := err.(*identity.Refusal); ok && strings.ContainsAny(refusal.Message, "\x1b\n\r\x00") {
			t.Errorf("message %q", refusal.Message)
		}
	})
}

// FuzzPlain reads the lines of both sides.
func FuzzPlain(f *testing.F) {
	f.Add("grapevine gv-peer/1 " + nodeID(1) + " edge")
	f.Add("ok " + nodeID(1) + " voter")
	f.Add("no such luck")
	f.Add("ok - -")
	f.Fuzz(func(t *testing.T, line string) { identity.ParseLines(line) })
}
