"""The stages of one round, in order. A finished stage is not done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import groupby

from trajmill.flows.beside import beside
from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.policies.choice import adopt_configured, names_another_policy
from trajmill.flows.policies.policy import PROMOTE
from trajmill.flows.round_stages import COMMANDS, RoundStage, asks_models, needed_before, stages_of
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import StageReport, has_begun, report_of
from trajmill.flows.tasks.planned import watched
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.nearest import instead_of
from trajmill.schemas.tables.round_summary import RoundSummary
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.views import refresh_views

DoStage = Callable[[RoundStage, RoundContext], StageReport]


def do_stages(context: RoundContext, do: DoStage, ahead: RoundContext | None = None) -> str:
    """Do the stages of a round in order; returns what a stage waits for, empty if all are finished.

    Args:
        context: the round.
        do: does one stage.
        ahead: a round that is rolled out beside the stages that may overlap; None for none.
    """
    for may_overlap, stages in groupby(stages_of(context.config), lambda stage: stage.may_overlap):
        with _rollout(ahead, do) if may_overlap and ahead is not None else nullcontext():
            for stage in stages:
                report = do(stage, context)
                if report.waiting:
                    return report.waiting
    return ""


@contextmanager
def _rollout(context: RoundContext, do: DoStage) -> Iterator[None]:
    """Roll out a round beside the block; the stages before it, which add queries, are done first."""
    *first, last = (stage for stage in stages_of(context.config) if stage.command == "rollout")
    for stage in first:
        do(stage, context)
    with beside(partial(do, last, context)):
        yield


def rolled_out_ahead(context: RoundContext) -> RoundContext | None:
    """The next round if its rollout begins while this round's policy trains, or has begun so before; else None.

    It does not begin where it would have to act with another policy than that of this round.
    """
    following = context.in_round(context.round + 1)
    if has_begun(following, ROLLOUT):
        return following
    run = context.config.run
    wanted = run.asynchronous and context.round < run.rounds and not names_another_policy(context)
    return following if wanted else None


def do_stage(stage: RoundStage, context: RoundContext) -> StageReport:
    """Do one stage and show its progress; a stage that is done already only returns its report."""
    done = report_of(stage.in_its_round(context), stage.name)
    if done is not None:
        return done
    with watched(stage.in_its_round(context), stage.name):
        return stage.work(context)


def run_stage(name: str, config: Config) -> StageReport:
    """Do the stages of one command in the current round, i.e. the first unfinished one.

    Raises:
        BadInputError: there is no such command, or a stage that it needs is not finished.
        RunInUseError: another process works on the run.
    """
    if name not in COMMANDS:
        raise BadInputError(f"there is no stage {name!r}; {instead_of(name, COMMANDS)}")
    warehouse = create_warehouse(config.run.root)
    models = models_ready(config, warehouse.run(config.run_id)) if asks_models(name) else nullcontext()
    with sole_worker(warehouse, config.run_id), models:
        return run_command(name, current_round(config))


def run_command(name: str, context: RoundContext) -> StageReport:
    """Do the stages of one command in a round; returns the report of the last one, or of the one that waits.

    Raises:
        BadInputError: a stage that it needs is not finished.
    """
    for needed in needed_before(name):
        if report_of(needed.in_its_round(context), needed.name) is None:
            raise BadInputError(
                f"round {context.round} of run {context.run_id}: stage {needed.name!r} is not finished; "
                f"run `trajmill {needed.command}` first"
            )
    adopt_configured(context)
    for stage in stages_of(context.config):
        if stage.command == name:
            report = do_stage(stage, context)
            if report.waiting:
                break
    refresh_views(context.warehouse)
    return report


def current_round(config: Config) -> RoundContext:
    """The first round of the run that is not finished."""
    return first_unfinished(RoundContext(config, create_warehouse(config.run.root), 1))


def first_unfinished(context: RoundContext) -> RoundContext:
    """The first round that is not finished, of a round and those after it."""
    while report_of(context, PROMOTE) is not None:
        context = context.in_round(context.round + 1)
    return context


def summary_of(context: RoundContext) -> RoundSummary:
    """The figures of a finished round.

    Raises:
        TrajmillError: the round is not finished.
    """
    rows = read_rows(context.warehouse, RoundSummary, rounds=[context.round], run_id=context.run_id)
    if not rows:
        raise TrajmillError(f"round {context.round} of run {context.run_id} is not finished; run `trajmill evolve`")
    return rows[0]
