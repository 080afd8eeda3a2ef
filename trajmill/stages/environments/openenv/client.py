"""The messages between a client and an OpenEnv server, and the synchronous client for trainers."""

from __future__ import annotations

import json
from contextlib import suppress
from types import TracebackType
from typing import Any

from pydantic import BaseModel, Field, FiniteFloat, ValidationError
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from trajmill.schemas.errors import BadInputError, EnvironmentFailure
from trajmill.stages.environments.openenv.wire import MOST_MESSAGE_BYTES, WireAction, WireScreen
from trajmill.stages.parts import first_mistake

BUSY = "CAPACITY_REACHED"
STATE = '{"type": "state"}'
"""Requests the state of the session; a server answers only if it has room for the session."""
_LONGEST_ERROR = 500


class ServerBusy(EnvironmentFailure): ...


class EpisodeAnswer(BaseModel):
    screen: WireScreen = Field(alias="observation")
    reward: FiniteFloat | None = None
    done: bool = False


def reset_message(query_id: str | None, seed: int | None, **order: Any) -> str:
    data = {name: value for name, value in {"query_id": query_id, "seed": seed, **order}.items() if value is not None}
    return json.dumps({"type": "reset", "data": data})


def step_message(action: WireAction) -> str:
    return json.dumps({"type": "step", "data": action.model_dump(exclude_defaults=True)})


def read_answer(raw: str | bytes, where: str) -> EpisodeAnswer:
    """Parse an observation; `where` names the server in the errors ServerBusy and EnvironmentFailure."""
    try:
        return EpisodeAnswer.model_validate(read_data(raw, where))
    except ValidationError as error:
        mistake = first_mistake(error, "the whole")
        raise EnvironmentFailure(f"{where} sent no observation of a GUI: {mistake}") from error


def read_data(raw: str | bytes, where: str) -> dict[str, Any]:
    """Parse the data of a message; raises ServerBusy or EnvironmentFailure for one that reports an error."""
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise EnvironmentFailure(f"{where} sent no JSON") from error
    data = message.get("data") if isinstance(message, dict) else None
    if not isinstance(data, dict):
        raise EnvironmentFailure(f"{where} sent a message without data")
    if message.get("type") == "error":
        text = " ".join(str(data.get("message", "an error without a message")).split())[:_LONGEST_ERROR]
        raise (ServerBusy if data.get("code") == BUSY else EnvironmentFailure)(f"{where}: {text}")
    return data


def session_address(url: str) -> str:
    scheme, _, rest = url.rstrip("/").partition("://")
    if not rest or scheme not in ("http", "https", "ws", "wss"):
        raise BadInputError(f"{url!r:.100} is no address of an environment server; write http://HOST:PORT")
    return f"{'wss' if scheme in ('https', 'wss') else 'ws'}://{rest}/ws"


def token_headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def connection_options(token: str, seconds: float) -> dict[str, Any]:
    headers = token_headers(token)
    return {"additional_headers": headers, "max_size": MOST_MESSAGE_BYTES, "open_timeout": seconds, "proxy": None}


class EnvironmentClient:
    def __init__(self, url: str, token: str = "", policy: str = "online", seconds: float = 300.0) -> None:
        """Connect to nothing yet. `policy` is its version for the rows; raises BadInputError for a wrong address."""
        self.url = url
        self.policy = policy
        self._address = session_address(url)
        self._token = token
        self._seconds = seconds
        self._socket: ClientConnection | None = None
        self._last: EpisodeAnswer | None = None

    def reset(self, query_id: str | None = None, seed: int | None = None) -> EpisodeAnswer:
        """Begin an episode; raises ServerBusy if the server has no room, else EnvironmentFailure if it cannot."""
        self._last = None
        if self._socket is not None and self._socket.close_code is not None:
            # The server ends a session in which nobody has asked for anything for long.
            self.close()
        if self._socket is None:
            self._socket = self._connect()
        return self._ask(reset_message(query_id, seed, policy=self.policy))

    def step(self, action: WireAction) -> EpisodeAnswer:
        """Do one step; the last one has the reward. Raises EnvironmentFailure if the episode is over or void."""
        if self._socket is None or self._last is None or self._last.done:
            raise EnvironmentFailure("no episode is under way; reset first")
        return self._ask(step_message(action))

    def finish(self) -> EpisodeAnswer:
        if self._last is not None and self._last.done:
            return self._last
        return self.step(WireAction(stop=True))

    def close(self) -> None:
        socket, self._socket, self._last = self._socket, None, None
        if socket is not None:
            socket.close()

    def __enter__(self) -> EnvironmentClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> ClientConnection:
        try:
            return connect(self._address, **connection_options(self._token, self._seconds))
        except (OSError, TimeoutError, WebSocketException) as error:
            raise EnvironmentFailure(f"{self.url} cannot be reached: {error}") from error

    def _ask(self, message: str) -> EpisodeAnswer:
        assert self._socket is not None
        try:
            # A server without room closes at once; its message before that must still be read.
            with suppress(ConnectionClosed):
                self._socket.send(message)
            raw = self._socket.recv(timeout=self._seconds)
        except TimeoutError as error:
            self.close()
            raise EnvironmentFailure(f"{self.url} did not answer within {self._seconds:g} s") from error
        except (OSError, WebSocketException) as error:
            self.close()
            raise EnvironmentFailure(f"{self.url}: the connection was lost: {error}") from error
        try:
            self._last = read_answer(raw, self.url)
        except ServerBusy:
            self.close()
            raise
        return self._last
