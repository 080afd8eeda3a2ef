"""What must hold after the week: nothing is lost, success has risen, the disk is bounded, people were told."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.week.days import FINISHED_BEFORE_KILL
from benchmarks.week.diary import Entry
from benchmarks.week.settings import DISK_MB
from trajmill.flows.configuration.config import Config
from trajmill.flows.nights.log import EndedFlow
from trajmill.flows.report.figures import Figures
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import release_names, verify_release

_IDS = (
    ("trajectories", "trajectory_id"),
    ("examples", "example_id"),
    ("queries", "query_id"),
    ("screens", "screen_id"),
)

_SPREAD = 1.5
"""How much more the second half of the week may add than the first: nights are not alike."""


class Check(NamedTuple):
    """One thing that must hold."""

    name: str
    holds: bool
    figures: str


def nothing_lost(folder: Path, warehouse: Warehouse, config: Config) -> Iterator[Check]:
    """What was finished is stored, once, and complete."""
    stored = read_table(
        warehouse, "trajectories", ["trajectory_id", "purpose", "status"], run_id=config.run_id
    ).to_pylist()
    killed = (folder / FINISHED_BEFORE_KILL).read_text().splitlines()
    finished = {json.loads(line)["trajectory"]["trajectory_id"] for line in killed}
    kept = finished & {row["trajectory_id"] for row in stored}
    yield Check(
        "Attempts that a killed night had finished are stored", kept == finished, f"{len(kept)} of {len(finished)}"
    )
    doubled = {table: _doubled(warehouse, table, key) for table, key in _IDS}
    yield Check(
        "No row is stored twice",
        not any(doubled.values()),
        ", ".join(f"{count} {table}" for table, count in doubled.items()),
    )
    shown = read_table(warehouse, "steps", ["screen_before", "screen_after"])
    wanted = {name for column in shown.columns for name in column.to_pylist()}
    missing = wanted.difference(read_table(warehouse, "screens", ["screen_id"])["screen_id"].to_pylist())
    yield Check("Every step has its screens", not missing, f"{len(wanted):,} screens, {len(missing)} missing")
    attempts = {
        row["trajectory_id"]
        for row in stored
        if row["status"] == "finished" and row["purpose"] in (Purpose.TRAIN, Purpose.GUIDED)
    }
    judged = read_table(warehouse, "judgements", ["trajectory_id"], run_id=config.run_id)["trajectory_id"].to_pylist()
    waiting = attempts.difference(judged)
    yield Check(
        "Every finished attempt has been judged", not waiting, f"{len(attempts):,} attempts, {len(waiting)} not judged"
    )
    names = release_names(warehouse)
    for name in names:
        verify_release(warehouse, name)
    yield Check("Every release has its files", bool(names), f"{len(names)} releases")


def success_risen(figures: Figures) -> Check:
    """The held-out figures of the last round lie above those of the untrained policy, intervals apart."""
    lines = [line for line in figures.success if line.name.startswith("new ")]
    text = ", ".join(f"{line.name} {line.points[0].share:.0%} to {line.points[-1].share:.0%}" for line in lines)
    return Check("Success has risen", all(line.points[-1].low > line.points[0].high for line in lines), text)


def disk_bounded(entries: Sequence[Entry], flows: Sequence[EndedFlow]) -> Check:
    """The warehouse stays on its disk, and the second half of the week adds no more than the first."""
    sizes = [entry.number / 1e6 for entry in entries if entry.kind == "over"]
    most = max(flow.disk_bytes or 0 for flow in flows) / 1e6
    text = f"at most {most:.0f} MB of {DISK_MB}; at the end of each day {', '.join(f'{size:.0f}' for size in sizes)} MB"
    middle = sizes[len(sizes) // 2]
    return Check("The disk is bounded", most < DISK_MB and sizes[-1] - middle <= _SPREAD * middle, text)


def people_told(notices: Sequence[dict[str, str]], flows: Sequence[EndedFlow]) -> Check:
    """There is one message for each flow that failed, and for no other."""
    failed = Counter(f"trajmill: {flow.flow}/week failed" for flow in flows if flow.failed)
    told = Counter(notice["subject"].partition(" in stage")[0] for notice in notices)
    return Check(
        "Each failure was told once", told == failed, f"{failed.total()} failed flows, {told.total()} messages"
    )


def still_scheduled(entries: Sequence[Entry]) -> Check:
    """What was served again after a stop is not paused."""
    lines = [entry.text for entry in entries if "stayed paused" in entry.text]
    return Check("A restart of serve leaves no deployment paused", lines[-1].endswith(": none"), lines[-1])


def _doubled(warehouse: Warehouse, table: str, key: str) -> int:
    ids = read_table(warehouse, table, [key])[key].to_pylist()
    return len(ids) - len(set(ids))
