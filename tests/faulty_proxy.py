"""A proxy before an S3 server that fails, is slow, cuts connections and replies, or leaves out a header."""

import http.client
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from itertools import count
from random import Random
from urllib.parse import urlsplit

from tests.http_server import QuietHandler

FAULTS = ("503", "reset", "lost reply", "truncated", "500", "cut before", "slow")
_SHARE = 0.3


class FaultyProxy(ThreadingHTTPServer):
    """Three of ten requests, by a fixed seed, meet the next of the faults."""

    daemon_threads = True

    def __init__(self, endpoint: str, without: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Forwarder)
        self.without = without.lower()
        """A header that the server is not told; the requests then meet no faults."""
        self.host = urlsplit(endpoint).netloc
        self.numbers = count()
        self.met: list[str] = []
        self._dice, self._throwing = Random(0), threading.Lock()
        self.gone_until = 0.0
        """Until then, by the monotonic clock, every connection is cut."""

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def fault(self) -> str:
        with self._throwing:
            next(self.numbers)
            if self._dice.random() >= _SHARE or self.without:
                return ""
            self.met.append(FAULTS[len(self.met) % len(FAULTS)])
            return self.met[-1]


class _Forwarder(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy

    def reply(self) -> None:
        if time.monotonic() < self.server.gone_until:
            self.close_connection = True
            return
        fault = self.server.fault()
        if fault == "slow":
            time.sleep(0.2)
        if fault == "reset":
            # Closed at once, with what is not sent thrown away.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        if fault in ("cut before", "reset"):
            self.close_connection = True
            return
        if fault in ("500", "503"):
            self._answer(int(fault), {}, b"<Error><Code>SlowDown</Code></Error>")
            return
        connection = http.client.HTTPConnection(self.server.host)
        told = {name: value for name, value in self.headers.items() if name.lower() != self.server.without}
        connection.request(self.command, self.path, self.body, told)
        reply = connection.getresponse()
        data, headers = reply.read(), {name.lower(): value for name, value in reply.getheaders()}
        connection.close()
        if fault == "lost reply":
            self.close_connection = True
        else:
            self._answer(reply.status, headers, data, fault == "truncated")

    do_DELETE = QuietHandler.do_GET  # noqa: N815

    def _answer(self, status: int, headers: dict[str, str], data: bytes, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name not in ("content-length", "connection", "transfer-encoding", "server", "date"):
                self.send_header(name, value)
        length = headers.get("content-length", "0") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            self.close_connection = True


@contextmanager
def faulty_proxy(endpoint: str, without: str = "") -> Iterator[FaultyProxy]:
    """Run a proxy before a server, which meets faults unless it is a header that the server is not told.

    Without `If-None-Match` the server replaces files although it is asked to create them. The proxy's next number is
    how many requests it has seen.
    """
    with FaultyProxy(endpoint, without) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=[0.05], daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
