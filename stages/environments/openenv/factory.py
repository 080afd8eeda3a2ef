"""Makes environments at OpenEnv servers, each in a session of its own."""

from __future__ import annotations

from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.openenv.environment import OpenEnvEnvironment
from trajmill.stages.environments.openenv.session import ServerSessions


class OpenEnvServers:
    """Servers whose environments are those of one platform."""

    def __init__(self, sessions: ServerSessions, platform: Platform) -> None:
        self._sessions = sessions
        self._platform = platform

    async def __call__(self) -> OpenEnvEnvironment:
        """An environment at a server that has room.

        Raises:
            EnvironmentFailure: of class `setup`: none has room in time.
        """
        return OpenEnvEnvironment(await self._sessions.open(), self._platform)

    async def close(self) -> None:
        """Do nothing: each environment ends its session itself."""
