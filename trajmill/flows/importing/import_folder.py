"""Imports a folder of trajectories into the round that trains next, and judges them with the run's own judge."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, takewhile
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.landed_event import accepted_since_training
from trajmill.flows.progress import Advance, progress
from trajmill.flows.round import current_round
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import StageOutcome, StageReport, has_begun, report_of, run_once
from trajmill.flows.tasks.derive import DERIVE
from trajmill.flows.tasks.generate import GENERATE
from trajmill.flows.tasks.judge import judge_all
from trajmill.flows.tasks.watched import watched_work
from trajmill.pipelines.importing.write import write_recordings
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.judge import STAGE as JUDGE_STAGE
from trajmill.stages.importing.base import BadRecording, LayoutSpec, ReadRecording
from trajmill.stages.importing.rows import HeldOut
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.layout import ONLY_SHARD, StageRun, create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.read import read_table
from trajmill.warehouse.staging import ShardProgress, plan_items
from trajmill.warehouse.views import refresh_views

IMPORT = "import"
_JUDGE = "judge_import"
_KB = 1024


class ImportReport(NamedTuple):
    """What an import has brought."""

    round: int
    """The round that its rows belong to."""
    trajectories: int
    steps: int
    known: int
    """Recordings that were there already."""
    bad: tuple[BadRecording, ...]
    judged: int
    accepted: int
    """Of these, the ones that the judge called correct."""
    accepted_since_training: int
    """With all others since the last training."""


class _Judged(NamedTuple):
    judged: int
    accepted: int


def import_folder(config: Config, layout: LayoutSpec, folder: Path) -> ImportReport:
    """Import a folder; what was imported before is left out, and an import that was stopped is ended first.

    Raises:
        BadInputError: the folder has another layout, or the run has no queries yet.
        RunInUseError: another process works on the run.
    """
    files = layout.checked_lists(folder)
    warehouse = create_warehouse(config.run.root)
    logs = warehouse.run(config.run_id)
    with sole_worker(warehouse, config.run_id), disk_full_as_error(warehouse.root), ExitStack() as stack:
        context = _landing_round(config)
        stack.enter_context(models_ready(config, logs))
        number = _finish_stopped(context)
        total = sum(file.stat().st_size for file in files) // _KB
        with _watched_import(context, number, total) as advance:
            found = (each for file in files for each in layout.read(file, folder))
            bad: list[BadRecording] = []
            landed = _land(context, number, layout, found, bad, _in_kilobytes(advance))
        judged = _judge(context, number)
        refresh_views(warehouse)
    result = landed.result
    return ImportReport(
        context.round,
        result["trajectories"],
        result["steps"],
        result["known"],
        tuple(bad),
        judged.judged,
        judged.accepted,
        accepted_since_training(config),
    )


@contextmanager
def _watched_import(context: RoundContext, number: int, kilobytes: int) -> Iterator[Advance]:
    """Show how much is read, here and to `trajmill status`."""
    folder = context.at(_name(IMPORT, number)).staging(context.warehouse)
    plan_items(folder, kilobytes)
    counted = ShardProgress(folder, ONLY_SHARD)
    with progress().stage(context.round, IMPORT, kilobytes, "KB") as advance_bar:

        def advance(more: int, *, total: int | None = None) -> None:
            counted.add(more)
            advance_bar(more, total=total)

        yield advance


def working_import(context: RoundContext) -> str | None:
    """The name of the last import of a round, or of its judging, if it is not finished; None if nothing is imported."""
    names = (_name(stage, number) for number in count() for stage in (IMPORT, _JUDGE))
    begun = list(takewhile(lambda name: has_begun(context, name), names))
    return next((name for name in begun if report_of(context, name) is None), None)


def _in_kilobytes(advance: Advance) -> Advance:
    """Takes bytes, and passes on whole kilobytes."""
    done = 0

    def advance_bytes(more: int, *, total: int | None = None) -> None:
        nonlocal done
        before, done = done, done + more
        advance(done // _KB - before // _KB)

    return advance_bytes


def has_imports(context: RoundContext) -> bool:
    """Whether something was imported into a round."""
    return report_of(context, _name(IMPORT, 0)) is not None


def _landing_round(config: Config) -> RoundContext:
    """The first round whose training data is not made yet."""
    context = current_round(config)
    if report_of(context.in_round(1), GENERATE) is None:
        raise BadInputError(
            f"run {config.run_id} has no queries yet, so nothing says what is held out from training: "
            "run `trajmill generate` first"
        )
    return context.in_round(context.round + 1) if has_begun(context, DERIVE) else context


def _finish_stopped(context: RoundContext) -> int:
    """Judge an import that was committed and not judged; returns the number of the next import of the round."""
    for number in count():
        if report_of(context, _name(_JUDGE, number)) is not None:
            continue
        if report_of(context, _name(IMPORT, number)) is None:
            return number
        _judge(context, number)
    raise AssertionError("unreachable")


def _land(
    context: RoundContext,
    number: int,
    layout: LayoutSpec,
    found: Iterator[ReadRecording],
    bad: list[BadRecording],
    advance: Advance,
) -> StageReport:
    def work(at: StageRun) -> StageOutcome:
        held_out = HeldOut.of(context.all_queries.values(), context.config.queries.unseen_app_names)
        kind = str(layout.model_dump()["kind"])
        files, counts = write_recordings(
            context.warehouse, at, context.origin, kind, found, held_out, _known(context), advance
        )
        bad.extend(counts.bad)
        result = {"trajectories": counts.trajectories, "steps": counts.steps, "known": counts.known}
        rows_in = counts.trajectories + counts.known + len(counts.bad)
        return StageOutcome(rows_in, counts.trajectories, files.files, result)

    return run_once(context, _name(IMPORT, number), work)


def _known(context: RoundContext) -> set[str]:
    """Ids of the queries and imported trajectories of the run."""
    return {*context.all_queries, *_imported(context, None)}


def _imported(context: RoundContext, rounds: Collection[int] | None) -> list[str]:
    """Ids of the imported trajectories of the run, sorted, or of some of its rounds."""
    columns = ["trajectory_id", "purpose"]
    rows = read_table(context.warehouse, "trajectories", columns, rounds=rounds, run_id=context.run_id).to_pydict()
    pairs = zip(rows["trajectory_id"], rows["purpose"], strict=True)
    return sorted(name for name, purpose in pairs if purpose == Purpose.IMPORTED)


def _judge(context: RoundContext, number: int) -> _Judged:
    """Judge the imported trajectories of the round that no judge has seen."""
    rounds = [context.round]
    failures = read_table(context.warehouse, "failures", ["stage", "input_id"], rounds=rounds, run_id=context.run_id)
    tried = set(failures["input_id"].filter(pc.equal(failures["stage"], JUDGE_STAGE)).to_pylist())
    new = [name for name in _imported(context, rounds) if name not in tried | _judgements(context).keys()]
    with watched_work(context.warehouse, context.at(_name(_JUDGE, number)), _JUDGE):
        judge_all(context, _name(_JUDGE, number), new)
    judged = [correct for name, correct in _judgements(context).items() if name in set(new)]
    return _Judged(len(judged), sum(judged))


def _judgements(context: RoundContext) -> dict[str, bool]:
    """By trajectory, what the run's own judge said in this round."""
    columns = ["trajectory_id", "correct"]
    rows = read_verdicts(context.warehouse, "judgements", columns, rounds=[context.round], run_id=context.run_id)
    return dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _name(stage: str, number: int) -> str:
    return f"{stage}-{number:04d}"
