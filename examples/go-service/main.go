// Command go-service is a service that announces itself, and leaves without a failed request.
//
//	go-service -listen 127.0.0.1:9000 -address http://127.0.0.1:9000
//
// AGENT_ADDR names the agent; without it the usual places are tried.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"

	"grapevine/announce"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9000", "where to listen; port 0: any that is free")
	address := flag.String("address", "http://127.0.0.1:{port}", "where the gateways reach it")
	version := flag.String("version", "1.0.0", "what it runs")
	flag.Parse()

	server := &http.Server{Addr: *listen, Handler: http.HandlerFunc(hello)}
	err := announce.ListenAndServe(context.Background(), server, announce.Config{
		Route:            "warehouse",
		Path:             "/warehouse/{**catch-all}",
		PathRemovePrefix: "/warehouse",
		Address:          *address,
		Version:          *version,
	})
	if err != nil {
		log.Fatal(err)
	}
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello from go: %s\n", r.URL.Path)
}
