package announce_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"grapevine/announce"
	"grapevine/announce/announcetest"
)

// service runs Serve.
type service struct {
	net.Listener
	cancel    context.CancelFunc
	announced chan struct{}
	served    chan error
}

func serve(t *testing.T, handler http.Handler, c announce.Config) *service {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{Listener: l, announced: make(chan struct{}), served: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	told := c.OnChange
	announced := sync.OnceFunc(func() { close(s.announced) })
	c.OnChange = func(status announce.Status) {
		if status.State == announce.Announced {
			announced()
		}
		if told != nil {
			told(status)
		}
	}
	go func() { s.served <- announce.Serve(ctx, l, &http.Server{Handler: handler}, c) }()
	return s
}

// stop ends its context, as SIGTERM does.
func (s *service) stop() error {
	s.cancel()
	return <-s.served
}

// The gateways are told before the server stops, and it answers until they have
// confirmed.
func TestServeDrainsFirst(t *testing.T) {
	agent := announcetest.Start(t)
	c := config(agent)
	c.Address = "http://127.0.0.1:{port}"
	var s *service
	var order []string
	c.OnChange = func(status announce.Status) {
		if order = append(order, string(status.State)); status.State == announce.Draining {
			response, err := http.Get("http://" + s.Addr().String())
			if err != nil {
				order = append(order, err.Error())
				return
			}
			response.Body.Close()
			order = append(order, response.Status)
		}
	}
	s = serve(t, http.NotFoundHandler(), c)
	await(t, "the announcement", s.announced)
	if got, want := agent.Instances()[0].Address, fmt.Sprint("http://", s.Addr()); got != want {
		t.Errorf("announced %s, want %s", got, want)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(order, ","); !strings.HasSuffix(got, "draining,404 Not Found,ended") {
		t.Error(got)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}

func TestServeRefused(t *testing.T) {
	agent := announcetest.Start(t)
	agent.Refuse(&announcetest.Problem{Status: 403, Code: "denied", Detail: "no grant"})
	s := serve(t, http.NotFoundHandler(), config(agent))
	if err := <-s.served; err == nil || !strings.Contains(err.Error(), "no grant") {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}

func TestServeEndsWithItsAnnouncement(t *testing.T) {
	agent := announcetest.Start(t)
	s := serve(t, http.NotFoundHandler(), config(agent))
	await(t, "the announcement", s.announced)
	agent.Send("warehouse", "withdrawn", "by policy")
	if err := <-s.served; err == nil || !strings.Contains(err.Error(), "by policy") {
		t.Error(err)
	}
}

// A request that comes past the gateways is given as long as they are, and then
// cut off, which is told.
func TestServeCutsOff(t *testing.T) {
	agent := announcetest.Start(t)
	c := config(agent)
	c.Drain = 100 * time.Millisecond
	begun, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	s := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(begun)
		<-release
	}), c)
	go http.Get("http://" + s.Addr().String()) //nolint:errcheck // it fails
	await(t, "the request", begun)
	await(t, "the announcement", s.announced)
	if err := s.stop(); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Error(err)
	}
	if agent.Drains("warehouse") != 1 {
		t.Error("not drained")
	}
}

func TestServeFails(t *testing.T) {
	agent := announcetest.Start(t)
	s := serve(t, http.NotFoundHandler(), config(agent))
	await(t, "the announcement", s.announced)
	s.Close()
	if err := <-s.served; err == nil {
		t.Error("no error")
	}
	if err := announce.ListenAndServe(t.Context(), &http.Server{Addr: "256.0.0.1:1"}, config(agent)); err == nil {
		t.Error("no error")
	}
}

func TestServeTLS(t *testing.T) {
	agent := announcetest.Start(t)
	other := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer other.Close()
	plain, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := config(agent)
	c.Address = "https://127.0.0.1:{port}"
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- announce.Serve(ctx, tls.NewListener(plain, other.TLS), &http.Server{Handler: http.NotFoundHandler()}, c)
	}()
	wait(t, agent, count(1))
	response, err := other.Client().Get(agent.Instances()[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
