#!/bin/sh
# Announces a service that knows nothing of gateways, for as long as this script runs; SIGTERM drains it first.
# Needs curl.
#
#   announce.sh warehouse.json        AGENT_SOCKET (/run/grapevine/agent.sock), DRAIN (5s)
#
# The file is the body of POST /v1/announce. Give it an instanceId, so that it is the same instance after a restart of
# the agent.
set -u
instance=$1
socket=${AGENT_SOCKET:-/run/grapevine/agent.sock}
drain=${DRAIN:-5s}
events=$(mktemp)
curl=

# lease is the lease of the newest connection, which the agent names in its first line.
lease() {
	sed -n 's/.*"event":"accepted".*"lease":"\([^"]*\)".*/\1/p' "$events" | tail -n 1
}

stop() {
	trap - TERM INT
	if [ -n "$(lease)" ]; then
		curl -sS -X POST --unix-socket "$socket" "http://agent/v1/announce/$(lease)/drain?timeout=$drain"
	fi
	kill "$curl" 2>/dev/null # closing the connection withdraws the instance
	rm -f "$events"
	exit 0
}
trap stop TERM INT

while :; do
	: >"$events"
	# An agent that lives says something every 10 s.
	curl -sS -N --unix-socket "$socket" --speed-limit 1 --speed-time 30 --data-binary "@$instance" -o "$events" \
		http://agent/v1/announce &
	curl=$!
	wait "$curl"
	if grep -qE '"event":"(superseded|withdrawn)"|"status":4' "$events"; then
		cat "$events" >&2 # trying again would be in vain
		rm -f "$events"
		exit 1
	fi
	sleep 1 &
	wait $!
done
