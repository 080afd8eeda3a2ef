"""The client of a state API: `POST /post?sid=` sets a session's state, `GET /go?sid=` reads it (CUA-Gym-Hub)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import uuid4

import httpx

from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass, StageError
from trajmill.stages.environments.base import AWAY, Patience
from trajmill.stages.environments.browser.proxy import origin_of
from trajmill.stages.environments.difference import differences, is_same

MOST_ANSWER_BYTES = 16_000_000
SID = "sid"
_SECONDS_PER_CALL = 30.0
_WITNESS = {"check": "witness"}


class States(NamedTuple):
    """What a session started with, and what it has now; null before anything was set or changed."""

    initial: Any
    current: Any


class Session(NamedTuple):
    origin: str
    sid: str

    def failure(self, text: str) -> EnvironmentFailure:
        return EnvironmentFailure(f"{self.origin} {text}", FailureClass.SETUP)


def new_session(url: str) -> Session:
    """Name a session that no server has, at the origin of a page."""
    return Session(origin_of(url), uuid4().hex)


def address_of(url: str, sid: str) -> str:
    """Return a page's address in a session; another session in it is replaced."""
    parts = urlsplit(url)
    others = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != SID]
    return parts._replace(query=urlencode([*others, (SID, sid)])).geturl()


class StateApi:
    """Sets and reads sessions; waits for a server that is away. Its errors are EnvironmentFailure, one line each."""

    def __init__(self, patience: Patience) -> None:
        self._patience, self._witness = patience, uuid4().hex
        # Proxies in environment variables are ignored.
        self._http = httpx.AsyncClient(trust_env=False, timeout=_SECONDS_PER_CALL)

    async def begin(self, session: Session, initial: Any, current: Any = None) -> None:
        """Set the state of a new session; raises EnvironmentFailure if the server then answers another one."""
        await self._post(session, "set", initial)
        if current is not None:
            await self._post(session, "set_current", current)
        await self.verify(session, States(initial, initial if current is None else current))

    async def open_witness(self, origin: str) -> Session:
        """Begin a session that no page writes; a server without it has lost the sessions beside it, too."""
        witness = Session(origin, self._witness)
        await self.begin(witness, _WITNESS)
        return witness

    async def has_witness(self, witness: Session) -> bool:
        return is_same(_WITNESS, (await self.read(witness)).initial)

    async def verify(self, session: Session, expected: States) -> None:
        found = await self.read(session)
        for part, was_set, answered in zip(States._fields, expected, found, strict=True):
            if (other := next(differences(was_set, answered), None)) is not None:
                where = ".".join((f"{part}_state", *other.path))
                raise session.failure(
                    f"answers a state that was not set: {where} is {_short(other.after)}, not {_short(other.before)}"
                )

    async def read(self, session: Session) -> States:
        answer = await self._ask("GET", "/go", session)
        if not isinstance(answer, dict) or not {"initial_state", "current_state"} <= answer.keys():
            raise session.failure("GET /go answers no object with initial_state and current_state")
        if answer.get(SID) not in (None, session.sid):
            raise session.failure(f"GET /go answers the session {_short(answer[SID])}, asked for {session.sid}")
        return States(answer["initial_state"], answer["current_state"])

    async def close(self) -> None:
        await self._http.aclose()

    async def _post(self, session: Session, action: str, state: Any) -> None:
        answer = await self._ask("POST", "/post", session, {"action": action, "state": state})
        if isinstance(answer, dict) and (answer.get("success") is False or answer.get("error")):
            raise session.failure(f"POST /post refuses to {action} the state: {_short(answer.get('error'))}")

    async def _ask(self, method: str, path: str, session: Session, body: Any = None) -> Any:
        async def once() -> Any:
            try:
                url = address_of(session.origin + path, session.sid)
                async with self._http.stream(method, url, json=body) as answer:
                    if answer.status_code not in AWAY:
                        return await self._content(answer, session, f"{method} {path}")
                    why = f"HTTP {answer.status_code}"
            except httpx.TransportError as error:
                why = " ".join(str(error).split()) or type(error).__name__
            raise EnvironmentFailure(why, FailureClass.UNREACHABLE)

        return await self._patience.outlast(session.origin, once)

    async def _content(self, answer: httpx.Response, session: Session, call: str) -> Any:
        if answer.is_redirect:
            raise session.failure(
                f"{call} redirects to {_short(answer.headers.get('location'))}; name that address instead"
            )
        if answer.status_code != httpx.codes.OK:
            raise session.failure(f"{call} answers HTTP {answer.status_code}; it has no state API there")
        content = bytearray()
        async for chunk in answer.aiter_bytes():
            content += chunk
            if len(content) > MOST_ANSWER_BYTES:
                raise session.failure(f"{call} answers more than {MOST_ANSWER_BYTES:,} bytes")
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            start = _short(content[:80].decode(errors="replace"))
            raise session.failure(f"{call} answers no JSON: {start}") from error


async def check_servers(urls: Iterable[str]) -> None:
    """Check that each server keeps two sessions apart; raises BadInputError with a line for each that does not."""
    api, state, mistakes = StateApi(Patience()), {"check": uuid4().hex}, []
    for url in sorted({new_session(url).origin for url in urls}):
        mine = new_session(url)
        try:
            await api.begin(mine, state)
            await api.begin(new_session(url), {"check": "another session"})
            await api.verify(mine, States(state, state))
        except StageError as error:
            mistakes.append(str(error))
    await api.close()
    if mistakes:
        raise BadInputError("\n".join(mistakes))


def _short(value: Any) -> str:
    return repr(value)[:80]
