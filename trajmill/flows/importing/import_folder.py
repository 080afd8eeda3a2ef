"""Imports a folder of trajectories into the round that trains next, and judges them with the run's own judge."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, takewhile
from pathlib import Path
from typing import NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.flows.policies.policy import accepted_since_training
from trajmill.flows.progress import watched_work
from trajmill.flows.round import current_round
from trajmill.flows.serving.models_ready import models_ready, working_on
from trajmill.flows.stage import RoundContext, StageOutcome, has_begun, report_of, run_once
from trajmill.flows.tasks.generate import GENERATE
from trajmill.flows.tasks.judge import judge_all, trajectories_of_round
from trajmill.flows.tasks.release import DERIVE
from trajmill.pipelines.importing import write_recordings
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.judge import STAGE as JUDGE_STAGE
from trajmill.stages.importing.base import BadRecording, LayoutSpec
from trajmill.stages.importing.rows import HeldOut
from trajmill.warehouse.layout import ONLY_SHARD, StageRun, open_warehouse
from trajmill.warehouse.staging import ShardProgress, plan_items

IMPORT = "import"
_JUDGE = "judge_import"
_KB = 1024


class ImportReport(NamedTuple):
    round: int
    trajectories: int
    steps: int
    known: int
    bad: tuple[BadRecording, ...]
    judged: int
    accepted: int
    accepted_since_training: int
    """With all others since the last training."""


def import_folder(config: Config, layout: LayoutSpec, folder: Path) -> ImportReport:
    """Import a folder; what was imported before is left out, and an import that was stopped is ended first.

    Raises BadInputError (the folder has another layout, or the run has no queries yet), RunInUseError (another process
    works on the run).
    """
    files, run = layout.checked_lists(folder), RoundContext(config, open_warehouse(config.run.root), 1)
    warehouse, bad = run.warehouse, list[BadRecording]()
    with working_on(run):
        context = _landing_round(config)
        with models_ready(config, warehouse.run(run.run_id)):
            number = _finish_stopped(context)
            kilobytes = sum(file.stat().st_size for file in files) // _KB
            staged = context.at(_name(IMPORT, number)).staging(warehouse)
            plan_items(staged, kilobytes)
            with watched_work(warehouse, context.at(_name(IMPORT, number)), IMPORT, unit="KB"):
                advance = _in_kilobytes(ShardProgress(staged, ONLY_SHARD))

                def work(at: StageRun) -> StageOutcome:
                    found = (each for file in files for each in layout.read(file, folder))
                    held_out = HeldOut.of(context.all_queries.values(), config.queries.unseen_app_names)
                    kind = str(layout.model_dump()["kind"])
                    where = {"purpose": [Purpose.IMPORTED.value]}
                    imported = context.read("trajectories", ["trajectory_id"], where=where)["trajectory_id"]
                    known, origin = {*context.all_queries, *imported.to_pylist()}, context.origin
                    written, counts = write_recordings(warehouse, at, origin, kind, found, held_out, known, advance)
                    bad.extend(counts.bad)
                    result = {"trajectories": counts.trajectories, "steps": counts.steps, "known": counts.known}
                    rows_in = counts.trajectories + counts.known + len(counts.bad)
                    return StageOutcome(rows_in, counts.trajectories, written.files, result)

                landed = run_once(context, _name(IMPORT, number), work).result
            verdicts = _judge(context, number)
    counts = (landed["trajectories"], landed["steps"], landed["known"])
    accepted = accepted_since_training(context)
    return ImportReport(context.round, *counts, tuple(bad), len(verdicts), sum(verdicts), accepted)


def _in_kilobytes(counted: ShardProgress) -> Callable[[int], None]:
    done = 0

    def advance(more: int) -> None:
        nonlocal done
        before, done = done, done + more
        counted.add(done // _KB - before // _KB)

    return advance


def working_import(context: RoundContext) -> str | None:
    """Return the name of the last import of a round, or of its judging, if it is not finished."""
    names = (_name(stage, number) for number in count() for stage in (IMPORT, _JUDGE))
    begun = takewhile(lambda name: has_begun(context, name), names)
    return next((name for name in begun if report_of(context, name) is None), None)


def has_imports(context: RoundContext) -> bool:
    return report_of(context, _name(IMPORT, 0)) is not None


def _landing_round(config: Config) -> RoundContext:
    """Return the first round whose training data is not made yet."""
    context = current_round(config)
    if report_of(context.in_round(1), GENERATE) is None:
        reason = f"run {config.run_id} has no queries yet, so its held-out queries are unknown"
        raise BadInputError(f"{reason}: run `trajmill generate` first")
    return context.in_round(context.round + 1) if has_begun(context, DERIVE) else context


def _finish_stopped(context: RoundContext) -> int:
    """Judge an import that was committed and not judged; returns the number of the next import of the round."""
    number = 0
    while report_of(context, _name(IMPORT, number)) is not None:
        if report_of(context, _name(_JUDGE, number)) is None:
            _judge(context, number)
        number += 1
    return number


def _judge(context: RoundContext, number: int) -> list[bool]:
    """Judge the imported trajectories of the round that no judge has seen; returns their verdicts."""
    rounds, name = [context.round], _name(_JUDGE, number)
    failures = context.read("failures", ["input_id"], rounds, {"stage": [JUDGE_STAGE]})
    tried = {*context.correctness(rounds), *failures["input_id"].to_pylist()}
    new = [each for each in trajectories_of_round(context, Purpose.IMPORTED) if each not in tried]
    with watched_work(context.warehouse, context.at(name), _JUDGE):
        run_once(context, name, lambda at: judge_all(context, at, new))
    after = context.correctness(rounds)
    return [after[each] for each in new if each in after]


def _name(stage: str, number: int) -> str:
    return f"{stage}-{number:04d}"
