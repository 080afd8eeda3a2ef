"""Keeps the growing warehouse small: retention, compaction, vacuum, and a check of the releases."""

from __future__ import annotations

import time
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from trajmill.flows.configuration.config import Config
from trajmill.flows.nights.log import Ending, FlowEnd
from trajmill.flows.nights.notices import HOOKS, config_of_flow, final_state
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.releases import release_names, verify_release
from trajmill.warehouse.upkeep import maintain as maintain_warehouse
from trajmill.warehouse.views import refresh_views


@flow(name="maintain", **HOOKS)
def maintain(config_file: str | None = None) -> State[Any]:
    """Drop old releases, join small files, delete unused ones, and check the releases that are kept."""
    return final_state(keep_small(config_of_flow(config_file)))


def keep_small(config: Config) -> FlowEnd:
    """Apply `[retention]` to the releases of the run, then check every release that is kept.

    Raises BadInputError, with a line that names it, if a file of a table or a release is missing or damaged.
    """
    warehouse, kept = create_warehouse(config.run.root), config.retention
    done = maintain_warehouse(
        warehouse,
        keep_releases=kept.releases,
        unused_days=kept.unused_days,
        now=time.time(),
        run_id=config.run_id,
    )
    refresh_views(warehouse)
    names = release_names(warehouse)
    for name in names:
        verify_release(warehouse, name)
    freed = sum(file.size for file in done.deleted) / 1e6
    in_use = f" (not of {', '.join(done.in_use)}, which another process works on)" if done.in_use else ""
    line = (
        f"{len(done.dropped)} releases dropped{in_use}, {len(done.compacted)} tables compacted, "
        f"{len(done.deleted)} unused files deleted ({freed:,.1f} MB), {len(names)} releases checked"
    )
    return FlowEnd(Ending.MAINTAINED, line)
