"""Runs the rounds of a configuration as Prefect flows, with a task per stage; a second call continues a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from trajmill.flows.configuration.config import Config
from trajmill.flows.interrupt import asked_to_stop, still_noticing_interrupts
from trajmill.flows.landed_event import announce_landed
from trajmill.flows.policies.choice import adopt_configured
from trajmill.flows.policies.policy import PROMOTE
from trajmill.flows.prefect_settings import scrub_logs, short_lived_server
from trajmill.flows.progress import progress
from trajmill.flows.report.page import write_report
from trajmill.flows.report.round_table import round_markdown, round_table
from trajmill.flows.round import RoundStage, current_round, do_stage, do_stages, rolled_out_ahead, summary_of
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import RoundContext, StageReport, Waiting, report_of
from trajmill.flows.tasks.judge import JUDGE, JUDGE_GUIDED
from trajmill.flows.tasks.release import release_name
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.round_summary import RoundSummary
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.views import refresh_views


class EvolveReport(NamedTuple):
    report_path: Path
    release: str
    """Path of the newest release's folder, or its URL."""
    database: Path
    rounds: int
    waiting: str = ""
    """What the run waits for, and what the user can do about it; empty if all rounds are finished."""


def evolve(config: Config) -> EvolveReport:
    """Run all rounds of a configuration that are not finished, then write the report.

    If another program trains the policy, the run stops in each round until the new version is added.

    Raises:
        TrajmillError: a stage failed after all retries, or another process works on the run. Finished stages are kept,
            and the next call continues after them.
    """
    warehouse = create_warehouse(config.run.root)
    with sole_worker(warehouse, config.run_id), disk_full_as_error(warehouse.root):
        first, logs = RoundContext(config, warehouse, 1), warehouse.run(config.run_id)
        rounds = map(first.in_round, range(1, config.run.rounds + 1))
        unfinished = [context for context in rounds if report_of(context, PROMOTE) is None]
        with models_ready(config, logs) if unfinished else nullcontext(), short_lived_server(logs / "prefect.log"):
            scrub_logs(config.secrets(os.environ))
            waiting = evolve_flow(unfinished)
        refresh_views(warehouse)
        report = write_report(warehouse, config.run_id)
    last = current_round(config) if waiting else first.in_round(config.run.rounds)
    release = warehouse.store.uri(warehouse.name(warehouse.release(release_name(last))))
    return EvolveReport(report, release, warehouse.database, config.run.rounds, waiting)


@flow(name="evolve", validate_parameters=False)
def evolve_flow(unfinished: Sequence[RoundContext]) -> str:
    """Run the rounds one after the other; returns what a round waits for, empty if all are finished."""
    for context in unfinished:
        ended = round_flow(context)
        if isinstance(ended, Waiting):
            return ended.line
    return ""


def artifact_key(config: Config, name: str) -> str:
    """Return the key of a run's artifact: keys are those of the whole server, and have no `_`."""
    return f"{config.run.name.replace('_', '-')}-{name}"


def _worth_retrying(task_: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    error = state.result(raise_on_failure=False)
    return isinstance(error, Exception) and not isinstance(error, BadInputError) and not asked_to_stop()


@task(
    task_run_name="{stage.name}",
    retries=2,
    retry_delay_seconds=2,
    retry_condition_fn=_worth_retrying,
    cache_policy=NO_CACHE,
)
def stage_task(stage: RoundStage, context: RoundContext) -> StageReport:
    return do_stage(stage, context)


def _do_in_flow(stage: RoundStage, context: RoundContext) -> StageReport:
    is_new = report_of(stage.in_its_round(context), stage.name) is None
    report = stage_task(stage, context)
    if is_new and stage.name in (JUDGE, JUDGE_GUIDED):
        announce_landed(context.config)
    return report


@flow(name="round", flow_run_name="{context.config.run.name} round {context.round}", validate_parameters=False)
def round_flow(context: RoundContext) -> RoundSummary | Waiting:
    """Do all stages of one round; returns its figures, or what a stage waits for."""
    with still_noticing_interrupts():
        adopt_configured(context)
        waiting = do_stages(context, _do_in_flow, rolled_out_ahead(context))
        refresh_views(context.warehouse)
    if waiting:
        return Waiting(waiting)
    summary = summary_of(context)
    create_markdown_artifact(
        round_markdown(summary),
        key=artifact_key(context.config, f"round-{context.round:04d}"),
        description="The round's figures",
    )
    progress().show(round_table(summary))
    return summary
