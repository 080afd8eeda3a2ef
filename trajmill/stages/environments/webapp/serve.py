"""Serves a compiled web app on loopback from memory; no file of the machine can be requested."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from trajmill.schemas.errors import BadInputError
from trajmill.stages.environments.webapp.compile import INDEX, WebApp, media_type

HOST = "127.0.0.1"


def web_app_server(app: WebApp, port: int) -> ThreadingHTTPServer:
    """A server of a web app; it listens already, and `serve_forever` answers requests.

    Args:
        app: the web app.
        port: port on loopback, 0 for a free one.

    Raises:
        BadInputError: the port cannot be used.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = urlsplit(self.path).path.removeprefix("/") or INDEX
            if name not in app.files:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = app.files[name].encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", media_type(name))
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        text = f"--port {port}: {error.strerror or error}; name another port, or 0 for any that is free"
        raise BadInputError(text) from error
