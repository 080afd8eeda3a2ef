"""Serve one local desktop on loopback with the OSWorld protocol and typed actions.

Beyond OSWorld's protocol: `GET /capabilities` answers `{"typed_actions": true, "reset": true}`; `POST /action` takes
one typed action as JSON and answers when the screen has settled; `POST /reset` starts a fresh session. `/execute` takes
only argument lists, and every request needs the server's token: no other program, such as a browser, can start
programs through it.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import sys
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from pydantic import ValidationError
from Xlib.error import ConnectionClosedError, XError

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.geometry import Size
from trajmill.stages.environments.desktop.local.desktop import LocalDesktop, RefusedError
from trajmill.stages.environments.desktop.local.processes import (
    adopt_orphans,
    die_with_parent,
    drop_root_rights,
    private_home,
)
from trajmill.stages.environments.desktop.protocol import TOKEN_HEADER

_LONGEST_BODY = 256 * 1024 * 1024


class HttpAnswer(NamedTuple):
    body: bytes
    kind: str = "application/json"
    status: int = 200


def serve_desktop(desktop: LocalDesktop, token: str) -> TCPServer:
    """Listen on a free port of loopback; one request at a time, since a desktop has one mouse."""
    # As OSWorld's code sends it, in the address.
    as_password = "Basic " + base64.b64encode(f"token:{token}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self._answer(self.rfile.read(min(length, _LONGEST_BODY)))

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def _answer(self, body: bytes) -> None:
            answer = _problem(403, "wrong token")
            if self.headers.get(TOKEN_HEADER) == token or self.headers.get("Authorization") == as_password:
                answer = respond(desktop, self.path, self.headers.get("Content-Type") or "", body)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

    return _QuietServer(("127.0.0.1", 0), Handler)


class _QuietServer(TCPServer):
    """Prints no traceback for a client that has gone, e.g. because Ctrl-C ended it."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def respond(desktop: LocalDesktop, path: str, kind: str, body: bytes) -> HttpAnswer:
    try:
        return _route(desktop, path, kind, body)
    except RefusedError as error:
        return _problem(403, str(error))
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        return _problem(400, f"bad request: {error}")
    except FileNotFoundError as error:
        return _problem(404, f"there is no such file: {error.filename}")
    except EnvironmentFailure as error:
        return _problem(500, str(error))
    except (ConnectionClosedError, XError) as error:
        return _problem(500, f"the X server is gone: {error}")
    except TimeoutError:
        return _problem(500, "a program does not answer over the accessibility bus")
    except OSError as error:
        return _problem(500, f"the desktop is gone: {error}")


def _route(desktop: LocalDesktop, path: str, kind: str, body: bytes) -> HttpAnswer:
    match path:
        case "/screenshot":
            return HttpAnswer(desktop.screenshot(), "image/png")
        case "/accessibility":
            return _json({"AT": desktop.tree()})
        case "/action":
            desktop.act(action_from_json(body.decode()))
        case "/reset":
            desktop.reset()
        case "/capabilities":
            return _json({"typed_actions": True, "reset": True})
        case "/platform":
            return HttpAnswer(b"Linux", "text/plain")
        case "/screen_size":
            return _json({"width": desktop.size.width, "height": desktop.size.height})
        case "/cursor_position":
            return _json(desktop.windows.pointer())
        case "/file":
            return HttpAnswer(desktop.read_file(parse_qs(body.decode())["file_path"][0]), "application/octet-stream")
        case "/execute" | "/setup/execute":
            done = desktop.run(_argument_list(body))
            return _json({"status": "success", "output": done.output, "error": done.error, "returncode": done.code})
        case "/setup/launch":
            desktop.launch(_argument_list(body))
        case "/setup/open_file":
            desktop.open_file(str(json.loads(body)["path"]))
        case "/setup/upload":
            _upload(desktop, kind, body)
        case "/setup/activate_window" | "/setup/close_window":
            _with_window(desktop, path, json.loads(body))
        case _:
            raise RefusedError(f"a local desktop does not serve {path}")
    return _json({"status": "success"})


def _argument_list(body: bytes) -> list[str]:
    request = json.loads(body)
    command = request["command"]
    if request.get("shell") or not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise RefusedError("a local desktop runs argument lists only, never a shell's command line")
    if not command:
        raise RefusedError("the command is empty")
    return command


def _upload(desktop: LocalDesktop, kind: str, body: bytes) -> None:
    form = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    fields = {
        str(part.get_param("name", header="content-disposition")): bytes(part.get_payload(decode=True) or b"")
        for part in form.walk()
        if not part.is_multipart()
    }
    desktop.write_file(fields["file_path"].decode(), fields["file_data"])


def _with_window(desktop: LocalDesktop, path: str, request: dict[str, Any]) -> None:
    wanted, found = str(request["window_name"]), []
    for window in desktop.windows.all():
        name = window.program if request.get("by_class") else window.title
        if name == wanted if request.get("strict") else wanted.lower() in name.lower():
            found.append(window)
    if not found:
        raise FileNotFoundError(2, "no such window", wanted)
    handle = desktop.windows.ask_to_close if path == "/setup/close_window" else desktop.windows.activate
    handle(found[0])
    desktop.settle()


def _json(value: Any) -> HttpAnswer:
    return HttpAnswer(json.dumps(value).encode())


def _problem(status: int, message: str) -> HttpAnswer:
    return HttpAnswer(json.dumps({"status": "error", "message": message}).encode(), status=status)


def serve(folder: Path, width: int, height: int, watchdog: int) -> None:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    home = private_home(folder / "home")
    drop_root_rights(folder)
    die_with_parent()
    if os.getppid() != watchdog:
        return
    adopt_orphans()
    token = secrets.token_hex(16)
    desktop = LocalDesktop(home, folder / "session", Size(width, height))
    server = serve_desktop(desktop, token)
    print(json.dumps({"port": server.server_address[1], "token": token, "folder": str(folder)}), flush=True)
    server.serve_forever()
