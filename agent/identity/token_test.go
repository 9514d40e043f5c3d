package identity_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/agent/identity"
)

func newToken(t testing.TB, o identity.TokenOptions) (identity.Token, identity.TokenRecord) {
	t.Helper()
	id, err := identity.Found(identity.Options{Node: nodeID(1)})
	if err != nil {
		t.Fatal(err)
	}
	token, record, err := id.Cluster().NewToken(o)
	if err != nil {
		t.Fatal(err)
	}
	return token, record
}

func TestTokenRoundTrip(t *testing.T) {
	for _, o := range []identity.TokenOptions{
		{Role: identity.Edge, Seeds: []string{"10.0.0.1:7946"}},
		{Role: identity.Voter, Life: time.Minute, Uses: 3, Seeds: []string{"[2001:db8::1]:7946", "gw-1.example.com:65535", "127.0.0.1:1"}},
	} {
		token, record := newToken(t, o)
		text := token.Encode()
		for _, s := range []string{text, "  " + text + "\n", "\t" + text + "\r\n"} {
			got, err := identity.ParseToken(s)
			if err != nil || !reflect.DeepEqual(got, token) {
				t.Errorf("ParseToken(%q) = %+v, %v, want %+v", s, got, err, token)
			}
		}
		if !strings.HasPrefix(text, "gvt1.") || strings.ContainsAny(text, " /+=\n") {
			t.Errorf("token %q is not easily copied", text)
		}
		if record.ID != token.ID() || record.Key() != "cluster/tokens/"+token.ID() {
			t.Errorf("record %q of token %q", record.Key(), token.ID())
		}
	}
}

func TestTokensLastADayUnlessTheySay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token, record := newToken(t, identity.TokenOptions{Role: identity.Edge, Seeds: []string{"a:1"}})
		if want := time.Now().Add(24 * time.Hour); !token.Expires.Equal(want) || !record.Expires.Equal(want) || record.Uses != 0 {
			t.Errorf("expires %s and %s, uses %d", token.Expires, record.Expires, record.Uses)
		}
	})
}

func TestEveryDamageToATokenIsFound(t *testing.T) {
	for _, seed := range []string{"10.0.0.1:7946", "10.0.0.12:7946", "10.0.0.123:7946"} { // one of each length modulo 3
		token, _ := newToken(t, identity.TokenOptions{Role: identity.Voter, Seeds: []string{seed}})
		text := token.Encode()
		wantCutFound(t, text)
		wantChangesFound(t, text)
	}
}

func wantCutFound(t *testing.T, text string) {
	t.Helper()
	for n := range len(text) {
		_, err := identity.ParseToken(text[:n])
		want := "cut short"
		if n < len("gvt1.") {
			want = "does not begin"
		}
		wantError(t, err, "join token", want)
	}
	for _, more := range []string{"A", "AAAA", text} {
		_, err := identity.ParseToken(text + more)
		wantError(t, err, "join token")
	}
}

func wantChangesFound(t *testing.T, text string) {
	t.Helper()
	for i := range len(text) {
		for c := range 256 {
			changed := []byte(text)
			changed[i] = byte(c)
			if text[i] == byte(c) || len(bytes.TrimSpace(changed)) < len(text) {
				continue
			}
			if _, err := identity.ParseToken(string(changed)); err == nil {
				t.Errorf("byte %d from %q to %q passes", i, text[i], changed[i])
			} else if strings.Contains(err.Error(), text[20:40]) {
				t.Errorf("error %q shows the token", err)
			}
		}
	}
}

func TestTokensHideTheirSecret(t *testing.T) {
	token, _ := newToken(t, identity.TokenOptions{Role: identity.Voter, Seeds: []string{"10.0.0.1:7946"}})
	log := new(lines)
	log.logger().Info("x", "token", token, "secret", token.Secret, "at", slog.AnyValue(&token))
	for _, s := range []string{
		log.String(), fmt.Sprint(token), fmt.Sprintf("%+v %#v %s", token, token, token),
		fmt.Sprint(token.Secret), fmt.Sprintf("%+v %#v", token.Secret, token.Secret), fmt.Sprint(struct{ T identity.Token }{token}),
	} {
		if strings.Contains(s, fmt.Sprintf("%x", token.Secret[:])) || strings.Contains(s, fmt.Sprint(token.Secret[:])) ||
			strings.Contains(s, fmt.Sprintf("%#v", token.Secret[:])) {
			t.Errorf("%q shows the secret", s)
		}
	}
}

