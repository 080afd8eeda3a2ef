"""Writes the report of a run as one HTML file: styles, charts and pictures are inside it."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trajmill.flows.report.charts import segment_names, share_chart, stacked_bars
from trajmill.flows.report.details import read_details
from trajmill.flows.report.figures import read_figures
from trajmill.flows.report.filmstrips import filmstrips, pick_trajectories
from trajmill.flows.report.metrics import read_metrics
from trajmill.flows.report.nights import read_nights
from trajmill.flows.report.warnings import warnings
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.atomic import write_text
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.views import connect, fresh_views, refresh_views


def write_report(warehouse: Warehouse, run_id: str, out: Path | None = None) -> Path:
    """Write the report from what the run has committed to a file, or to `runs/RUN/report.html`, and return its path.

    Raises:
        BadInputError: it cannot be written there.
    """
    refresh_views(warehouse)
    path = out or warehouse.run(run_id) / "report.html"
    page = render_report(warehouse, run_id)
    try:
        write_text(path, page)
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be written ({error.strerror}); name another file: `trajmill report --out FILE`"
        ) from error
    if out is None:
        warehouse.store.publish(warehouse.name(path))
    return path


def render_report(warehouse: Warehouse, run_id: str) -> str:
    """The report as HTML; the warehouse's views must be up to date.

    Everything that a model or a screen said is escaped.
    """
    figures = read_figures(warehouse, run_id)
    pages = Environment(
        loader=PackageLoader("trajmill.flows.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["percent"] = _percent
    pages.filters["plain"] = _plain
    pages.filters["tail"] = _tail
    return pages.get_template("report.html").render(
        figures=figures,
        details=read_details(warehouse, run_id),
        warnings=warnings(figures),
        metrics=read_metrics(warehouse, run_id),
        nights=read_nights(warehouse, run_id),
        style=Markup(pages.get_template("report.css").render()),  # the package's own file, not text of a model
        success_chart=share_chart(figures.success, "Success per split and round, with 95 % intervals"),
        attempts_chart=share_chart(figures.attempts, "Success of guided and unguided attempts per round"),
        seconds_chart=stacked_bars(figures.seconds, "Seconds per stage and round"),
        seconds_names=segment_names(figures.seconds),
        filmstrips=filmstrips(warehouse, run_id, pick_trajectories(warehouse, run_id)),
    )


def runs_to_report(warehouse: Warehouse, named: str | None, configured: str | None) -> list[str]:
    """Return the runs to report: the named one, else the configured one, else all if none is configured.

    A configured run that is not there is replaced by the only one that is.

    Raises:
        BadInputError: it has no finished round, or there are several to choose from.
    """
    with fresh_views(warehouse) as shown, connect(shown) as views:
        runs = [str(row[0]) for row in views.execute("SELECT DISTINCT run_id FROM rounds ORDER BY 1").fetchall()]
    if named is not None and named not in runs:
        raise BadInputError(f"{warehouse.address} has no finished round of a run {named!r}; there are {runs or 'none'}")
    if named is not None:
        return [named]
    if configured in runs:
        return [configured]
    if not runs or (configured is not None and len(runs) > 1):
        wish = f"name one of its runs with --run: {', '.join(runs)}" if runs else "run `trajmill evolve`"
        raise BadInputError(f"{warehouse.address} has {len(runs) or 'no'} runs with finished rounds; {wish}")
    return runs


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _plain(number: float | None) -> str:
    return "–" if number is None else f"{number:.3f}"


def _tail(name: str) -> str:
    """The distinctive part of names like `embedded-3e756bcd0d2167ea`."""
    return name.rpartition("-")[2][:8]
