package announce_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"grapevine/announce"
	"grapevine/announce/announcetest"
)

// A service that listens, announces itself, and on SIGTERM drains and stops.
func ExampleListenAndServe() {
	server := &http.Server{Addr: ":8080", Handler: http.FileServer(http.Dir("/srv"))}
	err := announce.ListenAndServe(context.Background(), server, announce.Config{
		Route: "warehouse", Path: "/warehouse/{**catch-all}", PathRemovePrefix: "/warehouse",
		Address: "http://" + os.Getenv("HOST_IP") + ":8080",
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A service that has a server of its own announces beside it.
func ExampleStart() {
	a, err := announce.Start(context.Background(), announce.Config{
		Route: "warehouse", Path: "/warehouse/{**catch-all}", Address: "http://10.0.0.5:8080", Version: "1.2.0",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close() // drains, and stops the server afterwards
	select {
	case <-a.Ready():
		log.Print("every gateway serves it")
	case <-a.Done():
		log.Fatal(a.Err())
	}
}

// A service says that it is busy before it fails.
func ExampleAnnouncer_SetStatus() {
	a, err := announce.Start(context.Background(), announce.Config{
		Route: "warehouse", Path: "/warehouse/{**catch-all}", Address: "http://10.0.0.5:8080",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	queue := make(chan int, 1000)
	if len(queue) > 900 {
		a.SetStatus(announce.Degraded) // requests go to the others while there are any
	}
}

// The tests of a service need no agent.
func Example_test() {
	agent := announcetest.New() // in a test: announcetest.Start(t)
	server := http.Server{Handler: agent}
	defer server.Close()

	fmt.Println(len(agent.Instances()), "instances,", agent.Drains("warehouse"), "drained")
	// Output: 0 instances, 0 drained
}
