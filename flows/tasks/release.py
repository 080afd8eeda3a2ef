"""Makes the round's release: training data of all rounds so far, as files for trainers."""

from __future__ import annotations

from datetime import UTC, datetime

from trajmill.flows.configuration.judges import own_judge
from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import policy_before
from trajmill.flows.stage import StageOutcome, StageReport, run_once
from trajmill.flows.tasks.derive import left_out
from trajmill.pipelines.reading.history import read_history
from trajmill.pipelines.release import ReleaseRequest, make_release
from trajmill.stages.export.kinds import exporter_spec
from trajmill.warehouse.layout import StageRun

RELEASE = "release"


def release(context: RoundContext) -> StageReport:
    """Make the round's release."""

    def work(at: StageRun) -> StageOutcome:
        history = read_history(context.warehouse, context.run_id, context.rounds_so_far)
        queries = context.all_queries
        averages = history.averages(list(queries)) if context.config.train.reweight else None
        request = ReleaseRequest(
            name=release_name(context),
            origin=context.origin,
            policy=policy_before(context).version,
            judge=str(own_judge(context.config).rule),
            averages=averages,
            keep_per_query=context.config.train.keep_per_query,
            keep_per_reply=context.config.train.keep_per_reply,
            formats=tuple(map(exporter_spec, context.config.release.formats)),
            previous=release_name(context.in_round(context.round - 1)) if context.round > 1 else None,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            heldout_apps=context.config.queries.unseen_app_names,
            left_out=left_out(context),
            curate=context.config.curate,
        )
        released = make_release(context.warehouse, request, list(queries.values()))
        return StageOutcome(
            released.offered,
            released.examples,
            result={"release": request.name, "examples": released.examples, "rl_steps": released.rl_steps},
        )

    return run_once(context, RELEASE, work)


def release_name(context: RoundContext) -> str:
    """Name of a round's release."""
    return f"{context.run_id}-r{context.round:04d}"
