"""The spec of environments at OpenEnv servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.spec import OPERATIONAL
from trajmill.stages.environments.spec import FixedTasksSpec, MissingKey

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.tasks import ImportedQueries


class OpenEnvSpec(FixedTasksSpec):
    """Environments that run at servers of `trajmill env serve`, or at other servers with the same fields."""

    kind: Literal["openenv"] = "openenv"
    """Environments at servers of the OpenEnv protocol."""
    servers: Annotated[tuple[str, ...], OPERATIONAL] = ()
    """Their addresses, e.g. `http://10.0.0.7:8000`; all serve the same queries."""
    token_file: Annotated[Path | None, OPERATIONAL] = None
    """File with the token that the servers ask for; without a file, no token is sent."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.openenv.environment import ServerSessions

        return ServerSessions(self.servers, self._token(), platform=platform)

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        from trajmill.stages.environments.openenv.environment import served_queries
        from trajmill.stages.environments.tasks import ImportedQueries

        return ImportedQueries(await served_queries(self.servers, self._token(), origin), [])

    def missing(self, other_queries: bool) -> list[MissingKey]:
        return [] if self.servers else [MissingKey("servers", 'is missing: write e.g. ["http://10.0.0.7:8000"]')]

    def _token(self) -> str:
        return "" if self.token_file is None else read_token(self.token_file)


def read_token(file: Path) -> str:
    """The token in a file. Raises BadInputError if the file cannot be read, or it has not exactly one short line."""
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file}: {error}; name a file with the token in one line") from error
    if not token or len(token) > 1000 or not token.isprintable() or " " in token:
        raise BadInputError(f"{file}: no token; write at most 1,000 letters, digits and signs in one line")
    return token
