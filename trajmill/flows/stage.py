"""Does each stage once: a marker is written after its commit, and a stage with a marker is not done again."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from time import perf_counter
from typing import Any, Self, TypeVar

import pyarrow as pa
from pydantic import ConfigDict

from trajmill.flows.configuration.config import Config
from trajmill.flows.progress import watched_work
from trajmill.pipelines.executors.cluster import check_workers
from trajmill.pipelines.fan_out import P, StageWork, WrittenFiles, fan_out
from trajmill.pipelines.reading.episodes import queries_of, read_verdicts
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import Origin, Record, Row
from trajmill.schemas.tables.policy_version import StageCount
from trajmill.schemas.tables.query import INFEASIBLE, RECORDED, Query
from trajmill.schemas.tables.registry import arrow_schema, rows_from_arrow
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.delta_log import one_snapshot
from trajmill.warehouse.layout import ONLY_SHARD, StageRun, Warehouse, create_warehouse
from trajmill.warehouse.read import read_rows, read_shards, read_table, table_of, tuples
from trajmill.warehouse.shards import DataFile, write_tables
from trajmill.warehouse.staging import has_begun as stage_has_begun
from trajmill.warehouse.staging import mark_done, read_marker, stage_key, sweep

_BATCH = "batch.json"
R = TypeVar("R", bound=Row)
TableFiles = Mapping[str, Sequence[DataFile]]


@dataclass(frozen=True)
class RoundContext:
    config: Config
    warehouse: Warehouse
    round: int
    run_id: str = ""
    """Id of the run; if empty, it is computed from the configuration, which reads the user's files."""
    reports: dict[StageRun, StageReport] = field(default_factory=dict, compare=False, repr=False)
    """Of finished stages, which never change; a bucket is asked once for each."""

    def __post_init__(self) -> None:
        if not self.run_id:
            object.__setattr__(self, "run_id", self.config.run_id)

    @classmethod
    def of(cls, config: Config, number: int = 1) -> RoundContext:
        return cls(config, create_warehouse(config.run.root), number)

    @property
    def origin(self) -> Origin:
        return Origin(round=self.round, run_id=self.run_id, code_version=version("trajmill"))

    @property
    def queries(self) -> Mapping[str, Query]:
        """The run's queries that agents may attempt, by id: all but those of recordings and refused proposals."""
        queries = self.all_queries
        return {name: query for name, query in queries.items() if query.validation not in (RECORDED, INFEASIBLE)}

    @property
    def all_queries(self) -> Mapping[str, Query]:
        """The run's queries by id, including those that are never attempted."""
        return queries_of(self.warehouse, self.run_id)

    @property
    def workers(self) -> int:
        """How many workers share a stage now. Raises BadInputError if no cluster answers."""
        return self.config.beam.workers(self.config.rollout.workers)

    def at(self, stage: str) -> StageRun:
        return StageRun(self.run_id, self.round, stage)

    def common(self, at: StageRun) -> dict[str, Any]:
        """Keyword arguments for the common fields of a `StageWork`."""
        return {"warehouse": self.warehouse, "at": at, "origin": self.origin}

    def in_round(self, number: int) -> RoundContext:
        return replace(self, round=number)

    def read(
        self,
        table: str,
        columns: Sequence[str],
        rounds: Collection[int] | None = None,
        where: Mapping[str, Collection[str]] | None = None,
    ) -> pa.Table:
        """Read columns of the run's rows of a table, of all rounds if None; `where` has wanted values by column."""
        return read_table(self.warehouse, table, columns, rounds=rounds, run_id=self.run_id, where=where)

    def read_judgements(self, *columns: str, rounds: Collection[int] | None = None) -> pa.Table:
        """Read columns of the judgements of the run's own judge, of all rounds if None."""
        return read_verdicts(self.warehouse, "judgements", columns, rounds=rounds, run_id=self.run_id)

    def correctness(self, rounds: Collection[int] | None = None) -> dict[str, bool]:
        """Return what the run's own judge has decided, by trajectory."""
        return dict(tuples(self.read_judgements("trajectory_id", "correct", rounds=rounds)))

    def rows(self, record: type[R], rounds: Collection[int] | None = None) -> list[R]:
        """Read the run's rows of a record's table, of all rounds if None."""
        return read_rows(self.warehouse, record, rounds=rounds, run_id=self.run_id)

    def write(self, at: StageRun, rows: Mapping[str, Sequence[Row]], shard: str = ONLY_SHARD) -> TableFiles:
        return write_tables(self.warehouse, at, rows, shard)

    def written(self, table: str, files: TableFiles, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield columns of the rows of a table that a stage has written, and not committed yet."""
        return tuples(read_shards(self.warehouse, table, files.get(table, ()), columns))

    def written_rows(self, record: type[R], files: TableFiles) -> list[R]:
        """Read the rows of a record's table that a stage has written, and not committed yet."""
        table = table_of(record)
        written = read_shards(self.warehouse, table, files.get(table, ()), arrow_schema(table).names)
        return rows_from_arrow(record, written)

    def fan_out(
        self, work: StageWork[P], payloads: Sequence[P], workers: int = 0, screens_by: str = ""
    ) -> WrittenFiles:
        """Do the work of a stage on each payload, with the configured runner and, if 0, the configured workers.

        Raises BadInputError before the stage begins if a worker of a cluster cannot work.
        """
        check_workers(self.config.beam, self.warehouse.store)
        return fan_out(work, payloads, self.config.beam, workers or self.config.rollout.workers, screens_by)


@dataclass(frozen=True)
class StageOutcome:
    rows_in: int
    rows_out: int
    files: TableFiles = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StageReport:
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
        return cls.model_validate(report.result)

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_unset=True)


