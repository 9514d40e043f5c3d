package http1_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

func ExampleServer() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		x.Respond(200, "text/plain", append([]byte("you asked for "), x.Request.Target...))
	})}
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()

	response, err := http.Get("http://" + listener.Addr().String() + "/a?b")
	if err != nil {
		panic(err)
	}
	body, _ := io.ReadAll(response.Body)
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	fmt.Println(response.Status, string(body))

	fmt.Println(server.Shutdown(context.Background()), <-served)
	// Output:
	// 200 OK you asked for /a?b
	// <nil> <nil>
}
