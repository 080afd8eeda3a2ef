"""The page of the week: what held, what was done to it by day, how each flow ended, and what people were told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from benchmarks.week.checks import disk_bounded, nothing_lost, people_told, still_scheduled, success_risen
from benchmarks.week.days import DAYS
from benchmarks.week.diary import Entry
from trajmill.flows.configuration.config import Config
from trajmill.flows.nights.log import ended_flows
from trajmill.flows.report.figures import read_figures, run_views
from trajmill.flows.report.page import share_chart, write_report
from trajmill.warehouse.layout import open_warehouse

NOTICES = "notices.jsonl"
_PAGE = "week.html"
_MOST_FLOWS = 1000


class Day(NamedTuple):
    """What happened on a day."""

    name: str
    what: str
    entries: tuple[Entry, ...]
    """In their order; those of kind `told` are messages to people."""
    megabytes: float


def write_page(folder: Path, config: Config, entries: Sequence[Entry]) -> None:
    """Check what must hold, write the page, and print both."""
    warehouse = open_warehouse(config.run.root)
    report = write_report(warehouse, config.run_id)
    with run_views(warehouse, config.run_id) as views:
        figures = read_figures(views)
    notices = [json.loads(line) for line in (folder / NOTICES).read_text().splitlines()]
    flows = ended_flows(warehouse, config.run_id, _MOST_FLOWS)
    checks = [
        *nothing_lost(folder, warehouse, config),
        success_risen(figures),
        disk_bounded(entries, flows),
        people_told(notices, flows),
        still_scheduled(entries),
    ]
    pages = Environment(loader=PackageLoader("benchmarks.week", "."), autoescape=True, undefined=StrictUndefined)
    styles = Environment(loader=PackageLoader("trajmill.flows.report"), autoescape=True)
    page = pages.get_template("week.html").render(
        style=Markup(styles.get_template("report.css").render()),
        checks=checks,
        days=_days(entries, notices),
        chart=share_chart(figures.success, "Success per split and round, with 95 % intervals"),
        report=report.relative_to(folder),
    )
    (folder / _PAGE).write_text(page, encoding="utf-8")
    for check in checks:
        print(f"{'holds' if check.holds else 'FAILS'}  {check.name}: {check.figures}")
    print(f"page   {folder / _PAGE}")
    if not all(check.holds for check in checks):
        raise SystemExit(1)


def _days(entries: Sequence[Entry], notices: Sequence[dict[str, str]]) -> list[Day]:
    days = []
    for name, day in DAYS.items():
        own = [entry for entry in entries if entry.day == name]
        if not own:
            continue
        told = [
            Entry(notice["at"], name, "told", f"{notice['subject']}: {notice['what']}")
            for notice in notices
            if own[0].at[:19] <= notice["at"][:19] <= own[-1].at[:19]
        ]
        happened = sorted([*(entry for entry in own if entry.kind != "over"), *told], key=lambda entry: entry.at)
        days.append(Day(name, (day.__doc__ or "").replace("`", ""), tuple(happened), own[-1].number / 1e6))
    return days
