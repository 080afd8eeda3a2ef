"""Makes environments at OpenEnv servers; each one has its own session."""

from __future__ import annotations

from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.openenv.environment import OpenEnvEnvironment
from trajmill.stages.environments.openenv.session import ServerSessions


class OpenEnvServers:
    """Makes environments of one platform at several servers."""

    def __init__(self, sessions: ServerSessions, platform: Platform) -> None:
        self._sessions = sessions
        self._platform = platform

    async def __call__(self) -> OpenEnvEnvironment:
        """An environment at a server that can take another session.

        Raises:
            EnvironmentFailure: of class `setup`: no server can take another session in time.
        """
        return OpenEnvEnvironment(await self._sessions.open(), self._platform)

    async def close(self) -> None:
        """Do nothing, because each environment ends its own session."""
