"""Writes the report of a run as one HTML file: styles, charts and pictures are inside it."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from flows.report.charts import segment_names, share_chart, stacked_bars
from flows.report.figures import connect, read_figures
from flows.report.filmstrips import filmstrips, pick_trajectories
from schemas.errors import BadInputError
from warehouse.atomic import write_text
from warehouse.layout import Warehouse
from warehouse.views import refresh_views


def write_report(warehouse: Warehouse, run_id: str) -> Path:
    """Write `runs/RUN/report.html` from what the run has committed, and return its path."""
    refresh_views(warehouse)
    path = warehouse.run(run_id) / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, render_report(warehouse, run_id))
    return path


def render_report(warehouse: Warehouse, run_id: str) -> str:
    """The report as HTML; the warehouse's views must be up to date.

    Everything that a model or a screen said is escaped.
    """
    figures = read_figures(warehouse, run_id)
    pages = Environment(
        loader=PackageLoader("flows.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["percent"] = _percent
    pages.filters["plain"] = _plain
    return pages.get_template("report.html").render(
        figures=figures,
        style=Markup(pages.get_template("report.css").render()),  # the package's own file, not text of a model
        success_chart=share_chart(figures.success, "Success per split and round, with 95 % intervals"),
        attempts_chart=share_chart(figures.attempts, "Success of guided and unguided attempts per round"),
        seconds_chart=stacked_bars(figures.seconds, "Seconds per stage and round"),
        seconds_names=segment_names(figures.seconds),
        filmstrips=filmstrips(warehouse, run_id, pick_trajectories(warehouse, run_id)),
    )


def latest_run(warehouse: Warehouse) -> str:
    """The run with the newest committed row of `rounds`.

    Raises:
        BadInputError: no round has been finished.
    """
    refresh_views(warehouse)
    with connect(warehouse) as views:
        found = views.execute("SELECT run_id, max(round) FROM rounds GROUP BY ALL").fetchall()
    if not found:
        raise BadInputError(f"{warehouse.root} has no finished round yet; run `trajmill evolve`")
    if len(found) > 1:
        names = ", ".join(sorted(row[0] for row in found))
        raise BadInputError(f"{warehouse.root} has several runs; name one of them with --run: {names}")
    return str(found[0][0])


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _plain(number: float | None) -> str:
    return "–" if number is None else f"{number:.3f}"
