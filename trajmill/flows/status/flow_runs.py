"""Asks a Prefect server for the last and the next runs of the deployments."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from trajmill.warehouse.store.address import local_folder

_SECONDS = 5.0
_ADDRESS_FILE = "prefect.url"
_MOST = 200


class FlowRunLine(NamedTuple):
    """One run of a deployment."""

    deployment: str
    state: str
    """Name of its state, e.g. `Collected`; `Scheduled` for one that has not begun."""
    time: str
    """UTC time at which it began, or is to begin."""
    line: str
    """The message of its state."""


class FlowRuns(NamedTuple):
    """The last run of each deployment that has ended or runs, and the next one."""

    last: tuple[FlowRunLine, ...] = ()
    next: tuple[FlowRunLine, ...] = ()
    problem: str = ""
    """Why nothing is known."""


def remember_server(root: Path, address: str) -> None:
    """Write down the server's address, so that `trajmill status` finds it."""
    (root / "runs" / _ADDRESS_FILE).write_text(address, encoding="utf-8")


def flow_runs(root: Path | str) -> FlowRuns:
    """The runs of the server that PREFECT_API_URL names, else of the one that served this warehouse last."""
    file = local_folder(root) / "runs" / _ADDRESS_FILE
    address = os.environ.get("PREFECT_API_URL") or (file.read_text(encoding="utf-8") if file.exists() else "")
    if not address:
        return FlowRuns(problem="no Prefect server is known; `trajmill serve` starts one, PREFECT_API_URL names one")
    try:
        names = {row["id"]: row["name"] for row in _asked(address, "deployments", {})}
        ended = _asked(address, "flow_runs", {"sort": "START_TIME_DESC", "limit": _MOST})
        states = {"state": {"type": {"any_": ["SCHEDULED"]}}}
        planned = _asked(address, "flow_runs", {"sort": "NEXT_SCHEDULED_START_TIME_ASC", "flow_runs": states})
    except (OSError, ValueError, KeyError, TypeError) as error:
        return FlowRuns(problem=f"the Prefect server {address} does not answer ({error})")
    last: dict[str, FlowRunLine] = {}
    following: dict[str, FlowRunLine] = {}
    for row in ended:
        if row["deployment_id"] in names and row["start_time"]:
            name = names[row["deployment_id"]]
            last.setdefault(name, _line(name, row, row["start_time"]))
    for row in planned:
        if row["deployment_id"] in names:
            name = names[row["deployment_id"]]
            following.setdefault(name, _line(name, row, row["expected_start_time"] or ""))
    return FlowRuns(tuple(last.values()), tuple(following.values()))


def _line(name: str, row: dict[str, Any], time: str) -> FlowRunLine:
    state = row["state"] or {}
    return FlowRunLine(name, str(state.get("name")), time[:19].replace("T", " "), str(state.get("message") or ""))


def _asked(address: str, what: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    request = urllib.request.Request(
        f"{address.rstrip('/')}/{what}/filter",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        rows: list[dict[str, Any]] = json.load(answer)
    return rows