class AwaitedError(TrajmillError):
    """A stage needs something from outside before it can be done; the message names it, and what to do."""


Work = Callable[[RoundContext, StageRun], StageOutcome]


@dataclass(frozen=True)
class Stage:
    """A stage of a round; calling it does its work once per round, or once per run in its fixed round."""

    name: str
    command: str
    """The command that runs it, alone or with its neighbours; empty for a stage outside the loop."""
    work: Work
    fixed_round: int | None = None
    """The round of its rows if the stage is done once for all rounds; None: the round that runs it."""
    is_wanted: Callable[[Config], bool] = lambda config: True
    unit: str = "rows"
    """What its progress counts."""

    def in_its_round(self, context: RoundContext) -> RoundContext:
        return context if self.fixed_round is None else context.in_round(self.fixed_round)

    def __call__(self, context: RoundContext) -> StageReport:
        within = self.in_its_round(context)
        return run_once(within, self.name, partial(self.work, within), self.unit)


def stage(name: str, command: str = "", **more: Any) -> Callable[[Work], Stage]:
    return lambda work: Stage(name, command, work, **more)


def run_once(
    context: RoundContext, stage: str, work: Callable[[StageRun], StageOutcome], unit: str = ""
) -> StageReport:
    """Do, commit and mark a stage that has no marker; one that raises AwaitedError is tried again at the next call.

    With a `unit` its progress is shown.
    """
    warehouse, at = context.warehouse, context.at(stage)
    if (report := report_of(context, stage)) is None:
        shown = watched_work(warehouse, at, stage, unit) if unit else nullcontext()
        with one_snapshot(), shown, disk_full_as_error(warehouse.root):
            start = perf_counter()
            try:
                outcome = work(at)
            except AwaitedError as error:
                return StageReport.without_work(stage, str(error))
            commit_stage(warehouse, at, outcome.files)
            prices = [price or 0.0 for (price,) in context.written("model_calls", outcome.files, ["price"])]
            marked = {
                "rows_in": outcome.rows_in,
                "rows_out": outcome.rows_out,
                "seconds": perf_counter() - start,
                "cost": sum(prices, 0.0),
                "result": dict(outcome.result),
            }
        key = stage_key(stage, context.run_id, context.round)
        report = context.reports[at] = _report(stage, mark_done(warehouse, at.staging(warehouse), key, marked))
    sweep(warehouse, at.staging(warehouse))
    return report


def report_of(context: RoundContext, stage: str) -> StageReport | None:
    at, key = context.at(stage), stage_key(stage, context.run_id, context.round)
    if at not in context.reports and (marked := read_marker(context.warehouse, at.staging(context.warehouse), key)):
        context.reports[at] = _report(stage, marked)
    return context.reports.get(at)


def _report(stage: str, marked: Mapping[str, Any]) -> StageReport:
    counts = {name: marked[name] for name in ("rows_in", "rows_out", "seconds", "cost")}
    return StageReport(StageCount(stage=stage, **counts), marked["result"])


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


def do_batches(
    context: RoundContext,
    stage: str,
    identity: str,
    shown_as: str,
    remaining: Callable[[Sequence[Mapping[str, Any]]], Any],
    work: Callable[[StageRun, Any], tuple[WrittenFiles, Mapping[str, Any]]],
) -> None:
    """Do work on stored trajectories in batches, each once; a later call does only what is new.

    A batch has its list stored before its work starts, and its marker after its commit: a killed batch is finished by
    the next call, with the same list. `remaining` returns the items that are left, as JSON values, given the results of
    the finished batches; `work` writes the files of a batch, and its result goes into its marker, under `identity`.
    """
    warehouse, results, is_new = context.warehouse, list[Mapping[str, Any]](), False
    while True:
        at = StageRun(context.run_id, context.round, stage, len(results))
        folder, key = at.staging(warehouse), stage_key(identity, context.run_id, [context.round, len(results)])
        if (marked := read_marker(warehouse, folder, key)) is not None:
            results.append(marked)
            continue
        begun = warehouse.store.get(warehouse.name(folder / _BATCH))
        if begun is None:
            if is_new or not (items := remaining(results)):
                return
            is_new, begun = True, json.dumps(items).encode()
            warehouse.store.put(warehouse.name(folder / _BATCH), begun)
        items = json.loads(begun)
        with disk_full_as_error(warehouse.root), watched_work(warehouse, at, shown_as):
            made, result = work(at, items)
            commit_stage(warehouse, at, made.files)
        results.append(mark_done(warehouse, folder, key, result))
        sweep(warehouse, folder)
