"""Keeps an instance announced to a Grapevine agent. Python 3.8 or later, standard library only.

    with Announcement({"routeId": "warehouse", "path": "/warehouse/{**catch-all}", "address": "http://10.0.0.5:8080"}) as a:
        ...
        a.drain()  # before the process ends
"""

import http.client
import json
import logging
import os
import random
import socket
import threading
import time

log = logging.getLogger("announce")

SILENCE = 30  # seconds; a live agent says something every 10


class Refused(Exception):
    """The agent does not take the announcement, and would not take it the next time."""


class AgentConnection(http.client.HTTPConnection):
    """HTTP over the agent's unix socket, or over TCP: unix:///path/agent.sock or http://host:port."""

    def __init__(self, agent, timeout):
        self.socket_path = agent[len("unix://"):] if agent.startswith("unix://") else None
        super().__init__("agent" if self.socket_path else agent[len("http://"):].rstrip("/"), timeout=timeout)

    def connect(self):
        if self.socket_path is None:
            return super().connect()
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.socket_path)

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body)
        self.request(method, path, data, {"Content-Type": "application/json"})
        return self.getresponse()


class Announcement:
    """One instance. A thread of its own holds the connection, and gets it back when it is lost."""

    def __init__(self, instance, agent=None):
        self.instance = {"status": "healthy", **instance}
        self.agent = agent or os.environ.get("AGENT_ADDR", "unix:///run/grapevine/agent.sock")
        self.error = None  # why it ended for good
        self._known = False  # an agent may have it
        self._lease = None
        self._stop = threading.Event()
        self._connection = None
        self._thread = threading.Thread(target=self._run, name="announce", daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        """Ends the connection, which withdraws the instance."""
        self._stop.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended already
        self._thread.join(1)

    def drain(self, timeout=5.0):
        """Waits until no gateway sends requests any more, none is under way and no connection is open.

        Says whether all have confirmed that in time. Afterwards the process may end.
        """
        if not self._known:
            return True
        self.instance["status"] = "draining"  # should the agent be restarted meanwhile
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            try:
                return self._ask_to_drain(end - time.monotonic())
            except (OSError, http.client.HTTPException, ValueError, LookupError) as err:
                log.warning("drain: %s", err)
                time.sleep(0.1)  # until the agent is back
        return False

    def _ask_to_drain(self, timeout):
        connection = AgentConnection(self.agent, timeout + 1)
        try:
            path = "/v1/announce/%s/drain?timeout=%dms" % (self._lease, timeout * 1000)
            answer = json.load(connection.ask("POST", path))
        finally:
            connection.close()
        log.info("drain: %s", answer)
        return not answer["stragglers"]

    def _run(self):
        pause = 0.1
        while not self._stop.is_set():
            try:
                self._hold()
            except Refused as refused:
                self.error = refused
                log.error("announce: %s", refused)
                return
            except (OSError, http.client.HTTPException, ValueError) as err:
                if not self._stop.is_set():
                    log.warning("no connection to the agent at %s: %s", self.agent, err)
            pause = 0.1 if self._lease else min(2 * pause, 3)
            self._lease = None
            self._stop.wait(random.uniform(pause / 2, pause))

    def _hold(self):
        self._connection = AgentConnection(self.agent, SILENCE)
        try:
            self._connection.connect()
            self._known = True
            response = self._connection.ask("POST", "/v1/announce", self.instance)
            if response.status != 200:
                text = response.read().decode(errors="replace")
                if response.status < 500 and response.status != 429:
                    raise Refused(text)
                raise ValueError(text)
            for line in response:
                self._take(json.loads(line))
        finally:
            self._connection.close()

    def _take(self, event):
        kind = event.get("event")
        if kind == "accepted":
            self.instance["instanceId"] = event["instanceId"]  # the same one after a restart of the agent
            self._lease = event["lease"]
        if kind in ("superseded", "withdrawn") and not self._stop.is_set():
            raise Refused("%s: %s" % (kind, event.get("reason")))
        if kind != "alive":
            log.info("%s", event)
