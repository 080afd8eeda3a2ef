"""Runs the rounds of a configuration as Prefect flows, with a task per stage; a second call continues a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from trajmill.flows.configuration.config import Config
from trajmill.flows.interrupt import asked_to_stop, still_noticing_interrupts
from trajmill.flows.new_run import run_resource
from trajmill.flows.policies.policy import PROMOTE, accepted_since_training
from trajmill.flows.prefect_settings import scrub_logs, short_lived_server
from trajmill.flows.progress import progress
from trajmill.flows.report.page import write_report
from trajmill.flows.round import current_round, do_stage, do_stages, rolled_out_ahead, summary_of
from trajmill.flows.serving.models_ready import working_on
from trajmill.flows.stage import RoundContext, Stage, StageReport, report_of
from trajmill.flows.tasks.judge import JUDGE, JUDGE_GUIDED, JUDGE_MIXED
from trajmill.flows.tasks.release import release_name
from trajmill.flows.tasks.train import adopt_configured
from trajmill.flows.terminal.show import round_markdown, round_table
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.delta_log import one_snapshot
from trajmill.warehouse.views import refresh_views


class EvolveReport(NamedTuple):
    report_path: Path
    release: str
    waiting: str = ""
    """What the run waits for, and what the user can do about it; empty if all rounds are finished."""


def evolve(config: Config) -> EvolveReport:
    """Run all rounds that are not finished, then write the report; a round that awaits a policy ends it.

    Raises TrajmillError: a stage failed after all retries, or another process works on the run. Finished stages are
    kept, and the next call continues after them.
    """
    first = RoundContext.of(config)
    warehouse, log = first.warehouse, first.warehouse.run(first.run_id) / "prefect.log"
    rounds = map(first.in_round, range(1, config.run.rounds + 1))
    unfinished = [context for context in rounds if report_of(context, PROMOTE) is None]
    with ExitStack() as end, working_on(first, None if unfinished else ()):
        with short_lived_server(log):
            scrub_logs(config.secrets(os.environ))
            waiting = evolve_flow(unfinished)
        # Nothing is committed after this: the report and the views read the same logs.
        end.enter_context(one_snapshot())
        report = write_report(warehouse, first.run_id)
    last = current_round(config) if waiting else first.in_round(config.run.rounds)
    release = warehouse.store.uri(warehouse.name(warehouse.release(release_name(last))))
    return EvolveReport(report, release, waiting)


@flow(name="evolve", validate_parameters=False)
def evolve_flow(unfinished: Sequence[RoundContext]) -> str:
    for context in unfinished:
        if waiting := round_flow(context):
            return waiting
    return ""


def artifact_key(config: Config, name: str) -> str:
    """Return the key of a run's artifact: keys are those of the whole server, and have no `_`."""
    return f"{config.run.name.replace('_', '-')}-{name}"


def _worth_retrying(task_: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    error = state.result(raise_on_failure=False)
    return isinstance(error, Exception) and not isinstance(error, BadInputError) and not asked_to_stop()


@task(
    task_run_name="{name}",
    retries=2,
    retry_delay_seconds=2,
    retry_condition_fn=_worth_retrying,
    cache_policy=NO_CACHE,  # the warehouse stores the progress; a cache would hash the arguments of a stage
)
def _stage_task(name: str, do: Callable[[], StageReport]) -> StageReport:
    return do()


def do_as_task(stage: Stage, context: RoundContext) -> StageReport:
    # Prefect looks into all arguments of a task; a context with the reports of eight rounds took it 0.15 s.
    return _stage_task(stage.name, partial(do_stage, stage, context))


def _do_in_flow(stage: Stage, context: RoundContext) -> StageReport:
    judges = stage.name in (JUDGE, JUDGE_MIXED, JUDGE_GUIDED)
    is_new = judges and report_of(stage.in_its_round(context), stage.name) is None
    report = do_as_task(stage, context)
    if is_new:
        announce_landed(context)
    return report


@flow(name="round", flow_run_name="{context.config.run.name} round {context.round}", validate_parameters=False)
def round_flow(context: RoundContext) -> str:
    """Do all stages of one round; returns what a stage waits for, empty if the round is finished."""
    with still_noticing_interrupts():
        adopt_configured(context)
        waiting = do_stages(context, _do_in_flow, rolled_out_ahead(context))
        refresh_views(context.warehouse)
    if waiting:
        return waiting
    summary = summary_of(context)
    create_markdown_artifact(
        round_markdown(summary),
        key=artifact_key(context.config, f"round-{context.round:04d}"),
        description="The round's figures",
    )
    progress().show(round_table(summary))
    return ""


LANDED = "trajmill.trajectories.landed"
ENOUGH_LABEL = "trajmill.enough"
"""Label of the event's resource: `yes` if there is enough to retrain, else `no`; triggers cannot compare numbers."""


def announce_landed(context: RoundContext) -> int:
    """Emit the event for a commit of judged trajectories; return how many were accepted since the last training."""
    from prefect.events import emit_event

    accepted, enough = accepted_since_training(context), context.config.serve.retrain_after_accepted
    emit_event(
        LANDED,
        resource={
            "prefect.resource.id": run_resource(context.warehouse, context.run_id),
            "prefect.resource.name": f"{context.run_id} in {context.warehouse.address}",
            ENOUGH_LABEL: "yes" if accepted >= enough else "no",
        },
        payload={"accepted_since_training": accepted, "enough": enough},
    )
    return accepted
