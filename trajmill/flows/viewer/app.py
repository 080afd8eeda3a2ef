"""The routes of the viewer: pages, and their JSON and images."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from http import HTTPStatus
from importlib import resources
from pathlib import Path, PurePath
from typing import Annotated
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trajmill.flows.serving.listening import is_loopback, listening, serve_app
from trajmill.flows.viewer.catalogue import Catalogue, Row
from trajmill.flows.viewer.listing import AttemptFilter, PageRequest, attempt_page, facets
from trajmill.flows.viewer.overview import Group, run_cards, success_over_rounds, training_rows
from trajmill.flows.viewer.trajectory import SharedScreens, model_calls, trajectory_named, trajectory_page
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.environments.openenv.spec import read_token
from trajmill.warehouse.layout import Warehouse

_PLACES = ("/", "/trajectories", "/success", "/trajectories/{run_id}/{trajectory_id}", "/compare")
_MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}
_ASK_AGAIN = {"cache-control": "no-cache"}
_TOKEN = "token"
_COOKIE = "trajmill_view"
_HEADERS = {
    # Only the viewer's own files: a script, style or image that a model has written into a text is never loaded.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class _SuccessRequest(AttemptFilter):
    by: Group = "app"


def viewer_app(warehouse: Warehouse, token: str = "") -> ASGIApp:
    """Make the app that shows a warehouse; it only reads.

    Args:
        warehouse: what is shown.
        token: what readers must send; empty for readers on this machine.

    Raises:
        BadInputError: a committed file or an entry of a table's log is missing or damaged.
    """
    app = FastAPI(title="trajmill", openapi_url=None)
    app.add_exception_handler(BadInputError, _not_found)
    catalogue, screens = Catalogue(warehouse), SharedScreens(warehouse)
    files = {
        path.name: (path.read_bytes(), _MEDIA_TYPES[PurePath(path.name).suffix])
        for path in resources.files(__package__).joinpath("page").iterdir()
    }

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in files:
            return Response(status_code=HTTPStatus.NOT_FOUND)
        data, media_type = files[name]
        return Response(data, media_type=media_type, headers=_ASK_AGAIN)

    def place() -> Response:
        return static("index.html")

    for path in _PLACES:
        app.add_api_route(path, place)

    @app.get("/api/runs")
    def runs() -> list[Row]:
        return run_cards(warehouse, catalogue)

    @app.get("/api/trajectories")
    def trajectories(wanted: Annotated[PageRequest, Query()]) -> Row:
        return attempt_page(catalogue, wanted)._asdict()

    @app.get("/api/facets")
    def values(wanted: Annotated[AttemptFilter, Query()]) -> dict[str, list[Row]]:
        return facets(catalogue, wanted)

    @app.get("/api/success")
    def success(wanted: Annotated[_SuccessRequest, Query()]) -> list[Row]:
        return success_over_rounds(catalogue, wanted, wanted.by)

    @app.get("/api/trajectories/{run_id}/{trajectory_id}")
    def trajectory(run_id: str, trajectory_id: str) -> Row:
        return trajectory_page(warehouse, catalogue, screens, run_id, trajectory_id)

    @app.get("/api/trajectories/{run_id}/{trajectory_id}/training")
    def training(run_id: str, trajectory_id: str) -> Row:
        return training_rows(warehouse, run_id, trajectory_id)

    @app.get("/api/trajectories/{run_id}/{trajectory_id}/calls")
    def calls(run_id: str, trajectory_id: str) -> list[ModelCall]:
        return model_calls(warehouse, run_id, trajectory_id)

    @app.get("/api/screens/{screen_id}")
    def screen(screen_id: str) -> Response:
        image = screens.image(screen_id)
        return Response(image.data, media_type=image.media_type, headers=_FOR_EVER)

    @app.get("/t/{start}")
    def named(start: str) -> Response:
        """A short link: `/t/` and the start of a trajectory's id."""
        found = trajectory_named(catalogue, start)
        return RedirectResponse(f"/trajectories/{found['run_id']}/{found['trajectory_id']}", HTTPStatus.SEE_OTHER)

    return ViewerGuard(app, token)


def _not_found(request: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, HTTPStatus.NOT_FOUND)


class ViewerGuard:
    """Refuses readers without the token, and names of other hosts; adds the headers that keep pages harmless.

    Readers send the token once as `?token=`, then as a cookie, or as `Authorization: Bearer`. Without a token, only
    requests to a loopback name are answered, so that no page of the web can read through a name of its own.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self._refusal(scope) or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._token:
            host = headers.get("host", "")
            name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
            refused = PlainTextResponse("this viewer answers only to localhost\n", HTTPStatus.MISDIRECTED_REQUEST)
            return None if is_loopback(name) else refused
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if self._is_token(dict(query).get(_TOKEN, "")):
            # To the same place without the token in its address, which would stay in the browser's history.
            others, place = [pair for pair in query if pair[0] != _TOKEN], quote("/" + scope["path"].lstrip("/"))
            answer = RedirectResponse(f"{place}?{urlencode(others)}" if others else place, HTTPStatus.SEE_OTHER)
            answer.set_cookie(_COOKIE, self._token, httponly=True, samesite="strict")
            return answer
        given = headers.get("authorization", "").removeprefix("Bearer ")
        cookie = cookie_parser(headers.get("cookie", "")).get(_COOKIE, "")
        if self._is_token(given) or self._is_token(cookie):
            return None
        return PlainTextResponse("a token is needed: open the link that was printed\n", HTTPStatus.UNAUTHORIZED)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def serve_viewer(
    warehouse: Warehouse, host: str, port: int, token_file: Path | None, ready: Callable[[str], None]
) -> None:
    """Serve the viewer until Ctrl-C.

    Args:
        warehouse: what is shown.
        host: address to listen on.
        port: port; 0 for a free one.
        token_file: file with the token that readers must send; without it, a token is made if others can reach `host`.
        ready: called with the link, which carries the token if one is needed.

    Raises:
        BadInputError: an option is wrong, the port is taken, or a committed file is missing or damaged.
    """
    token = "" if token_file is None else read_token(token_file)
    if not token and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    with listening(host, port) as listener:
        app = viewer_app(warehouse, token)
        address, number = listener.getsockname()[:2]
        name = f"[{address}]" if ":" in address else address
        ready(f"http://{name}:{number}/" + (f"?{_TOKEN}={token}" if token else ""))
        asyncio.run(serve_app(app, listener))
