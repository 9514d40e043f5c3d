package announce_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"grapevine/announce"
	"grapevine/announce/announcetest"
)

// A service that listens, announces itself, and on SIGTERM or the end of its context drains and stops.
func ExampleListenAndServe() {
	agent, address, stop := exampleAgent() // a service leaves Agent empty
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{Addr: "127.0.0.1:0", Handler: http.NotFoundHandler()}
	err := announce.ListenAndServe(ctx, server, announce.Config{
		Agent: address, Route: "warehouse", Path: "/warehouse/{**catch-all}", PathRemovePrefix: "/warehouse",
		Address: "http://127.0.0.1:{port}",
		OnChange: func(s announce.Status) {
			if s.Applied == 3 {
				cancel() // enough for an example
			}
		},
	})
	fmt.Println(err, agent.Drains("warehouse"))
	// Output: <nil> 1
}

// A service that has a server of its own announces beside it.
func ExampleStart() {
	_, address, stop := exampleAgent()
	defer stop()
	a, err := announce.Start(context.Background(), announce.Config{
		Agent: address, Route: "warehouse", Path: "/warehouse/{**catch-all}", Address: "http://10.0.0.5:8080", Version: "1.2.0",
	})
	if err != nil {
		log.Fatal(err)
	}
	select {
	case <-a.Ready():
		fmt.Println("every gateway serves it")
	case <-a.Done():
		log.Fatal(a.Err())
	}
	if err := a.Close(); err != nil { // before the server stops
		log.Print(err)
	}
	// Output: every gateway serves it
}

// A service says how it is before it fails.
func ExampleAnnouncer_SetStatus() {
	_, address, stop := exampleAgent()
	defer stop()
	a, err := announce.Start(context.Background(), announce.Config{
		Agent: address, Route: "warehouse", Path: "/warehouse/{**catch-all}", Address: "http://10.0.0.5:8080",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	queued := 950
	if queued > 900 { // requests go to the others while there are any
		fmt.Println(a.SetStatus(announce.Degraded))
	}
	// Output: <nil>
}

// exampleAgent is an agent where there is no test to start it for; tests have announcetest.Start.
func exampleAgent() (agent *announcetest.Agent, address string, stop func()) {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		log.Fatal(err)
	}
	socket := filepath.Join(dir, "agent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	agent = announcetest.New()
	go http.Serve(l, agent)
	return agent, "unix://" + socket, func() {
		l.Close()
		os.RemoveAll(dir)
	}
}
