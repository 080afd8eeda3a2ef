"""The stages of a round, in their order, and how they are done; a finished stage is not done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from itertools import groupby

from trajmill.flows.configuration.config import Config
from trajmill.flows.interrupt import asked_to_stop
from trajmill.flows.policies import policy as policies
from trajmill.flows.serving.models_ready import working_on
from trajmill.flows.stage import RoundContext, Stage, StageOutcome, StageReport, finished, has_begun, report_of, stage
from trajmill.flows.tasks import generate, judge, release, rollout, train
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.names import refuse_unknown
from trajmill.schemas.record import Row
from trajmill.schemas.tables.policy_version import RoundSummary
from trajmill.stages.concurrency import in_thread
from trajmill.stages.training.promotion import Promotion
from trajmill.warehouse.layout import StageRun


@stage(policies.PROMOTE, "evaluate")
def promote(context: RoundContext, at: StageRun) -> StageOutcome:
    """Promote the new policy unless it is significantly worse on the queries that decide; write the round's figures."""
    in_force = policies.policy_in_force(context)
    before = in_force.policy_row
    trained = train.Training.of(finished(context, train.TRAIN))
    evaluated = train.Evaluation.of(finished(context, train.EVALUATE))
    reason = trained.reason or evaluated.refused
    promotion = Promotion(False, reason) if reason else train.compared(context, evaluated)
    new, after = trained.new_policy, in_force
    rows: dict[str, Sequence[Row]] = {}
    if new is not None:
        updates = in_force.updates + trained.updates
        if promotion.promoted:
            after = policies.PolicyInForce(policy_row=new, updates=updates, success=evaluated.success)
        policies.release_unused(context, before if promotion.promoted else new)
        origins = trained.model_dump(include={"parent", "release", "recipe", "metrics"})
        row = train.version_row(context, new, evaluated, promotion, at.stage, updates=updates, **origins)
        rows["models"] = [row]
    reports = (report_of(context, each.name) for each in STAGES if each.fixed_round in (None, context.round))
    summary = RoundSummary(
        policy_before=before.version,
        policy_after=after.policy_row.model_version,
        stages=tuple(report.count for report in reports if report is not None),
        success_before=in_force.success,
        success_after=after.success,
        judge=judge.judge_quality(context),
        trained=trained.trained,
        reference_paths_used=judge.reference_paths_used(context),
        release=finished(context, release.RELEASE).result["release"],
        reason=promotion.reason,
        **context.origin.common(made_by=policies.PROMOTE),
    )
    files = context.write(at, {"rounds": [summary], **rows})
    return StageOutcome(1, int(promotion.promoted), files, after.model_copy(update=promotion._asdict()).as_json())


STAGES: tuple[Stage, ...] = (
    *(generate.generate, train.baseline),
    *(generate.propose, generate.try_proposals, generate.fresh, rollout.rollout),
    *(judge.judge, rollout.rollout_mixed, judge.judge_mixed),
    *(judge.reference, judge.guide, judge.rollout_guided, judge.rollout_branches, judge.judge_guided),
    judge.calibrate_judge,
    *(release.derive, release.derive_rl, release.derive_for_training, release.release),
    *(train.train, train.evaluate, promote),
)


COMMANDS: Mapping[str, tuple[str, ...]] = {
    "generate": (),
    "rollout": (generate.GENERATE, policies.BASELINE),
    "judge": (rollout.ROLLOUT,),
    "guide": (judge.JUDGE, judge.JUDGE_MIXED),
    "derive": (judge.JUDGE, judge.JUDGE_MIXED, judge.JUDGE_GUIDED),
    "release": (release.DERIVE, release.DERIVE_RL),
    "train": (release.RELEASE,),
    "evaluate": (train.TRAIN,),
}
"""By command, the stages of other commands that must be finished before it, in their order."""
LEARNING = frozenset({"derive", "release", "train"})
"""The commands whose stages call no model of `[models]`: they need no servers, and may overlap the next attempts."""


def stages_of(config: Config) -> tuple[Stage, ...]:
    return tuple(each for each in STAGES if each.is_wanted(config))


