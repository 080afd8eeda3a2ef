"""Lets a flow work on a run alone: it waits for another process that works on the run, or gives up, by option."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.serve import ServeSection
from trajmill.flows.new_run import begin_or_continue
from trajmill.flows.serving.models_ready import models_ready
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.lock import RunInUseError, sole_worker
from trajmill.warehouse.views import refresh_views

_SECONDS_BETWEEN_LOOKS = 5.0
_HOUR = 3600.0


@contextmanager
def at_work(config: Config) -> Iterator[Warehouse]:
    """Work on the run alone, with its models ready; the views are up to date at the end.

    Raises:
        NewRunError: the configuration has changed, so that it would begin a new run.
        RunInUseError: another process works on it, and did not end while this one waited.
    """
    begin_or_continue(config)
    warehouse = create_warehouse(config.run.root)
    with ExitStack() as stack:
        _enter_lock(stack, warehouse, config.run_id, config.serve)
        stack.enter_context(disk_full_as_error(warehouse.root))
        stack.enter_context(models_ready(config, warehouse.run(config.run_id)))
        yield warehouse
        refresh_views(warehouse)


def _enter_lock(stack: ExitStack, warehouse: Warehouse, run_id: str, settings: ServeSection) -> None:
    until = time.monotonic() + (settings.wait_hours * _HOUR if settings.when_busy == "wait" else 0.0)
    while True:
        try:
            stack.enter_context(sole_worker(warehouse, run_id))
            return
        except RunInUseError:
            if time.monotonic() >= until:
                raise
        time.sleep(min(_SECONDS_BETWEEN_LOOKS, max(until - time.monotonic(), 0.0)))
