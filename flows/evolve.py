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
from trajmill.flows.policy import PROMOTE
from trajmill.flows.prefect_settings import short_lived_server
from trajmill.flows.report.page import write_report
from trajmill.flows.round import round_flow
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import report_of
from trajmill.flows.tasks.release import release_name
from trajmill.schemas.tables.round_summary import RoundSummary
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


def evolve(config: Config) -> EvolveReport:
    """Run all rounds of a configuration that are not finished, then write the report.

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
            evolve_flow(unfinished)
        refresh_views(warehouse)
        report = write_report(warehouse, config.run_id)
    last = RoundContext(config, warehouse, config.run.rounds)
    return EvolveReport(report, warehouse.release(release_name(last)), warehouse.database, config.run.rounds)


@flow(name="evolve", validate_parameters=False)
def evolve_flow(unfinished: Sequence[RoundContext]) -> list[RoundSummary]:
    """Run the rounds one after the other."""
    return [round_flow(context) for context in unfinished]


def _unfinished_rounds(config: Config, warehouse: Warehouse) -> list[RoundContext]:
    first = RoundContext(config, warehouse, 1)
    contexts = [first.in_round(number) for number in range(1, config.run.rounds + 1)]
    return [context for context in contexts if report_of(context, PROMOTE) is None]
