# The targets below are for people; .ci/run calls some of them.
# `make help` prints the comment that follows "##" behind each target.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X grapevine/cli.version=$(VERSION)
FUZZTIME ?= 10s
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help
.PHONY: help build run demo test check race lint fmt fuzz bench bench-peers generate long allocs clean

help: ## print this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/agent and bin/echo
	@mkdir -p bin
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/agent ./cli/agent
	$(GO) build -trimpath -o bin/echo ./examples/echo

run: build ## start one node with two echo backends: proxy :8080, API 127.0.0.1:8500
	@examples/laptop/run

demo: build ## start three nodes, two backends and some traffic on loopback; prints what to try
	$(GO) build -trimpath -o bin/demo ./examples/demo
	@bin/demo

test: ## everything a contributor waits for, with the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 15m ./...
	$(GO) test -timeout 10m ./agent/agenttest ./kv/gossip # whose large clusters in fake time the race detector leaves out

check: lint allocs long fuzz ## all that make test leaves out: lint, allocations, the long tests, a short fuzz of each target

race: test ## the same as test, which always runs with the race detector

# What takes minutes of fake time is tried with the race detector in its short form only, by make test.
FAKE_TIME = ./kv/consensus ./kv/gossip ./agent/agenttest

# The others have no longer form, and are in make test as a whole.
HAS_LONG = grep -rl GRAPEVINE_LONG --include='*_test.go' . | xargs -n1 dirname | sort -u

long: ## the tests in their full length
	CGO_ENABLED=1 GRAPEVINE_LONG=1 $(GO) test -race -count=1 -timeout 20m $$($(HAS_LONG) | grep -vE '/(kv/consensus|kv/gossip|agent/agenttest)$$')
	GRAPEVINE_LONG=1 $(GO) test -count=1 -timeout 20m $(FAKE_TIME)

allocs: ## the tests that count allocations, of which the race detector makes more
	$(GO) test -count=1 -run 'AllocatesNothing' ./gateway/...

lint: ## gofumpt, vet, staticcheck, deadcode, tidy
	@out=$$($(GO) tool gofumpt -l .); test -z "$$out" || { echo "gofumpt would change:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@out=$$($(GO) tool deadcode -test ./...); test -z "$$out" || { echo "unreachable:"; echo "$$out"; exit 1; }
	$(GO) mod tidy -diff

fmt: ## format with gofumpt
	$(GO) tool gofumpt -l -w .

generate: ## write the generated reference pages anew
	$(GO) generate ./...

fuzz: ## fuzz each target for FUZZTIME (10s)
	@GO='$(GO)' FUZZTIME=$(FUZZTIME) .ci/fuzz

bench: ## run the Go benchmarks and compare them with bench/base.txt if it is there
	@GO='$(GO)' .ci/bench

bench-peers: build ## measure beside nginx, HAProxy, Caddy and a relay; SWEEPS=9 DURATION=3s PEERS= WORK= UPDATE=
	$(GO) build -o bin/bench ./bench
	bin/bench $(if $(SWEEPS),-sweeps $(SWEEPS)) $(if $(DURATION),-duration $(DURATION)) $(if $(PEERS),-peers '$(PEERS)') \
		$(if $(WORK),-work '$(WORK)') $(if $(UPDATE),-update)

clean: ## remove what build and run made
	rm -rf bin grapevine-data .demo
