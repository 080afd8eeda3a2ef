"""The report of a run: one self-contained HTML page, with warnings and the nights of the run."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from trajmill.flows.nights.log import EndedFlow, ended_flows, needs_person
from trajmill.flows.report.charts import segment_names, share_chart, stacked_bars
from trajmill.flows.report.figures import SPLIT_NAMES, Figures, RunViews, money, read_figures, run_views
from trajmill.flows.terminal.show import RoleLine, role_lines
from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.critics.model.marking import marked_picture
from trajmill.warehouse.atomic import write_bytes
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.screens import WarehouseScreens

ERROR_NAMES = {
    "planning": "planning",
    "structural_compliance": "malformed replies",
    "operational": "lost or misplaced actions",
    "knowledge_deficit": "ran out of ideas",
    "perceptual": "misread values",
}
_KAPPA_FALL = 0.1
"""A smaller fall from one round to another is taken for chance."""


def write_report(warehouse: Warehouse, run_id: str, out: Path | None = None) -> Path:
    """Write the report from what the run has committed to a file, or to `runs/RUN/report.html`, and return its path.

    Raises BadInputError if it cannot be written there.
    """
    path, page = out or warehouse.run(run_id) / "report.html", render_report(warehouse, run_id)
    try:
        write_bytes(path, page.encode())
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be written ({error.strerror}); name another file: `trajmill report --out FILE`"
        ) from error
    if out is None:
        warehouse.store.publish(warehouse.name(path))
    return path


def render_report(warehouse: Warehouse, run_id: str) -> str:
    """Render the report as HTML; all texts of models and screens are escaped."""
    with run_views(warehouse, run_id) as views:
        figures, filmstrips = read_figures(views), pick_filmstrips(views)
    loader = PackageLoader("trajmill.flows.report")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.filters["number"] = lambda value, form: "–" if value is None else format(value, form)
    pages.filters["money"] = money
    # The distinctive part of names like `embedded-3e756bcd0d2167ea`.
    pages.filters["tail"] = lambda name: name.rpartition("-")[2][:8]
    return pages.get_template("report.html").render(
        figures=figures,
        tables=figures.tables,
        split_names=SPLIT_NAMES,
        error_names=ERROR_NAMES,
        warnings=list(warnings(figures)),
        needs=list(needs(figures)),
        nights=[(ended, _badge(ended)) for ended in ended_flows(warehouse, run_id, 60)],
        style=Markup(pages.get_template("report.css").render()),  # the package's own file, not text of a model
        success_chart=share_chart(figures.success, "Success per split and round, with 95 % intervals"),
        attempts_chart=share_chart(figures.attempts, "Success of guided and unguided attempts per round"),
        seconds_chart=stacked_bars(figures.seconds, "Seconds per stage and round"),
        seconds_names=segment_names(figures.seconds),
        filmstrips=filmstrips,
    )


def runs_to_report(warehouse: Warehouse, named: str | None, configured: str | None) -> list[str]:
    """Return the runs to report: the named one, else the configured one, else all if none is configured.

    A configured run that is not there is replaced by the only one that is. Raises BadInputError if the named run has no
    finished round, or there are several to choose from.
    """
    with run_views(warehouse) as views:
        found = views.connection.execute("SELECT DISTINCT run_id FROM rounds ORDER BY 1").fetchall()
    runs = [str(row[0]) for row in found]
    if named is not None and named not in runs:
        raise BadInputError(f"{warehouse.address} has no finished round of a run {named!r}; there are {runs or 'none'}")
    if named is not None or configured in runs:
        return [str(named or configured)]
    if not runs or (configured is not None and len(runs) > 1):
        advice = f"name one of its runs with --run: {', '.join(runs)}" if runs else "run `trajmill evolve`"
        raise BadInputError(f"{warehouse.address} has {len(runs) or 'no'} runs with finished rounds; {advice}")
    return runs


def warnings(figures: Figures) -> Iterator[str]:
    """Yield a line for all that fell: splits, apps and tasks while versions were promoted, and the judge's agreement.

    Something has fallen if the 95 % intervals of its best and of its last figure do not meet.
    """
    promoted = [row.round for row in figures.tables["models"] if row.promoted]
    measured = [(f"on {line.name}", line.points) for line in figures.success]
    for word, table in (("in app", figures.apps), ("at task", figures.tasks)):
        measured += [(f"{word} {name}", list(filter(None, cells))) for name, cells in table.items()]
    for what, points in measured:
        best, last = max(points, key=lambda point: point.share), points[-1]
        versions = sum(best.round < number <= last.round for number in promoted)
        if versions and last.high < best.low:
            yield (
                f"Success {what} fell from {best.successes} of {best.n} ({best.share:.0%}) after round {best.round} to "
                f"{last.successes} of {last.n} ({last.share:.0%}) after round {last.round}, while {versions} "
                f"{'versions were' if versions > 1 else 'version was'} promoted"
            )
    for level, cells in figures.judge.items():
        agreed = [cell for cell in cells if cell is not None and cell.kappa is not None]
        top = max(agreed, key=lambda cell: cell.kappa, default=None)
        if top is not None and agreed[-1].kappa < top.kappa - _KAPPA_FALL:
            yield (
                f"Kappa of the judge's level {level!r} fell from {top.kappa:.2f} in round {top.round} to "
                f"{agreed[-1].kappa:.2f} in round {agreed[-1].round}: look at its verdicts, or calibrate it anew"
            )


def needs(figures: Figures) -> Iterator[str]:
    """Yield a line for each thing that somebody should look into."""
    if figures.rounds and not (last := figures.tables["rounds"][-1]).trained:
        yield f"Round {last.round} did not train: {last.reason or 'it was told not to'}."
    for row in figures.tables["void"]:
        yield f"{row.attempts:,} attempts are void, by failures of class {row.failure_class}: see `trajmill view`."
    for row in figures.tables["malformed"]:
        yield f"{row.malformed:,} of {row.replies:,} replies of {row.agent}'s {row.role} are malformed."
    if rows := figures.tables["failures"]:
        yield f"{sum(row.failures for row in rows):,} inputs became no row, most of them in {rows[0].stage}."


def _badge(ended: EndedFlow) -> str:
    if ended.failed:
        return "bad"
    return "flat" if ended.told is not None or needs_person([ended]) else "good"


class FilmstripFrame(NamedTuple):
    step: Step
    image: str
    """Data URI of the marked screenshot, scaled down."""
    wide: bool
    label: str
    """GOOD, NEUTRAL, HARMFUL, or empty."""
    roles: tuple[RoleLine, ...]


class Filmstrip(NamedTuple):
    title: str
    episode: Episode
    frames: tuple[FilmstripFrame, ...]


_SOLVED = "t.status = 'finished' AND t.reward >= 1"
_LAST = f"""
SELECT t.trajectory_id, t.query_id, t.round FROM trajectories AS t
WHERE t.run_id = $1 AND t.purpose = 'train' AND {_SOLVED}
ORDER BY t.round DESC, abs(t.steps - 9), t.trajectory_id LIMIT 1
"""
_PICKS = {
    "The first try": f"""
