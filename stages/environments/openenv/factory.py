"""Makes environments at OpenEnv servers: each a session at the server that has the fewest of ours."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from time import monotonic
from typing import NamedTuple

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.openenv.answers import ServerBusy
from trajmill.stages.environments.openenv.environment import OpenEnvEnvironment
from trajmill.stages.environments.openenv.session import ServerSession, open_session
from trajmill.stages.environments.pool.machines import POLL_SECONDS


class ServerTimeouts(NamedTuple):
    """How long servers may take, in seconds."""

    connect: float = 10.0
    lease: float = 60.0
    """Until one of them has room, where none is used here."""


class OpenEnvServers:
    """A session is a lease: the server has room again once it is closed, or its process has ended in any way."""

    def __init__(
        self, servers: tuple[str, ...], token: str, platform: Platform, timeouts: ServerTimeouts = ServerTimeouts()
    ) -> None:
        """Connect to nothing yet.

        Args:
            servers: their addresses.
            token: that they want, empty for none.
            platform: of the environments.
            timeouts: how long they may take.
        """
        self._token = token
        self._platform = platform
        self._timeouts = timeouts
        self._sessions = Counter(dict.fromkeys(servers, 0))
        """Open sessions by server."""

    async def __call__(self) -> OpenEnvEnvironment:
        """An environment at a server that has room. Where we hold some already, nobody waits for another.

        Raises:
            EnvironmentFailure: of class `setup`: no server has room in time.
        """
        deadline = monotonic() + self._timeouts.lease
        while True:
            troubles: list[str] = []
            for url in sorted(self._sessions, key=lambda url: self._sessions[url]):
                session = await self._open(url, troubles)
                if session is not None:
                    return OpenEnvEnvironment(session, self._platform, partial(self._give_back, url))
            if self._sessions.total() or monotonic() > deadline:
                text = f"no environment server is free: {'; '.join(troubles)}; name more servers, or run fewer episodes"
                raise EnvironmentFailure(text, FailureClass.SETUP)
            await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        """Do nothing: each environment ends its session itself."""

    async def _open(self, url: str, troubles: list[str]) -> ServerSession | None:
        # Counted at once, so that those who start at the same time go to other servers.
        self._sessions[url] += 1
        try:
            return await open_session(url, self._token, self._timeouts.connect)
        except ServerBusy:
            troubles.append(f"{url} is full")
        except EnvironmentFailure as error:
            troubles.append(str(error))
        except BaseException:
            self._give_back(url)
            raise
        self._give_back(url)
        return None

    def _give_back(self, url: str) -> None:
        self._sessions[url] -= 1