def collecting_stages(config: Config) -> tuple[Stage, ...]:
    stages = stages_of(config)
    return stages[: [each.name for each in stages].index(judge.CALIBRATE)]


@contextmanager
def concurrently(work: Callable[[], object]) -> Iterator[None]:
    """Do `work` in a thread while the block runs; the block ends when both are done.

    An error of the block comes before one of the work. After Ctrl-C nothing is waited for: the thread ends with its
    process, and its work is continued like work that was killed.
    """
    done = in_thread(partial(copy_context().run, work))
    try:
        yield
    except BaseException as error:
        if not (isinstance(error, KeyboardInterrupt) or asked_to_stop()):
            wait([done])
        raise
    done.result()


def do_stages(
    context: RoundContext, do: Callable[[Stage, RoundContext], StageReport], ahead: RoundContext | None = None
) -> str:
    """Do the stages of a round, and beside those that learn the attempts of round `ahead`; says what one awaits."""
    for learn, stages in groupby(stages_of(context.config), lambda each: each.command in LEARNING):
        overlap: AbstractContextManager[None] = nullcontext()
        if learn and ahead is not None:
            *first, last = (each for each in collecting_stages(ahead.config) if each.command == "rollout")
            # The stages before the rollout, which add queries, are done first.
            for each in first:
                do(each, ahead)
            overlap = concurrently(partial(_collect, do, ahead, last))
        with overlap:
            for each in stages:
                if waiting := do(each, context).waiting:
                    return waiting
    return ""


def _collect(do: Callable[[Stage, RoundContext], StageReport], ahead: RoundContext, first: Stage) -> None:
    """Make, judge and guide the attempts of a round up to a stage that waits, which the round itself does again."""
    stages = collecting_stages(ahead.config)
    for each in stages[stages.index(first) :]:
        if do(each, ahead).waiting:
            return


def rolled_out_ahead(context: RoundContext) -> RoundContext | None:
    """The next round if its attempts have begun, or may begin while this round's policy trains and stays in force."""
    following = context.in_round(context.round + 1)
    if has_begun(following, rollout.ROLLOUT):
        return following
    run = context.config.run
    wanted = run.asynchronous and context.round < run.rounds and not train.names_another_policy(context)
    return following if wanted else None


def do_stage(stage: Stage, context: RoundContext) -> StageReport:
    """Do one stage and show its progress; a stage that is done already, or not wanted, only returns its report."""
    if stage.is_wanted(context.config):
        return stage(context)
    return report_of(stage.in_its_round(context), stage.name) or StageReport.without_work(stage.name)


def run_stage(name: str, config: Config) -> StageReport:
    """Do a command's stages in the current round. Raises BadInputError (unknown, or too early), RunInUseError."""
    refuse_unknown([name], COMMANDS, "there is no stage")
    with working_on(RoundContext.of(config), models=() if name in LEARNING else None):
        return run_command(name, current_round(config))


def run_command(name: str, context: RoundContext) -> StageReport:
    """Do the stages of a command in a round; returns the last report. Raises BadInputError if it needs another."""
    for needed in stages_of(context.config):
        if needed.name in COMMANDS[name] and report_of(needed.in_its_round(context), needed.name) is None:
            raise BadInputError(
                f"round {context.round} of run {context.run_id}: stage {needed.name!r} is not finished; "
                f"run `trajmill {needed.command}` first"
            )
    train.adopt_configured(context)
    for each in stages_of(context.config):
        if each.command == name:
            report = do_stage(each, context)
            if report.waiting:
                break
    return report


def current_round(config: Config) -> RoundContext:
    return first_unfinished(RoundContext.of(config))


def first_unfinished(context: RoundContext) -> RoundContext:
    while report_of(context, policies.PROMOTE) is not None:
        context = context.in_round(context.round + 1)
    return context


def summary_of(context: RoundContext) -> RoundSummary:
    """The figures of a finished round. Raises TrajmillError if the round is not finished."""
    rows = context.rows(RoundSummary, [context.round])
    if not rows:
        raise TrajmillError(f"round {context.round} of run {context.run_id} is not finished; run `trajmill evolve`")
    return rows[0]
