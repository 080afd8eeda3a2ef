"""A web server on a free port of this machine, for handlers that stand in for a service."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler


class QuietHandler(BaseHTTPRequestHandler):
    """Answers each request, of any method, by `reply`."""

    def do_GET(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.reply()

    do_POST = do_PUT = do_HEAD = do_GET  # noqa: N815

    def reply(self) -> None:
        raise NotImplementedError

    def answer(self, body: bytes = b"", status: int = 200, reason: str | None = None, **headers: str) -> None:
        self.send_response(status, reason)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(handler: type[BaseRequestHandler], port: int = 0) -> Iterator[str]:
    """Inside, a handler answers at the given address."""
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def saying(answer: bytes) -> AbstractContextManager[str]:
    """Inside, whoever connects to the given address is told the same bytes, whatever it says."""

    class Same(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answer)

    return serving(Same)
