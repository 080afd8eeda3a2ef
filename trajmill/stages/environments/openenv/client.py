"""The client for trainers: steps the episodes of an environment server from synchronous Python code.

A time-out or a lost connection makes the episode void, and the next reset opens a new session. It needs only the
packages of trajmill itself.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.stages.environments.openenv.answers import (
    EpisodeAnswer,
    ServerBusy,
    read_answer,
    reset_message,
    session_address,
    step_message,
    token_headers,
)
from trajmill.stages.environments.openenv.wire import MOST_MESSAGE_BYTES, WireAction


class EnvironmentClient:
    """One session at a server, with one episode at a time."""

    def __init__(self, url: str, token: str = "", policy: str = "online", seconds: float = 300.0) -> None:
        """Connect to nothing yet; the first reset connects.

        Args:
            url: address of the server, e.g. `http://127.0.0.1:8000`.
            token: token of the server; empty for none.
            policy: the version of the policy for the rows.
            seconds: time limit of an answer.

        Raises:
            BadInputError: the address is not valid.
        """
        self.url = url
        self.policy = policy
        self._address = session_address(url)
        self._headers = token_headers(token)
        self._seconds = seconds
        self._socket: ClientConnection | None = None
        self._last: EpisodeAnswer | None = None

    def reset(self, query_id: str | None = None, seed: int | None = None) -> EpisodeAnswer:
        """Begin an episode.

        Raises:
            ServerBusy: the server has no room.
            EnvironmentFailure: the server cannot be reached, or the episode cannot begin.
        """
        self._last = None
        if self._socket is not None and self._socket.close_code is not None:
            # The server ends a session in which nobody has asked for anything for long.
            self.close()
        if self._socket is None:
            self._socket = self._connect()
        return self._ask(reset_message(query_id, seed, policy=self.policy))

    def step(self, action: WireAction) -> EpisodeAnswer:
        """Do one step; the last one has the reward, unless the episode is void.

        Raises:
            EnvironmentFailure: there is no running episode, or it has become void.
        """
        if self._socket is None or self._last is None or self._last.done:
            raise EnvironmentFailure("no episode is under way; reset first")
        return self._ask(step_message(action))

    def finish(self) -> EpisodeAnswer:
        """The result of the episode; a running episode is ended, because the trainer makes no further step.

        Raises:
            EnvironmentFailure: there is none, or it has become void.
        """
        if self._last is not None and self._last.done:
            return self._last
        return self.step(WireAction(stop=True))

    def close(self) -> None:
        """End the session; a running episode becomes void. Closing twice is fine."""
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
            return connect(
                self._address,
                additional_headers=self._headers,
                max_size=MOST_MESSAGE_BYTES,
                open_timeout=self._seconds,
                proxy=None,
            )
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
