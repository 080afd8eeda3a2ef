"""Walks queries of any platform in the environment of a run."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.queries.live.base import STAGE
from trajmill.stages.queries.real_walk import WalkedQueries, walk_all


class QueryWalker:
    """Walks queries of any platform; the environments of a platform have one factory."""

    def __init__(self, environment: EnvironmentSpec, instances: int, origin: Origin) -> None:
        self._environment, self._instances, self._origin = environment, instances, origin
        self._factories: dict[Platform, EnvironmentFactory] = {}

    async def walk(self, queries: Sequence[Query]) -> WalkedQueries:
        """Walk queries, those of one platform after the other."""
        walked = WalkedQueries((), ())
        for platform in dict.fromkeys(query.platform for query in queries):
            factory = self._factories.setdefault(platform, self._environment.factory(platform))
            of_platform = [query for query in queries if query.platform is platform]
            done = await walk_all(factory, of_platform, STAGE, self._origin, self._instances)
            walked = WalkedQueries((*walked.queries, *done.queries), (*walked.failures, *done.failures))
        return walked

    async def close(self) -> None:
        """Free all environments."""
        for factory in self._factories.values():
            await factory.close()