SELECT t.trajectory_id, t.round FROM trajectories AS t JOIN ({_LAST}) AS last USING (query_id)
WHERE t.run_id = $1 AND t.purpose = 'train' AND t.status = 'finished' AND t.reward < 1 AND t.round < last.round
ORDER BY t.round, abs(t.steps - 9), t.trajectory_id LIMIT 1
""",
    "The same query, the last round": f"SELECT trajectory_id, round FROM ({_LAST})",
    "Solved with guidance": f"""
SELECT t.trajectory_id, t.round FROM trajectories AS t JOIN queries AS q USING (run_id, query_id)
JOIN latest_judgements AS j USING (run_id, trajectory_id)
WHERE t.run_id = $1 AND t.purpose = 'guided' AND {_SOLVED} AND j.correct
ORDER BY len(q.apps) DESC, q.platform, abs(t.steps - 9), t.trajectory_id LIMIT 1
""",
    "Where the judge and the check disagree": """
SELECT t.trajectory_id, t.round FROM disagreements AS d JOIN trajectories AS t USING (run_id, trajectory_id)
WHERE t.run_id = $1 ORDER BY t.round DESC, t.steps, t.trajectory_id LIMIT 1
""",
    "Tried": """
SELECT t.trajectory_id, t.round FROM trajectories AS t WHERE t.run_id = $1
AND NOT EXISTS (SELECT 1 FROM trajectories AS other WHERE other.run_id = $1 AND other.purpose = 'train')
ORDER BY t.status = 'finished' AND coalesce(t.reward, 0) >= 1, abs(t.steps - 9), t.trajectory_id LIMIT 6
""",
}


def pick_filmstrips(views: RunViews) -> tuple[Filmstrip, ...]:
    """Pick an early failure, a late success at the same query, a guided success and a wrong judgement, if any."""
    titles: dict[str, str] = {}
    rounds: set[int] = set()
    for title, query in _PICKS.items():
        for row in views.rows(query):
            titles.setdefault(row.trajectory_id, title)
            rounds.add(row.round)
    episodes = read_episodes(views.warehouse, views.run_id, list(titles), sorted(rounds), with_verdicts=True)
    by_id = {episode.trajectory.trajectory_id: episode for episode in episodes}
    screens = WarehouseScreens(views.warehouse)
    return tuple(_filmstrip(title, by_id[trajectory_id], screens) for trajectory_id, title in titles.items())


def _filmstrip(title: str, episode: Episode, screens: WarehouseScreens) -> Filmstrip:
    labels, frames = {verdict.index: str(verdict.label) for verdict in episode.step_verdicts}, []
    for step in episode.steps[:12]:
        image = Image.open(io.BytesIO(marked_picture(step, screens).encode())).convert("RGB")
        wide = image.width > image.height
        width = 420 if wide else 216
        small = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
        packed = io.BytesIO()
        small.save(packed, format="WEBP", quality=72)
        uri = f"data:image/webp;base64,{base64.b64encode(packed.getvalue()).decode('ascii')}"
        frames.append(FilmstripFrame(step, uri, wide, labels.get(step.index, ""), role_lines(step)))
    return Filmstrip(title, episode, tuple(frames))
