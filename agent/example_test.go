package agent_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"grapevine/agent"
)

// A node in memory, on ports of the system's choice, gets a route and serves it.
func ExampleAgent() {
	node := agent.New(agent.Config{Dev: true, HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0"}, io.Discard)
	if err := node.Open(); err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error)
	go func() { done <- node.Run(ctx) }()

	route := `{"path": "/hello", "backends": ["http://127.0.0.1:5010"]}`
	request, err := http.NewRequest("PUT", "http://"+node.Addresses()["admin"]+"/v1/kv/gateway/routes/hello", strings.NewReader(route))
	if err != nil {
		fmt.Println(err)
		return
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	response.Body.Close()
	fmt.Println("set:", response.Status)

	response, err = http.Get("http://" + node.Addresses()["http"] + "/ready")
	if err != nil {
		fmt.Println(err)
		return
	}
	response.Body.Close()
	fmt.Println("ready:", response.Status)

	http.DefaultClient.CloseIdleConnections()
	stop()
	fmt.Println("stopped:", <-done)
	// Output:
	// set: 200 OK
	// ready: 200 OK
	// stopped: <nil>
}
