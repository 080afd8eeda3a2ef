"""Does each stage once: a marker is written after its commit, and a stage with a marker is not done again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from importlib.metadata import version
from time import perf_counter
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict

from trajmill.flows.configuration.config import Config
from trajmill.pipelines.fan_out import BeamSettings, P, ShardWork, WrittenFiles, fan_out
from trajmill.pipelines.reading.episodes import attemptable, queries_of
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import Origin, Record
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.round_summary import StageCount
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.read import read_shards, read_table
from trajmill.warehouse.shards import DataFile
from trajmill.warehouse.staging import has_begun as stage_has_begun
from trajmill.warehouse.staging import mark_done, read_marker, stage_key, sweep


@dataclass(frozen=True)
class RoundContext:
    """One round of one run: its configuration and its warehouse."""

    config: Config
    warehouse: Warehouse
    round: int
    run_id: str = ""
    """Id of the run. If empty, it is computed once from the configuration, which reads the user's files."""

    def __post_init__(self) -> None:
        if not self.run_id:
            object.__setattr__(self, "run_id", self.config.run_id)

    @property
    def origin(self) -> Origin:
        """Common columns of the rows made in this round."""
        return Origin(round=self.round, run_id=self.run_id, code_version=version("trajmill"))

    @property
    def rounds_so_far(self) -> range:
        return range(self.round + 1)

    @property
    def beam(self) -> BeamSettings:
        section = self.config.beam
        return BeamSettings(section.runner, section.options, section.restarts, section.silent_seconds)

    @property
    def environment(self) -> EnvironmentSpec:
        return self.config.environment

    @property
    def queries(self) -> Mapping[str, Query]:
        """The run's queries that agents may attempt, by id, once they are generated."""
        return attemptable(self.all_queries)

    @property
    def all_queries(self) -> Mapping[str, Query]:
        """The run's queries by id, including those that are never attempted."""
        return queries_of(self.warehouse, self.run_id)

    def at(self, stage: str) -> StageRun:
        return StageRun(self.run_id, self.round, stage)

    def in_round(self, number: int) -> RoundContext:
        return replace(self, round=number)

    def read(self, table: str, columns: Sequence[str], rounds: Collection[int] | None = None) -> pa.Table:
        """Read columns of the run's rows of a table, of all rounds if None."""
        return read_table(self.warehouse, table, columns, rounds=rounds, run_id=self.run_id)

    def read_judgements(self, *columns: str, rounds: Collection[int] | None = None) -> pa.Table:
        """Read columns of the judgements of the run's own judge, of all rounds if None."""
        return read_verdicts(self.warehouse, "judgements", columns, rounds=rounds, run_id=self.run_id)

    def fan_out(self, at: StageRun, payloads: Sequence[P], work: ShardWork[P]) -> WrittenFiles:
        """Do the work of a stage on each payload, with the configured runner and workers."""
        return fan_out(self.warehouse, at, payloads, work, self.beam, self.config.rollout.workers)


