"""The report of a run: one self-contained HTML page, with warnings and the nights of the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trajmill.flows.nights.log import EndedFlow, ended_flows, needs_person
from trajmill.flows.report.charts import Series, segment_names, share_chart, stacked_bars
from trajmill.flows.report.details import read_details
from trajmill.flows.report.figures import Figures, JudgeColumn, ModelRow, read_figures
from trajmill.flows.report.filmstrips import filmstrips, pick_trajectories
from trajmill.flows.report.metrics import read_metrics
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.atomic import write_text
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.views import connect, fresh_views, refresh_views

_KAPPA_FALL = 0.1
"""A smaller fall from one round to another is taken for chance."""
_MOST_ROWS = 60


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


def warnings(figures: Figures) -> tuple[str, ...]:
    """A line for each split that fell while versions were promoted, and each judge that agrees less than before."""
    return (*_fallen_splits(figures.success, figures.models), *_fallen_kappas(figures.judge, figures.rounds))


def _fallen_splits(success: Sequence[Series], models: Sequence[ModelRow]) -> Iterator[str]:
    """A split has fallen if the 95 % intervals of its best and of its last figure do not meet."""
    for line in success:
        best, last = max(line.points, key=lambda point: point.share), line.points[-1]
        promoted = [row.round for row in models if row.promoted and best.round < row.round <= last.round]
        if promoted and last.high < best.low:
            yield (
                f"Success on {line.name} fell from {best.share:.0%} after round {best.round} to {last.share:.0%} after "
                f"round {last.round}, while {len(promoted)} {'versions were' if len(promoted) > 1 else 'version was'} "
                "promoted"
            )


def _fallen_kappas(judge: Sequence[JudgeColumn], rounds: Sequence[int]) -> Iterator[str]:
    for column in judge:
        measured = [
            (number, cell.kappa)
            for number, cell in zip(rounds, column.cells, strict=True)
            if cell is not None and cell.kappa is not None
        ]
        if not measured:
            continue
        (best_round, best), (last_round, last) = max(measured, key=lambda pair: pair[1]), measured[-1]
        if last < best - _KAPPA_FALL:
            yield (
                f"Kappa of the judge's level {column.level!r} fell from {best:.2f} in round {best_round} to {last:.2f} "
                f"in round {last_round}: look at its verdicts, or calibrate it anew"
            )


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
