"""Runs the rounds of a configuration as a Prefect flow; a second call continues after the last finished stage."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from prefect import flow

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.malloc_arenas import limit_malloc_arenas
from trajmill.flows.policies.policy import PROMOTE
from trajmill.flows.prefect_settings import short_lived_server
from trajmill.flows.report.page import write_report
from trajmill.flows.round import current_round, round_flow
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import Waiting, report_of
from trajmill.flows.tasks.release import release_name
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.views import refresh_views


class EvolveReport(NamedTuple):
    """Where the results of a run are."""

    report_path: Path
    release_path: Path
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
    limit_malloc_arenas()
    warehouse = create_warehouse(config.run.root)
    with sole_worker(warehouse, config.run_id), disk_full_as_error(warehouse.root):
        unfinished = _unfinished_rounds(config, warehouse)
        logs = warehouse.run(config.run_id)
        with models_ready(config, logs) if unfinished else nullcontext(), short_lived_server(logs / "prefect.log"):
            waiting = evolve_flow(unfinished)
        refresh_views(warehouse)
        report = write_report(warehouse, config.run_id)
    last = current_round(config) if waiting else RoundContext(config, warehouse, config.run.rounds)
    release = warehouse.release(release_name(last))
    return EvolveReport(report, release, warehouse.database, config.run.rounds, waiting)


@flow(name="evolve", validate_parameters=False)
def evolve_flow(unfinished: Sequence[RoundContext]) -> str:
    """Run the rounds one after the other; returns what a round waits for, empty if all are finished."""
    for context in unfinished:
        ended = round_flow(context)
        if isinstance(ended, Waiting):
            return ended.line
    return ""


def _unfinished_rounds(config: Config, warehouse: Warehouse) -> list[RoundContext]:
    first = RoundContext(config, warehouse, 1)
    contexts = [first.in_round(number) for number in range(1, config.run.rounds + 1)]
    return [context for context in contexts if report_of(context, PROMOTE) is None]