def tuples(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


@dataclass(frozen=True)
class StageOutcome:
    """The result of a stage before its commit."""

    rows_in: int
    rows_out: int
    files: Mapping[str, Sequence[DataFile]] = field(default_factory=dict)
    """Shards to commit, by table."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """Small JSON values for later stages."""


@dataclass(frozen=True)
class Waiting:
    """A stage that needs something from outside before it can be done."""

    line: str
    """What it waits for, and what to do."""


@dataclass(frozen=True)
class StageReport:
    """A finished stage, or one that waits."""

    count: StageCount
    result: Mapping[str, Any] = field(default_factory=dict)
    waiting: str = ""
    """What it waits for, and what to do; the stage is not finished. Empty for a finished stage."""

    @classmethod
    def without_work(cls, stage: str, waiting: str = "") -> StageReport:
        """The report of a stage that waits, or that the configuration leaves out."""
        return cls(StageCount(stage=stage, rows_in=0, rows_out=0, seconds=0.0, cost=0.0), waiting=waiting)


class StageResult(Record):
    """A typed result of a stage; its fields are the keys in the stage's marker."""

    # Markers of other versions of trajmill may have further keys.
    model_config = ConfigDict(extra="ignore")

    @classmethod
    def of(cls, report: StageReport) -> Self:
        """Read the result of a finished stage from its report."""
        return cls.model_validate(report.result)

    def as_json(self) -> dict[str, Any]:
        """Return the values for the marker, without fields that were not given."""
        return self.model_dump(mode="json", exclude_unset=True)


class AwaitedError(TrajmillError):
    """A stage needs something from outside before it can be done; the message says what, and what to do."""


Work = Callable[[StageRun], StageOutcome | Waiting]
"""The work of a stage, given its run, round and name."""


def run_once(context: RoundContext, stage: str, work: Work) -> StageReport:
    """Do a stage, commit its rows and write its marker; if it has a marker already, return its report.

    A stage that waits gets no marker: the next call tries it again.
    """
    at, marked = context.at(stage), _marked(context, stage)
    folder = at.staging(context.warehouse)
    if marked is None:
        with disk_full_as_error(context.warehouse.root):
            start = perf_counter()
            try:
                outcome = work(at)
            except AwaitedError as error:
                outcome = Waiting(str(error))
            if isinstance(outcome, Waiting):
                return StageReport.without_work(stage, outcome.line)
            commit_start = perf_counter()
            commit_stage(context.warehouse, at, outcome.files)
            end = perf_counter()
            calls = read_shards(context.warehouse, "model_calls", outcome.files.get("model_calls", ()), ["price"])
            marked = {
                "rows_in": outcome.rows_in,
                "rows_out": outcome.rows_out,
                "seconds": end - start,
                "commit_seconds": end - commit_start,
                "cost": float(sum(pc.sum(table.column(0)).as_py() or 0.0 for table in calls)),
                "result": dict(outcome.result),
            }
        mark_done(context.warehouse, folder, _key(context, stage), marked)
    sweep(context.warehouse, folder)
    return _report(stage, marked)


def once(
    stage: str, fixed_round: int | None = None
) -> Callable[[Callable[[RoundContext, StageRun], StageOutcome | Waiting]], Callable[[RoundContext], StageReport]]:
    """Decorate the work of a stage: it runs once per round, or once per run in a fixed round."""

    def decorate(
        work: Callable[[RoundContext, StageRun], StageOutcome | Waiting],
    ) -> Callable[[RoundContext], StageReport]:
        @wraps(work)
        def do(context: RoundContext) -> StageReport:
            within = context if fixed_round is None else context.in_round(fixed_round)
            return run_once(within, stage, partial(work, within))

        return do

    return decorate


def report_of(context: RoundContext, stage: str) -> StageReport | None:
    """Return the report of a stage of this round; None if the stage is not finished."""
    marked = _marked(context, stage)
    return None if marked is None else _report(stage, marked)


def has_begun(context: RoundContext, stage: str) -> bool:
    """Whether a stage of this round has begun, and may be finished."""
    return stage_has_begun(context.warehouse, context.at(stage).staging(context.warehouse))


def finished(context: RoundContext, stage: str) -> StageReport:
    """Return the report of a finished stage of this round. Raises TrajmillError if it is not finished."""
    report = report_of(context, stage)
    if report is None:
        raise TrajmillError(
            f"stage {stage} of round {context.round} of run {context.run_id} is not finished; run `trajmill evolve`"
        )
    return report


def _key(context: RoundContext, stage: str) -> str:
    return stage_key(stage, context.run_id, context.round)


def _marked(context: RoundContext, stage: str) -> dict[str, Any] | None:
    folder = context.at(stage).staging(context.warehouse)
    return read_marker(context.warehouse, folder, _key(context, stage))


def _report(stage: str, marked: Mapping[str, Any]) -> StageReport:
    counts = {name: marked[name] for name in ("rows_in", "rows_out", "seconds", "cost")}
    return StageReport(StageCount(stage=stage, **counts), marked["result"])
