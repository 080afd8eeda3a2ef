"""Environments at OpenEnv servers, each with a session of its own that is never reopened."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

import httpx
from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.stages.environments.openenv.client import (
    STATE,
    EpisodeAnswer,
    ServerBusy,
    connection_options,
    read_answer,
    read_data,
    reset_message,
    session_address,
    step_message,
    token_headers,
)
from trajmill.stages.environments.openenv.wire import WireAction, WireTask, to_observation
from trajmill.stages.environments.pool.machines import POLL_SECONDS
from trajmill.stages.environments.tasks import own_query
from trajmill.stages.parts import first_mistake

_MAKER = "openenv"
_SECONDS = 60.0
_CONNECT_SECONDS = 10.0


class ServerSession:
    def __init__(self, url: str, socket: ClientConnection, on_close: Callable[[], None]) -> None:
        self.url = url
        self._socket = socket
        self._on_close: Callable[[], None] | None = on_close

    async def ask(self, message: str) -> EpisodeAnswer:
        """Send a message and wait for the answer; raises EnvironmentFailure if the server fails or is lost."""
        return read_answer(await self._sent(message), self.url)

    async def state(self) -> dict[str, Any]:
        return read_data(await self._sent(STATE), self.url)

    async def close(self) -> None:
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()
            await self._socket.close()

    async def _sent(self, message: str) -> str | bytes:
        try:
            # A full server closes the connection at once; its first message can still be read.
            with suppress(ConnectionClosed):
                await self._socket.send(message)
            return await self._socket.recv()
        except (OSError, WebSocketException) as error:
            raise EnvironmentFailure(f"{self.url}: the connection was lost: {error}") from error


class ServerSessions:
    """Opens sessions where this process has the fewest; one is a lease until its close or the process's end."""

    def __init__(
        self, servers: tuple[str, ...], token: str, lease: float = _SECONDS, platform: Platform = Platform.WEB
    ) -> None:
        """Connect to nothing yet; an empty token is not sent. `platform` is that of the environments.

        `lease` is the longest wait in seconds for a server with room, if this process has no session yet.
        """
        self._token, self._lease, self._platform = token, lease, platform
        self._held = Counter(dict.fromkeys(servers, 0))

    async def open(self) -> ServerSession:
        """Open a session at a server with room; waits only if this process has none. EnvironmentFailure (`setup`)."""
        deadline = monotonic() + self._lease
        while True:
            troubles: list[str] = []
            for url in sorted(self._held, key=lambda url: self._held[url]):
                session = await self._open_at(url, troubles)
                if session is not None:
                    return session
            if self._held.total() or monotonic() > deadline:
                text = f"no environment server is free: {'; '.join(troubles)}; name more servers, or run fewer episodes"
                raise EnvironmentFailure(text, FailureClass.SETUP)
            await asyncio.sleep(POLL_SECONDS)

    async def _open_at(self, url: str, troubles: list[str]) -> ServerSession | None:
        give_back = partial(self._held.subtract, [url])
        # Counted before the connection is open, so that episodes that start at the same time choose other servers.
        self._held[url] += 1
        session, fits = None, False
        try:
            socket = await connect(session_address(url), **connection_options(self._token, _CONNECT_SECONDS))
            session = ServerSession(url, socket, give_back)
            # A full server accepts the connection, and refuses in answer to the first message.
            async with asyncio.timeout(_CONNECT_SECONDS):
                await session.state()
            fits = True
            return session
        except ServerBusy:
            troubles.append(f"{url} is full")
        except EnvironmentFailure as error:
            troubles.append(str(error))
        except (OSError, WebSocketException) as error:
            late = f"{url} did not answer within {_CONNECT_SECONDS:g} s"
            troubles.append(f"{url} cannot be reached: {error}" if session is None else late)
        finally:
            if session is None:
                give_back()
            elif not fits:
                await session.close()
        return None

    async def __call__(self) -> OpenEnvEnvironment:
        return OpenEnvEnvironment(await self.open(), self._platform)

    async def close(self) -> None: ...