func TestTokensThatCouldNotWorkAreRefused(t *testing.T) {
	cluster := found(t, 1).Cluster()
	seeds := []string{"10.0.0.1:7946"}
	for _, test := range []struct {
		o    identity.TokenOptions
		want string
	}{
		{identity.TokenOptions{Seeds: seeds}, `role ""`},
		{identity.TokenOptions{Role: "leader", Seeds: seeds}, `role "leader"`},
		{identity.TokenOptions{Role: identity.Edge}, "0 addresses"},
		{identity.TokenOptions{Role: identity.Edge, Seeds: []string{"10.0.0.1"}}, `"10.0.0.1"`},
		{identity.TokenOptions{Role: identity.Edge, Seeds: []string{"10.0.0.1:0"}}, `"10.0.0.1:0"`},
		{identity.TokenOptions{Role: identity.Edge, Seeds: []string{":7946"}}, `":7946"`},
		{identity.TokenOptions{Role: identity.Edge, Seeds: []string{strings.Repeat("a", 254) + ":1"}}, "host:port"},
		{identity.TokenOptions{Role: identity.Edge, Seeds: make([]string, 9)}, "9 addresses"},
		{identity.TokenOptions{Role: identity.Edge, Seeds: seeds, Life: -time.Second}, "life -1s"},
		{identity.TokenOptions{Role: identity.Edge, Seeds: seeds, Life: 1e6 * time.Hour}, "life 1000000h"},
		{identity.TokenOptions{Role: identity.Edge, Seeds: seeds, Uses: -1}, "uses -1"},
		{identity.TokenOptions{Role: identity.Edge, Seeds: seeds, Uses: 1001}, "uses 1001"},
	} {
		_, _, err := cluster.NewToken(test.o)
		wantError(t, err, "join token", test.want)
	}
}

func TestRecordRoundTripAndUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, record := newToken(t, identity.TokenOptions{Role: identity.Edge, Uses: 2, Seeds: []string{"a:1"}})
		key := func(b byte) (k identity.PublicKey) { k[0] = b; return k }
		use := func(node int, b byte) (bool, error) {
			t.Helper()
			used, changed, err := record.UseBy(nodeID(node), key(b), time.Now())
			decoded, decodeErr := identity.DecodeTokenRecord(used.ID, used.Encode())
			if decodeErr != nil || !reflect.DeepEqual(decoded, used) {
				t.Errorf("decoded %+v, %v, want %+v", decoded, decodeErr, used)
			}
			record = used
			return changed, err
		}
		if changed, err := use(1, 1); !changed || err != nil {
			t.Error("first use:", changed, err)
		}
		if changed, err := use(1, 1); changed || err != nil { // its answer got lost
			t.Error("the same again:", changed, err)
		}
		_, err := use(1, 9)
		wantRefusal(t, err, identity.ReasonTaken)
		if changed, err := use(2, 2); !changed || err != nil {
			t.Error("second use:", changed, err)
		}
		if got := record.State(time.Now()); got != identity.TokenUsedUp {
			t.Error("state", got)
		}
		_, err = use(3, 3)
		wantRefusal(t, err, identity.ReasonUsedUp)
		if changed, err := use(2, 2); changed || err != nil {
			t.Error("the second again:", changed, err)
		}
		pass(24 * time.Hour)
		_, err = use(2, 2)
		wantRefusal(t, err, identity.ReasonExpired)
	})
}

func TestBadRecordsAreRefused(t *testing.T) {
	_, record := newToken(t, identity.TokenOptions{Role: identity.Edge, Uses: 2, Seeds: []string{"a:1"}})
	good := string(record.Encode())
	for _, test := range []struct{ id, value, want string }{
		{"0000000000000000", good, "its hash belongs to " + record.ID},
		{record.ID, "", "EOF"},
		{record.ID, good + "x", "after its value"},
		{record.ID, good + good, "after its value"},
		{record.ID, strings.Replace(good, `"edge"`, `"king"`, 1), `role "king"`},
		{record.ID, strings.Replace(good, `"uses":2`, `"uses":-2`, 1), "uses -2"},
		{record.ID, strings.Replace(good, `"uses":2`, `"uses":5000`, 1), "uses 5000"},
		{record.ID, strings.Replace(good, `"uses":2`, `"uses":2,"more":1`, 1), `"more"`},
		{record.ID, strings.Replace(good, `"uses":2`, `"usedBy":{"a":"b"}`, 1), "used by 1"},
		{record.ID, strings.Replace(good, record.Expires.Format(time.RFC3339), "9999-12-31T23:59:59-23:00", 1), "years up to 9999"},
		{record.ID, strings.Replace(good, `"hash":"`, `"hash":"00`, 1), "want 64 hexadecimal digits"},
	} {
		_, err := identity.DecodeTokenRecord(test.id, []byte(test.value))
		wantError(t, err, "cluster/tokens/"+test.id, test.want)
	}
}

func TestRecordsThatNeedAQuorum(t *testing.T) {
	for _, test := range []struct {
		record identity.TokenRecord
		want   bool
	}{
		{identity.TokenRecord{Role: identity.Edge}, false},
		{identity.TokenRecord{Role: identity.Edge, Uses: 1}, true},
		{identity.TokenRecord{Role: identity.Voter}, true},
	} {
		if got := test.record.NeedsQuorum(); got != test.want {
			t.Errorf("%+v: %v", test.record, got)
		}
	}
}
