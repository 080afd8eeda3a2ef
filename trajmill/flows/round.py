"""The stages of a round, in their order, and how they are done; a finished stage is not done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from itertools import groupby
from threading import Thread
from typing import NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.flows.interrupt import asked_to_stop
from trajmill.flows.policies.choice import adopt_configured, names_another_policy
from trajmill.flows.policies.policy import BASELINE, PROMOTE
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import RoundContext, StageReport, has_begun, report_of
from trajmill.flows.tasks.derive import DERIVE, DERIVE_KIND, DERIVE_RL, derive, derive_for_training, derive_rl
from trajmill.flows.tasks.evaluate import EVALUATE, baseline, evaluate, measured_queries, promote
from trajmill.flows.tasks.generate import FRESH, GENERATE, fresh, generate
from trajmill.flows.tasks.guide import GUIDE, GUIDED, REFERENCE, guide, reference, rollout_guided
from trajmill.flows.tasks.judge import CALIBRATE, JUDGE, JUDGE_GUIDED, calibrate_judge, judge, judge_guided
from trajmill.flows.tasks.proposals import (
    PROPOSE,
    TRY_PROPOSALS,
    asks_for_tasks,
    propose,
    tries_proposals,
    try_proposals,
)
from trajmill.flows.tasks.release import RELEASE, release
from trajmill.flows.tasks.rollout import ROLLOUT, rollout
from trajmill.flows.tasks.train import TRAIN, train
from trajmill.flows.tasks.watched import StageCounter, watched_work
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.names import instead_of
from trajmill.schemas.tables.round_summary import RoundSummary
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.views import refresh_views


class RoundStage(NamedTuple):
    name: str
    command: str
    """The command that runs it, alone or with its neighbours."""
    needs: tuple[str, ...]
    """The stages that must be finished before it."""
    work: Callable[[RoundContext], StageReport]
    asks_models: bool = False
    """Whether it calls models of `[models]`, so that their servers must run."""
    may_overlap: bool = False
    """Whether the rollout of the next round may run at the same time."""
    fixed_round: int | None = None
    """The round of its rows if the stage is done once for all rounds; None: the round that runs it."""
    is_wanted: Callable[[Config], bool] = lambda config: True
    """Whether a configuration requires it."""

    def in_its_round(self, context: RoundContext) -> RoundContext:
        return context if self.fixed_round is None else context.in_round(self.fixed_round)


def _promote(context: RoundContext) -> StageReport:
    return promote(context, [stage.name for stage in STAGES])


STAGES = (
    RoundStage(GENERATE, "generate", (), generate, asks_models=True, fixed_round=1),
    RoundStage(BASELINE, "generate", (GENERATE,), baseline, asks_models=True, fixed_round=0),
    RoundStage(PROPOSE, "rollout", (GENERATE, BASELINE), propose, asks_models=True, is_wanted=asks_for_tasks),
    RoundStage(
        TRY_PROPOSALS, "rollout", (GENERATE, BASELINE), try_proposals, asks_models=True, is_wanted=tries_proposals
    ),
    RoundStage(FRESH, "rollout", (GENERATE, BASELINE), fresh, is_wanted=lambda config: config.queries.fresh > 0),
    RoundStage(ROLLOUT, "rollout", (GENERATE, BASELINE), rollout, asks_models=True),
    RoundStage(JUDGE, "judge", (ROLLOUT,), judge, asks_models=True),
    RoundStage(REFERENCE, "guide", (JUDGE,), reference),
    RoundStage(GUIDE, "guide", (REFERENCE,), guide, asks_models=True),
    RoundStage(GUIDED, "guide", (GUIDE,), rollout_guided, asks_models=True),
    RoundStage(JUDGE_GUIDED, "guide", (GUIDED,), judge_guided, asks_models=True),
    RoundStage(CALIBRATE, "derive", (JUDGE,), calibrate_judge, may_overlap=True),
    RoundStage(DERIVE, "derive", (JUDGE,), derive, may_overlap=True),
    RoundStage(DERIVE_RL, "derive", (JUDGE,), derive_rl, may_overlap=True),
    RoundStage(
        DERIVE_KIND,
        "derive",
        (DERIVE,),
        derive_for_training,
        may_overlap=True,
        is_wanted=lambda config: bool(config.train.learns_kind),
    ),
    RoundStage(RELEASE, "release", (DERIVE, DERIVE_RL), release, may_overlap=True),
    RoundStage(TRAIN, "train", (RELEASE,), train, may_overlap=True),
    RoundStage(EVALUATE, "evaluate", (TRAIN,), evaluate, asks_models=True),
    RoundStage(PROMOTE, "evaluate", (EVALUATE,), _promote),
)

DoStage = Callable[[RoundStage, RoundContext], StageReport]
COMMANDS = tuple(dict.fromkeys(stage.command for stage in STAGES))


def stages_of(config: Config) -> tuple[RoundStage, ...]:
    return tuple(stage for stage in STAGES if stage.is_wanted(config))


def collecting_stages(config: Config) -> tuple[RoundStage, ...]:
    """The stages that make trajectories and judge them: those before the training data."""
    stages = stages_of(config)
    return stages[: [stage.name for stage in stages].index(CALIBRATE)]


def needed_before(command: str) -> tuple[RoundStage, ...]:
    """The stages of other commands that must be finished before a command, in their order."""
    needed = {name for stage in STAGES if stage.command == command for name in stage.needs}
    return tuple(stage for stage in STAGES if stage.name in needed and stage.command != command)


def asks_models(command: str) -> bool:
    return any(stage.asks_models for stage in STAGES if stage.command == command)


@contextmanager
def concurrently(work: Callable[[], object]) -> Iterator[None]:
    """Do `work` in a thread while the block runs; the block ends when both are done.

    An error of the block comes before one of the work. After Ctrl-C nothing is waited for: the thread ends with its
    process, and its work is continued like work that was killed.
    """
    done: Future[object] = Future()
    context = copy_context()

    def do() -> None:
        try:
            done.set_result(context.run(work))
        except BaseException as error:
            done.set_exception(error)

    # A thread of an executor would keep the interpreter from ending.
    Thread(target=do, name="concurrently", daemon=True).start()
    try:
        yield
    except BaseException as error:
        if not (isinstance(error, KeyboardInterrupt) or asked_to_stop()):
            wait([done])
        raise
    done.result()


def do_stages(context: RoundContext, do: DoStage, ahead: RoundContext | None = None) -> str:
    """Do the stages of a round in order; returns what a stage waits for, empty if all are finished.

    Args:
        context: the round.
        do: does one stage.
        ahead: a round that is rolled out at the same time as the stages that may overlap; None for none.
    """
    for may_overlap, stages in groupby(stages_of(context.config), lambda stage: stage.may_overlap):
        beside: AbstractContextManager[None] = nullcontext()
        if may_overlap and ahead is not None:
            # The stages before the rollout, which add queries, are done first.
            *first, last = (stage for stage in stages_of(ahead.config) if stage.command == "rollout")
            for stage in first:
                do(stage, ahead)
            beside = concurrently(partial(do, last, ahead))
        with beside:
            for stage in stages:
                report = do(stage, context)
                if report.waiting:
                    return report.waiting
    return ""


def rolled_out_ahead(context: RoundContext) -> RoundContext | None:
    """The next round if its rollout begins while this round's policy trains, or has begun so before; else None.

    It does not begin if it would have to act with another policy than that of this round.
    """
    following = context.in_round(context.round + 1)
    if has_begun(following, ROLLOUT):
        return following
    run = context.config.run
    wanted = run.asynchronous and context.round < run.rounds and not names_another_policy(context)
    return following if wanted else None


def do_stage(stage: RoundStage, context: RoundContext) -> StageReport:
    """Do one stage and show its progress; a stage that is done already, or not wanted, only returns its report."""
    within = stage.in_its_round(context)
    done = report_of(within, stage.name)
    if done is not None:
        return done
    if not stage.is_wanted(context.config):
        return StageReport.without_work(stage.name)
    with watched(within, stage.name):
        return stage.work(context)


def watched(context: RoundContext, stage: str) -> AbstractContextManager[None]:
    """Show how far a stage of a round is."""
    unit = "updates" if stage == TRAIN else "rows"
    return watched_work(context.warehouse, context.at(stage), stage, _planned_attempts(context, stage), unit)


def stage_counter(context: RoundContext, stage: str) -> StageCounter:
    """Count how far a stage of a round is."""
    return StageCounter(context.warehouse, context.at(stage), _planned_attempts(context, stage))


def _planned_attempts(context: RoundContext, stage: str) -> int | None:
    """Attempts that a stage makes, at most, so that its progress has a total at once; None for other stages."""
    config = context.config
    if stage == ROLLOUT:
        return config.unguided_episodes
    if stage == GUIDED:
        return config.rollout.episodes_per_round - config.unguided_episodes
    return len(measured_queries(context)) if stage in (BASELINE, EVALUATE) else None


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
    """The figures of a finished round. Raises TrajmillError if the round is not finished."""
    rows = read_rows(context.warehouse, RoundSummary, rounds=[context.round], run_id=context.run_id)
    if not rows:
        raise TrajmillError(f"round {context.round} of run {context.run_id} is not finished; run `trajmill evolve`")
    return rows[0]
