"""Makes the round's release: training data of all rounds so far, as files for trainers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.judges import own_judge
from trajmill.flows.deriving.derive_kind import kinds_in_force
from trajmill.flows.policies.policy import policy_before
from trajmill.flows.stage import RoundContext, StageOutcome, finished, once, report_of
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


@once(RELEASE)
def release(context: RoundContext, at: StageRun) -> StageOutcome:
    released = _of_round(context)
    result = {
        "release": release_name(context),
        "examples": released.examples,
        "rl_steps": released.rl_steps,
        "left_out": dict(released.left_out),
    }
    return StageOutcome(released.offered, released.examples, result=result)


def release_to_train_on(context: RoundContext) -> str:
    """Return the name of the round's release; it is made again if somebody has dropped it."""
    name = str(finished(context, RELEASE).result["release"])
    if name not in release_names(context.warehouse):
        _of_round(context)
        sweep(context.warehouse, context.at(RELEASE).staging(context.warehouse))
    return name


def _of_round(context: RoundContext) -> Released:
    previous = release_name(context.in_round(context.round - 1)) if context.round > 1 else None
    return _make(context, release_name(context), previous, context.at(RELEASE).staging(context.warehouse))


def release_again(config: Config) -> str:
    """Release the newest round of a run once more, with what was derived since, and return the new name.

    Raises:
        BadInputError: no round of the run was released yet.
        RunInUseError: another process works on the run.
    """
    newest = RoundContext(config, create_warehouse(config.run.root), 1)
    if report_of(newest, RELEASE) is None:
        raise BadInputError(f"run {newest.run_id}: no round was released yet; run `trajmill evolve` first")
    # The last round that has made its release, whether that was dropped or not.
    while report_of(following := newest.in_round(newest.round + 1), RELEASE) is not None:
        newest = following
    first = release_name(newest)
    with sole_worker(newest.warehouse, newest.run_id), disk_full_as_error(newest.warehouse.root):
        names = (name.removeprefix(f"{first}-") for name in release_names(newest.warehouse))
        number = 1 + max((int(number) for number in names if number.isdecimal()), default=0)
        at = StageRun(newest.run_id, newest.round, RELEASE, number)
        staging, name = at.staging(newest.warehouse), f"{first}-{number}"
        with watched_work(newest.warehouse, at, RELEASE):
            _make(newest, name, first, staging)
        forget(newest.warehouse, staging)
    return name


def _make(context: RoundContext, name: str, previous: str | None, staging: Path) -> Released:
    config, queries = context.config, context.all_queries
    history = read_history(context.warehouse, context.run_id, context.round + 1)
    request = ReleaseRequest(
        name=name,
        origin=context.origin,
        policy=policy_before(context).version,
        judge=str(own_judge(config).rule),
        averages=history.averages(list(queries)) if config.train.reweight else None,
        keep_per_query=config.train.keep_per_query,
        keep_per_reply=config.train.keep_per_reply,
        formats=tuple(map(exporter_spec, config.release.formats)),
        previous=previous,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        heldout_apps=config.queries.unseen_app_names,
        left_out=left_out(context),
        kinds=kinds_in_force(config),
        curate=config.curate,
    )
    return make_release(context.warehouse, request, list(queries.values()), staging)


def release_name(context: RoundContext) -> str:
    return f"{context.run_id}-r{context.round:04d}"
