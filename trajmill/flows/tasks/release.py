"""Makes the round's release: training data of all rounds so far, as files for trainers."""

from __future__ import annotations

from datetime import UTC, datetime

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.judges import own_judge
from trajmill.flows.context import RoundContext
from trajmill.flows.deriving.kind_of_run import kinds_in_force
from trajmill.flows.policies.policy import policy_before
from trajmill.flows.stage import StageOutcome, StageReport, finished, report_of, run_once
from trajmill.flows.tasks.derive import left_out
from trajmill.flows.tasks.watched import watched_work
from trajmill.pipelines.reading.verdicts import read_history
from trajmill.pipelines.release import Released, ReleaseRequest, make_release
from trajmill.schemas.errors import BadInputError
from trajmill.stages.export.exporter import exporter_spec
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.layout import StageRun, create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.releases import release_names
from trajmill.warehouse.staging import forget, sweep

RELEASE = "release"


def release(context: RoundContext) -> StageReport:
    """Make the round's release."""

    def work(at: StageRun) -> StageOutcome:
        released = _made(context)
        return StageOutcome(
            released.offered,
            released.examples,
            result={
                "release": release_name(context),
                "examples": released.examples,
                "rl_steps": released.rl_steps,
                "left_out": dict(released.left_out),
            },
        )

    return run_once(context, RELEASE, work)


def release_to_train_on(context: RoundContext) -> str:
    """The name of the round's release; it is made again if somebody has dropped it."""
    name = str(finished(context, RELEASE).result["release"])
    if name not in release_names(context.warehouse):
        _made(context)
        sweep(context.warehouse, context.at(RELEASE).staging(context.warehouse))
    return name


def _made(context: RoundContext) -> Released:
    previous = release_name(context.in_round(context.round - 1)) if context.round > 1 else None
    request = _request(context, release_name(context), previous)
    staging = context.at(RELEASE).staging(context.warehouse)
    return make_release(context.warehouse, request, list(context.all_queries.values()), staging)


def release_again(config: Config) -> str:
    """Release the newest round of a run once more, with what was derived since, and return the new name.

    Raises:
        BadInputError: no round of the run was released yet.
        RunInUseError: another process works on the run.
    """
    newest = _newest_released(RoundContext(config, create_warehouse(config.run.root), 1))
    with sole_worker(newest.warehouse, newest.run_id), disk_full_as_error(newest.warehouse.root):
        number = _next_number(newest)
        name = f"{release_name(newest)}-{number}"
        at = StageRun(newest.run_id, newest.round, RELEASE, number)
        staging = at.staging(newest.warehouse)
        request = _request(newest, name, release_name(newest))
        with watched_work(newest.warehouse, at, RELEASE):
            make_release(newest.warehouse, request, list(newest.all_queries.values()), staging)
        forget(newest.warehouse, staging)
    return name


def _newest_released(context: RoundContext) -> RoundContext:
    """The last round that has made its release, whether that was dropped or not."""
    if report_of(context, RELEASE) is None:
        raise BadInputError(f"run {context.run_id}: no round was released yet; run `trajmill evolve` first")
    while report_of(following := context.in_round(context.round + 1), RELEASE) is not None:
        context = following
    return context


def _next_number(context: RoundContext) -> int:
    """A number for another release of the round, after those that there are."""
    first = release_name(context)
    numbers = (name.removeprefix(f"{first}-") for name in release_names(context.warehouse))
    return 1 + max((int(number) for number in numbers if number.isdecimal()), default=0)


def _request(context: RoundContext, name: str, previous: str | None) -> ReleaseRequest:
    history = read_history(context.warehouse, context.run_id, context.round + 1)
    averages = history.averages(list(context.all_queries)) if context.config.train.reweight else None
    return ReleaseRequest(
        name=name,
        origin=context.origin,
        policy=policy_before(context).version,
        judge=str(own_judge(context.config).rule),
        averages=averages,
        keep_per_query=context.config.train.keep_per_query,
        keep_per_reply=context.config.train.keep_per_reply,
        formats=tuple(map(exporter_spec, context.config.release.formats)),
        previous=previous,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        heldout_apps=context.config.queries.unseen_app_names,
        left_out=left_out(context),
        kinds=kinds_in_force(context.config),
        curate=context.config.curate,
    )


def release_name(context: RoundContext) -> str:
    """Name of a round's release."""
    return f"{context.run_id}-r{context.round:04d}"
