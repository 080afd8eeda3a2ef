"""The report's table of nights: how each flow that runs unattended has ended."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.flows.nights.log import EndedFlow, ended_flows, needs_person
from trajmill.warehouse.layout import Warehouse

_MOST_ROWS = 60


class NightRow(NamedTuple):
    """One flow that has ended."""

    began: str
    """UTC."""
    flow: str
    state: str
    badge: str
    """Class of the style sheet for its state."""
    minutes: float
    disk_mb: float | None
    """The warehouse at its end; None for a bucket."""
    line: str
    told: bool | None
    """Whether people were told; None if there was nothing to tell."""


def read_nights(warehouse: Warehouse, run_id: str) -> tuple[NightRow, ...]:
    """The last flows of a run that ran unattended, the oldest first."""
    return tuple(_row(ended) for ended in ended_flows(warehouse, run_id, _MOST_ROWS))


def _row(ended: EndedFlow) -> NightRow:
    return NightRow(
        ended.began.strftime("%Y-%m-%d %H:%M"),
        ended.flow,
        ended.state,
        _badge(ended),
        (ended.ended - ended.began).total_seconds() / 60,
        None if ended.disk_bytes is None else ended.disk_bytes / 1e6,
        ended.line,
        ended.told,
    )


def _badge(ended: EndedFlow) -> str:
    """Whether it failed, needs a person, or is as it should be."""
    if ended.failed:
        return "bad"
    return "flat" if ended.told is not None or needs_person([ended]) else "good"
