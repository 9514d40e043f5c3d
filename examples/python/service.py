"""A service that announces itself, and on SIGTERM leaves without a failed request.

    python3 service.py --port 9001 --address http://127.0.0.1:9001
"""

import argparse
import http.server
import logging
import signal
import sys
import threading

from announce import Announcement


class Hello(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = ("hello from python: %s\n" % self.path).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=9001)
    parser.add_argument("--address", default="http://127.0.0.1:9001", help="where the gateways reach it")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    # Listen first, then announce; drain first, then stop.
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Hello)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    instance = {
        "routeId": "warehouse",
        "path": "/warehouse/{**catch-all}",
        "pathRemovePrefix": "/warehouse",
        "address": options.address,
    }
    with Announcement(instance) as announcement:
        while not stop.wait(0.2) and announcement.error is None:
            pass
        announcement.drain(timeout=5)
    server.shutdown()
    return 0 if announcement.error is None else 1


if __name__ == "__main__":
    sys.exit(main())