class OpenEnvEnvironment:
    """Sends only the id of a query: the server has its start state and its goal."""

    name = "openenv"

    def __init__(self, session: ServerSession, platform: Platform) -> None:
        self.platform = platform
        self._session = session
        self._seen: Observation | None = None
        self._reward: float | None = None
        self._over = True

    async def reset(self, query: Query, seed: int) -> Observation:
        self._seen, self._reward, self._over = None, None, False
        try:
            answer = await self._ask(reset_message(query.query_id, seed, record=False))
        except EnvironmentFailure as error:
            raise EnvironmentFailure(str(error), FailureClass.SETUP) from error
        if answer.screen.query_id not in ("", query.query_id):
            text = f"{self._session.url} began query {answer.screen.query_id:.60} in the place of {query.query_id}"
            raise EnvironmentFailure(text, FailureClass.SETUP)
        return self._shown()

    async def step(self, action: Action) -> Observation:
        if not self._over:
            await self._ask(step_message(WireAction(action=json.loads(action.model_dump_json()))))
        return self._shown()

    async def score(self) -> float | None:
        if not self._over:
            await self._ask(step_message(WireAction(stop=True)))
        return None if self._reward is None else min(max(self._reward, 0.0), 1.0)

    async def healthy(self) -> bool:
        try:
            await self._session.state()
        except EnvironmentFailure:
            return False
        return True

    async def close(self) -> None:
        await self._session.close()

    async def _ask(self, message: str) -> EpisodeAnswer:
        answer = await self._session.ask(message)
        self._over = answer.done
        if answer.screen.void:
            raise EnvironmentFailure(f"{self._session.url}: {answer.screen.error or 'the episode is void'}")
        if answer.reward is not None:
            self._reward = answer.reward
        if answer.screen.screenshot or self._seen is None:
            self._seen = to_observation(answer.screen)
        return answer

    def _shown(self) -> Observation:
        if self._seen is None:
            raise EnvironmentFailure(f"{self._session.url}: no episode is under way")
        return self._seen


async def served_queries(servers: Sequence[str], token: str, origin: Origin) -> list[Query]:
    """Return the queries of the first server that answers; raises EnvironmentFailure (`setup`) if none does."""
    troubles: list[str] = []
    for url in servers:
        try:
            async with httpx.AsyncClient(
                base_url=url, headers=token_headers(token), timeout=_SECONDS, trust_env=False
            ) as http:
                return [_query(task, split, origin) for split, task in await _tasks(http)]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            troubles.append(f"{url}: {' '.join(str(error).split()) or type(error).__name__}")
    text = f"no environment server lists its tasks: {'; '.join(troubles)}; start one with `trajmill env serve`"
    raise EnvironmentFailure(text, FailureClass.SETUP)


async def _tasks(http: httpx.AsyncClient) -> list[tuple[str, Any]]:
    async def request(method: str, path: str, body: object = None) -> Any:
        answer = await http.request(method, path, json=body)
        if not answer.is_success:
            raise ValueError(f"{path} answered {answer.status_code}")
        return answer.json()

    (name,) = (await request("GET", "/list_environments"))[:1]
    found = []
    for split in await request("GET", f"/{name}/splits"):
        answer = await request("POST", f"/{name}/tasks", {"split": split["name"]})
        found += [(split["name"], task) for task in answer["tasks"]]
    return found


def _query(content: object, split: str, origin: Origin) -> Query:
    try:
        task = WireTask.model_validate(content)
        platform = Platform(task.platform)
    except ValidationError as error:
        raise ValueError(f"a task that cannot be used: {first_mistake(error, 'the task')}") from error
    named = task.split or split
    other = Split.TRAIN if split == Split.TRAIN else Split.HELDOUT_SLOTS
    return own_query(
        platform,
        task.task or _MAKER,
        task.instruction,
        # No environment reads it: it only keeps goals apart, so that none is in two splits.
        json.dumps({"goal_id": task.goal_id}) if task.goal_id else "{}",
        origin,
        _MAKER,
        query_id=task.query_id,
        apps=tuple(task.apps),
        difficulty=task.difficulty,
        max_steps=task.max_steps,
        split=Split(named) if named in set(Split) else other,
    )
