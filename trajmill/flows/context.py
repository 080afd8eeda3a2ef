"""What every stage is given: configuration, warehouse and round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version

from trajmill.flows.configuration.config import Config
from trajmill.pipelines.executors.beam import BeamSettings
from trajmill.pipelines.reading.episodes import attemptable, queries_of
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.warehouse.layout import StageRun, Warehouse


@dataclass(frozen=True)
class RoundContext:
    """One round of one run."""

    config: Config
    warehouse: Warehouse
    round: int
    run_id: str = ""
    """Id of the run. If it is empty, it is computed once from the configuration, which reads the user's files."""

    def __post_init__(self) -> None:
        if not self.run_id:
            object.__setattr__(self, "run_id", self.config.run_id)

    @property
    def origin(self) -> Origin:
        """Common columns of the rows made in this round."""
        return Origin(round=self.round, run_id=self.run_id, code_version=version("trajmill"))

    @property
    def rounds_so_far(self) -> range:
        """This round and those before it."""
        return range(self.round + 1)

    @property
    def beam(self) -> BeamSettings:
        """The settings of the Beam pipelines."""
        section = self.config.beam
        return BeamSettings(section.runner, section.options, section.restarts, section.silent_seconds)

    @property
    def environment(self) -> EnvironmentSpec:
        """The environment of the episodes."""
        return self.config.environment

    @property
    def queries(self) -> Mapping[str, Query]:
        """The run's queries that agents may attempt, by id, once they are generated."""
        return attemptable(self.all_queries)

    @property
    def all_queries(self) -> Mapping[str, Query]:
        """The run's queries by id, with those that are never attempted."""
        return queries_of(self.warehouse, self.run_id)

    def at(self, stage: str) -> StageRun:
        """A stage of this round."""
        return StageRun(self.run_id, self.round, stage)

    def in_round(self, number: int) -> RoundContext:
        """The same run in another round."""
        return replace(self, round=number)
