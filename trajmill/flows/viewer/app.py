"""The viewer: its routes, who may read them, and the server."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote, urlencode

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trajmill.flows.serving.listening import is_loopback, listening, serve_app, url_of
from trajmill.flows.viewer.attempts import Catalogue, attempt_routes
from trajmill.flows.viewer.runs import run_routes, trajectory_routes
from trajmill.schemas.errors import BadInputError
from trajmill.stages.environments.kinds import read_token
from trajmill.warehouse.layout import Warehouse

_PAGE = Path(__file__).parent / "page"
_PLACES = ("/", "/trajectories", "/success", "/failures", "/policies", "/compare", "/live")
_TOKEN = "token"
_COOKIE = "trajmill_view"
_HEADERS = {
    "cache-control": "no-cache",
    # Only the viewer's own files: a script, style or image that a model has written into a text is never loaded.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def viewer_app(warehouse: Warehouse, token: str = "") -> ASGIApp:
    """Make the app that shows a warehouse; it only reads.

    `token` is what readers must send; empty for readers on this machine. Raises BadInputError if a committed file or an
    entry of a table's log is missing or damaged.
    """
    app, catalogue = FastAPI(title="trajmill", openapi_url=None), Catalogue(warehouse)
    for routes in (
        attempt_routes(catalogue),
        run_routes(warehouse, catalogue),
        trajectory_routes(warehouse, catalogue),
    ):
        app.include_router(routes)
    app.mount("/static", StaticFiles(directory=_PAGE))

    def place() -> Response:
        return FileResponse(_PAGE / "index.html")

    for path in (*_PLACES, "/trajectories/{run_id}/{trajectory_id}"):
        app.add_api_route(path, place)

    @app.exception_handler(HTTPStatus.NOT_FOUND)
    @app.exception_handler(BadInputError)
    def not_found(request: Request, error: Exception) -> Response:
        if not request.url.path.startswith(("/api/", "/static/")):
            return FileResponse(_PAGE / "index.html", HTTPStatus.NOT_FOUND)
        detail = str(error) if isinstance(error, BadInputError) else f"there is no {request.url.path}"
        return JSONResponse({"detail": detail}, HTTPStatus.NOT_FOUND)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse readers without the token, and names of other hosts; add the headers that keep pages harmless."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = None
        if scope["type"] == "http":
            refused = _refusal(Request(scope), token)
            # HEAD is answered as GET; the server leaves the body out.
            scope = {**scope, "method": "GET" if scope["method"] == "HEAD" else scope["method"]}
        await (refused or app)(scope, receive, send_with_headers)

    return guarded


def _refusal(request: Request, token: str) -> Response | None:
    """Return the answer to a reader who may not read.

    Readers send the token once as `?token=`, then as a cookie, or as `Authorization: Bearer`. Without a token, only
    requests to a loopback name are answered, so that no page of the web can read through a name of its own.
    """

    def is_token(given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), token.encode())

    if not token:
        host = request.headers.get("host", "")
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        refused = PlainTextResponse("this viewer answers only to localhost\n", HTTPStatus.MISDIRECTED_REQUEST)
        return None if is_loopback(name) else refused
    if is_token(request.query_params.get(_TOKEN)):
        # To the same place without the token in its address, which would stay in the browser's history.
        others = [pair for pair in request.query_params.multi_items() if pair[0] != _TOKEN]
        place = quote("/" + request.scope["path"].lstrip("/"))
        answer = RedirectResponse(f"{place}?{urlencode(others)}" if others else place, HTTPStatus.SEE_OTHER)
        answer.set_cookie(_COOKIE, token, httponly=True, samesite="strict")
        return answer
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    if is_token(bearer) or is_token(request.cookies.get(_COOKIE)):
        return None
    return PlainTextResponse("a token is needed: open the link that was printed\n", HTTPStatus.UNAUTHORIZED)


def serve_viewer(
    warehouse: Warehouse, host: str, port: int, token_file: Path | None, ready: Callable[[str], None]
) -> None:
    """Serve the viewer until Ctrl-C; `ready` gets the link, which carries the token if one is needed.

    `token_file` has the token that readers must send; without it, a token is made if others can reach `host`. Raises
    BadInputError: an option is wrong, the port is taken, or a committed file is missing or damaged.
    """
    token = "" if token_file is None else read_token(token_file)
    if not token and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    with listening(host, port) as listener:
        app = viewer_app(warehouse, token)
        ready(f"{url_of(listener)}/" + (f"?{_TOKEN}={token}" if token else ""))
        asyncio.run(serve_app(app, listener))
