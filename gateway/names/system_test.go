package names

import (
	"net"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// answer is a message with an address for each TTL.
func answer(t testing.TB, ttls ...uint32) []byte {
	name := dnsmessage.MustNewName("svc.example.")
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{Response: true})
	head := func(ttl uint32) dnsmessage.ResourceHeader {
		return dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: ttl}
	}
	err := b.StartQuestions()
	if err == nil {
		err = b.Question(dnsmessage.Question{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET})
	}
	if err == nil {
		err = b.StartAnswers()
	}
	for i, ttl := range ttls {
		if err == nil && i == 0 {
			err = b.CNAMEResource(head(ttl), dnsmessage.CNAMEResource{CNAME: name})
		} else if err == nil {
			err = b.AResource(head(ttl), dnsmessage.AResource{A: [4]byte{10, 0, 0, byte(i)}})
		}
	}
	message, finish := b.Finish()
	if err != nil || finish != nil {
		t.Fatal(err, finish)
	}
	return message
}

func TestLowestTTL(t *testing.T) {
	for _, row := range []struct {
		messages [][]byte
		want     time.Duration
	}{
		{nil, 0},
		{[][]byte{answer(t)}, 0},
		{[][]byte{answer(t, 60)}, time.Minute},
		{[][]byte{answer(t, 60, 20, 40)}, 20 * time.Second},
		{[][]byte{answer(t, 60, 20), answer(t, 10), answer(t, 90)}, 10 * time.Second},
		{[][]byte{answer(t, 0)}, 1},
		{[][]byte{[]byte("no message"), answer(t, 60, 20)[:40]}, 0},
	} {
		var l lowest
		for _, m := range row.messages {
			l.hear(m)
		}
		if got := l.ttl(); got != row.want {
			t.Errorf("%d messages: got %v, want %v", len(row.messages), got, row.want)
		}
	}
}

// What comes over a connection that is listened to is what was sent.
func TestHeardConn(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var l lowest
	conn, err := l.dial(t.Context(), "udp", server.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, packets := conn.(net.PacketConn); !packets { // else the resolver takes it for TCP
		t.Fatal("a connection over UDP is no PacketConn")
	}
	if _, err := server.WriteTo(answer(t, 7), conn.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 512)
	n, err := conn.Read(buffer)
	if err != nil || string(buffer[:n]) != string(answer(t, 7)) || l.ttl() != 7*time.Second {
		t.Errorf("read %d bytes, %v, TTL %v", n, err, l.ttl())
	}
}

func FuzzHear(f *testing.F) {
	f.Add(answer(f, 60, 20))
	f.Add([]byte{0, 1, 0x80, 0, 0, 0, 255, 255})
	f.Fuzz(func(t *testing.T, message []byte) {
		var l lowest
		l.hear(message)
		if l.ttl() < 0 {
			t.Errorf("TTL %v", l.ttl())
		}
	})
}
