"""Does each stage once: a marker is written after its commit, and a stage with a marker is not done again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Self

import pyarrow.compute as pc
from pydantic import ConfigDict

from trajmill.flows.context import RoundContext
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import Record
from trajmill.schemas.tables.round_summary import StageCount
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_shards
from trajmill.warehouse.shards import DataFile
from trajmill.warehouse.staging import has_begun as stage_has_begun
from trajmill.warehouse.staging import mark_done, read_marker, stage_key, sweep


@dataclass(frozen=True)
class StageOutcome:
    """The result of a stage before its commit."""

    rows_in: int
    rows_out: int
    files: Mapping[str, Sequence[DataFile]] = field(default_factory=dict)
    """Shards to commit, by table."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """Small JSON values that later stages ask for."""


@dataclass(frozen=True)
class Waiting:
    """A stage that cannot be done yet, because it needs something from outside."""

    line: str
    """What it waits for, and what to do."""


@dataclass(frozen=True)
class StageReport:
    """A finished stage, or one that waits."""

    count: StageCount
    result: Mapping[str, Any]
    waiting: str = ""
    """What it waits for, and what to do; the stage is not finished. Empty for a finished stage."""


class StageResult(Record):
    """A typed result of a stage; its fields are the keys in the stage's marker."""

    # Markers of other versions of trajmill may have further keys.
    model_config = ConfigDict(extra="ignore")

    @classmethod
    def of(cls, report: StageReport) -> Self:
        """Read the result of a finished stage from its report."""
        return cls.model_validate(report.result)

    def as_json(self) -> dict[str, Any]:
        """Return the values for the marker; fields that were not given are left out."""
        return self.model_dump(mode="json", exclude_unset=True)


class AwaitedError(TrajmillError):
    """A stage needs something from outside before it can be done; the message says what, and what to do."""


Work = Callable[[StageRun], StageOutcome | Waiting]
"""Does the work of a stage; is given its run, round and name."""


def run_once(context: RoundContext, stage: str, work: Work) -> StageReport:
    """Do a stage, commit its rows and write its marker; if there is a marker already, return its report.

    A stage that waits gets no marker: the next call asks it again.
    """
    at = context.at(stage)
    folder = at.staging(context.warehouse)
    key = stage_key(stage, context.run_id, context.round)
    marked = read_marker(context.warehouse, folder, key)
    if marked is None:
        with disk_full_as_error(context.warehouse.root):
            done = _do(context, at, work)
        if isinstance(done, Waiting):
            return StageReport(StageCount(stage=stage, rows_in=0, rows_out=0, seconds=0.0, cost=0.0), {}, done.line)
        marked = done
        mark_done(context.warehouse, folder, key, marked)
    sweep(context.warehouse, folder)
    return _report(stage, marked)


def _do(context: RoundContext, at: StageRun, work: Work) -> dict[str, Any] | Waiting:
    start = perf_counter()
    try:
        outcome = work(at)
    except AwaitedError as error:
        return Waiting(str(error))
    if isinstance(outcome, Waiting):
        return outcome
    commit_start = perf_counter()
    commit_stage(context.warehouse, at, outcome.files)
    end = perf_counter()
    return {
        "rows_in": outcome.rows_in,
        "rows_out": outcome.rows_out,
        "seconds": end - start,
        "commit_seconds": end - commit_start,
        "cost": _cost(context, outcome.files.get("model_calls", ())),
        "result": dict(outcome.result),
    }


def _cost(context: RoundContext, model_calls: Sequence[DataFile]) -> float:
    """The price of the model calls of a stage."""
    prices = read_shards(context.warehouse, "model_calls", model_calls, ["price"])
    return float(sum(pc.sum(table.column(0)).as_py() or 0.0 for table in prices))


def report_of(context: RoundContext, stage: str) -> StageReport | None:
    """The report of a stage of this round; None if the stage is not finished."""
    at = context.at(stage)
    marked = read_marker(
        context.warehouse, at.staging(context.warehouse), stage_key(stage, context.run_id, context.round)
    )
    return None if marked is None else _report(stage, marked)


def has_begun(context: RoundContext, stage: str) -> bool:
    """Whether a stage of this round has begun, and may be finished."""
    return stage_has_begun(context.warehouse, context.at(stage).staging(context.warehouse))


def finished(context: RoundContext, stage: str) -> StageReport:
    """The report of a finished stage of this round.

    Raises:
        TrajmillError: it is not finished.
    """
    report = report_of(context, stage)
    if report is None:
        raise TrajmillError(
            f"stage {stage} of round {context.round} of run {context.run_id} is not finished; run `trajmill evolve`"
        )
    return report


def _report(stage: str, marked: Mapping[str, Any]) -> StageReport:
    counts = {name: marked[name] for name in ("rows_in", "rows_out", "seconds", "cost")}
    count = StageCount(stage=stage, **counts)
    return StageReport(count, marked["result"])
