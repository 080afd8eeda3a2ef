"""Protects the viewer: who may read it, and what its pages may load."""

from __future__ import annotations

import hmac
from http import HTTPStatus
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trajmill.flows.serving.listening import is_loopback

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
