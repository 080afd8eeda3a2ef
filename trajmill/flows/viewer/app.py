"""The routes of the viewer: pages, and the JSON and the images that they show."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from http import HTTPStatus
from importlib import resources
from pathlib import Path, PurePath
from typing import Annotated, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trajmill.flows.serving.listening import is_loopback, listening, serve_app
from trajmill.flows.viewer.catalogue import Catalogue
from trajmill.flows.viewer.listing import AttemptFilter, AttemptPage, FacetValue, PageRequest, attempt_page, facets
from trajmill.flows.viewer.overview import (
    Group,
    RunCard,
    SuccessCell,
    TrainingRows,
    run_cards,
    success_over_rounds,
    training_rows,
)
from trajmill.flows.viewer.trajectory import (
    SharedScreens,
    TrajectoryPage,
    model_calls,
    trajectory_named,
    trajectory_page,
)
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.environments.openenv.spec import read_token
from trajmill.warehouse.layout import Warehouse

_PLACES = ("/", "/trajectories", "/success", "/trajectories/{run_id}/{trajectory_id}", "/compare")
_MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_NOT_SHOWN = {"steps": {"__all__": {"reply_token_ids", "reply_logprobs"}}}
_FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}
_ASK_AGAIN = {"cache-control": "no-cache"}
TOKEN = "token"
"""Name of the query parameter that a first link carries."""
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
    """The app that shows a warehouse; it only reads.

    Args:
        warehouse: what is shown.
        token: what readers must send; empty for readers on this machine.

    Raises:
        BadInputError: a committed file or an entry of a table's log is missing or damaged.
    """
    app = FastAPI(title="trajmill", openapi_url=None)
    app.add_exception_handler(BadInputError, _not_found)
    _add_pages(app)
    _add_data(app, warehouse, Catalogue(warehouse), SharedScreens(warehouse))
    return ViewerGuard(app, token)


def _add_pages(app: FastAPI) -> None:
    files = {
        path.name: (path.read_bytes(), _MEDIA_TYPES[PurePath(path.name).suffix])
        for path in resources.files(__package__).joinpath("page").iterdir()
    }

    def place() -> Response:
        return _file("index.html")

    def static(name: str) -> Response:
        return _file(name)

    def _file(name: str) -> Response:
        if name not in files:
            return Response(status_code=HTTPStatus.NOT_FOUND)
        data, media_type = files[name]
        return Response(data, media_type=media_type, headers=_ASK_AGAIN)

    for path in _PLACES:
        app.add_api_route(path, place)
    app.add_api_route("/static/{name}", static)


def _add_data(app: FastAPI, warehouse: Warehouse, catalogue: Catalogue, screens: SharedScreens) -> None:
    @app.get("/api/runs")
    def runs() -> list[RunCard]:
        return run_cards(warehouse, catalogue)

    @app.get("/api/trajectories")
    def trajectories(wanted: Annotated[PageRequest, Query()]) -> AttemptPage:
        return attempt_page(catalogue, wanted)

    @app.get("/api/facets")
    def values(wanted: Annotated[AttemptFilter, Query()]) -> dict[str, list[FacetValue]]:
        return facets(catalogue, wanted)

    @app.get("/api/success")
    def success(wanted: Annotated[_SuccessRequest, Query()]) -> list[SuccessCell]:
        return success_over_rounds(catalogue, wanted, wanted.by)

    @app.get("/api/trajectories/{run_id}/{trajectory_id}", response_model_exclude=_NOT_SHOWN)
    def trajectory(run_id: str, trajectory_id: str) -> TrajectoryPage:
        return trajectory_page(warehouse, catalogue, screens, run_id, trajectory_id)

    @app.get("/api/trajectories/{run_id}/{trajectory_id}/training")
    def training(run_id: str, trajectory_id: str) -> TrainingRows:
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
        return RedirectResponse(f"/trajectories/{found.run_id}/{found.trajectory_id}", HTTPStatus.SEE_OTHER)


def _not_found(request: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, HTTPStatus.NOT_FOUND)


class ViewerGuard:
    """Refuses readers without the token, and names of other hosts; adds the headers that keep pages harmless."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        """Protect an app.

        Args:
            app: what is protected.
            token: what readers must send, once as `?token=`, then as a cookie, or as `Authorization: Bearer`. If it is
                empty, only requests to a loopback name are answered, so that no page of the web can read through a
                name of its own.
        """
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(scope) or self._app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._token:
            name = _host_name(headers.get("host", ""))
            refused = PlainTextResponse("this viewer answers only to localhost\n", HTTPStatus.MISDIRECTED_REQUEST)
            return None if is_loopback(name) else refused
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if self._is_token(dict(query).get(TOKEN, "")):
            return _welcome(scope["path"], [pair for pair in query if pair[0] != TOKEN], self._token)
        given = headers.get("authorization", "").removeprefix("Bearer ")
        cookie = cookie_parser(headers.get("cookie", "")).get(_COOKIE, "")
        if self._is_token(given) or self._is_token(cookie):
            return None
        return PlainTextResponse("a token is needed: open the link that was printed\n", HTTPStatus.UNAUTHORIZED)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def _welcome(path: str, query: list[tuple[str, str]], token: str) -> Response:
    """To the same place without the token in its address, which would stay in the browser's history."""
    place = quote("/" + path.lstrip("/"))
    answer = RedirectResponse(f"{place}?{urlencode(query)}" if query else place, HTTPStatus.SEE_OTHER)
    answer.set_cookie(_COOKIE, token, httponly=True, samesite="strict")
    return answer


def _host_name(host: str) -> str:
    """The name in a `Host` header, e.g. `::1` of `[::1]:8080`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


class ViewOptions(NamedTuple):
    """Where the viewer listens."""

    host: str = "127.0.0.1"
    port: int = 8080
    """Port; 0 for a free one."""
    token_file: Path | None = None
    """File with the token that readers must send. Without it, a token is made where others can reach the viewer."""


def serve_viewer(warehouse: Warehouse, options: ViewOptions, ready: Callable[[str], None]) -> None:
    """Serve the viewer.

    Args:
        warehouse: what is shown.
        options: where.
        ready: called with the link, which carries the token if one is needed.

    Raises:
        BadInputError: an option is wrong, the port is taken, or a committed file is missing or damaged.
    """
    token = "" if options.token_file is None else read_token(options.token_file)
    if not token and not is_loopback(options.host):
        token = secrets.token_urlsafe(24)
    with listening(options.host, options.port) as listener:
        app = viewer_app(warehouse, token)
        host, port = listener.getsockname()[:2]
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{port}/" + (f"?{TOKEN}={token}" if token else ""))
        asyncio.run(serve_app(app, listener))
