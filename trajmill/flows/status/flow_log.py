"""Remembers in the warehouse how each unattended flow ended, so that the report needs no Prefect server."""

from __future__ import annotations

from datetime import UTC, datetime

from trajmill.schemas.record import Record
from trajmill.warehouse.layout import Warehouse

_FOLDER = "flows"


class EndedFlow(Record):
    """How one run of a deployment ended."""

    flow_run_id: str
    flow: str
    began: datetime
    """UTC."""
    ended: datetime
    """UTC."""
    failed: bool
    """Whether it failed or crashed; all other endings are no errors."""
    state: str
    """Name of its final state, e.g. `Collected`."""
    line: str
    """What was done, or why nothing was done."""
    told: bool | None
    """Whether everybody of `[notify]` was told; None if there was nothing to tell, or nobody."""
    disk_bytes: int | None
    """All files of the warehouse at its end; None for a bucket."""


def remember(warehouse: Warehouse, run_id: str, ended: EndedFlow) -> None:
    """Store how a flow ended, in a file of its own: flows may end at the same time."""
    began = ended.began.astimezone(UTC).strftime("%Y%m%dT%H%M%S")
    file = _folder(warehouse, run_id) + f"/{began}-{ended.flow}-{ended.flow_run_id}.json"
    warehouse.store.put(file, ended.model_dump_json().encode())


def ended_flows(warehouse: Warehouse, run_id: str, most: int) -> list[EndedFlow]:
    """The last flows of a run that have ended, the oldest first."""
    names = sorted(file.name for file in warehouse.store.files(_folder(warehouse, run_id)))
    contents = (warehouse.store.get(name) for name in names[-most:])
    return [EndedFlow.model_validate_json(content) for content in contents if content]


def _folder(warehouse: Warehouse, run_id: str) -> str:
    return warehouse.name(warehouse.run(run_id) / _FOLDER)
