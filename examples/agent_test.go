package examples

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// askAgent gives the body of an answer of an agent's API.
func askAgent(ctx context.Context, socket, path string) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// servedBy asks an agent whether its gateway sends requests to an address.
func servedBy(ctx context.Context, socket, address string) (bool, error) {
	answer, err := askAgent(ctx, socket, "/v1/instances")
	if err != nil {
		return false, err
	}
	var list struct {
		Instances []struct {
			Address, Why string
			Serves       bool
		}
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return false, err
	}
	for _, i := range list.Instances {
		if i.Address == address {
			return i.Serves, fmt.Errorf("it is announced: %s", i.Why)
		}
	}
	return false, fmt.Errorf("it is none of %d instances", len(list.Instances))
}

// metric is the sum of all series of a name.
func metric(ctx context.Context, socket, name string) (sum float64, err error) {
	text, err := askAgent(ctx, socket, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if series, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(series, name+"{") {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", line, err)
			}
			sum += n
		}
	}
	return sum, nil
}
