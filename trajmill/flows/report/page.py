"""The report of a run: one self-contained HTML page, with warnings, the nights of the run, and charts.

Charts are inline SVG without scripts or fonts. Their colours are classes (`series-0`, `series-1`, ...) that the page's
style sheet defines for light and dark.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from PIL import Image

from trajmill.flows.nights.log import ended_flows, needs_person
from trajmill.flows.report.figures import SPLIT_NAMES, Bar, Figures, RunViews, Series, money, read_figures, run_views
from trajmill.flows.terminal.show import role_lines
from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import the_one
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
WIDTH = 760
LINE_HEIGHT = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 200, 14, 34
_LABEL_GAP = 17.0
_BAR, _BAR_GAP = 18, 8


def write_report(warehouse: Warehouse, run_id: str, out: Path | None = None) -> Path:
    """Write the report from what the run has committed to a file, or to `runs/RUN/report.html`, and return its path.

    Raises BadInputError if it cannot be written there.
    """
    path, page = out or warehouse.run(run_id) / "report.html", render_report(warehouse, run_id)
    try:
        write_bytes(path, page.encode())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", error)
        raise BadInputError(
            f"{path} cannot be written ({why}); name another file: `trajmill report --out FILE`"
        ) from error
    if out is None:
        warehouse.store.publish(warehouse.name(path))
    return path


def render_report(warehouse: Warehouse, run_id: str) -> str:
    """Render the report as HTML; all texts of models and screens are escaped."""
    with run_views(warehouse, run_id) as views:
        figures, filmstrips = read_figures(views), pick_filmstrips(views)
    pages = page_templates()
    return pages.get_template("report.html").render(
        figures=figures,
        tables=figures.tables,
        split_names=SPLIT_NAMES,
        error_names=ERROR_NAMES,
        warnings=list(warnings(figures)),
        needs=list(needs(figures)),
        nights=[
            (ended, "bad" if ended.failed else "flat" if ended.told is not None or needs_person([ended]) else "good")
            for ended in ended_flows(warehouse, run_id, 60)
        ],
        success_chart=share_chart(figures.success, "Success per split and round, with 95 % intervals"),
        attempts_chart=share_chart(figures.attempts, "Success of guided and unguided attempts per round"),
        seconds_chart=stacked_bars(figures.seconds, "Seconds per stage and round"),
        seconds_names=segment_names(figures.seconds),
        filmstrips=filmstrips,
    )


def page_templates() -> Environment:
    """The templates of pages, which escape all texts and share one style."""
    loader = PackageLoader("trajmill.flows.report")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.filters["number"] = lambda value, form: "–" if value is None else format(value, form)
    pages.filters["money"] = money
    # The distinctive part of names like `embedded-3e756bcd0d2167ea`.
    pages.filters["tail"] = lambda name: name.rpartition("-")[2][:8]
    # The package's own file, not text of a model.
    pages.globals["style"] = Markup(pages.get_template("report.css").render())
    return pages


def runs_to_report(warehouse: Warehouse, named: str | None, configured: str | None) -> list[str]:
    """Return the runs to report: the named one, else the configured one, else all if none is configured.

    A configured run that is not there is replaced by the only one that is. Raises BadInputError if the named run has no
    finished round, or there are several to choose from.
    """
    with run_views(warehouse) as views:
        found = views.connection.execute("SELECT DISTINCT run_id FROM rounds ORDER BY 1").fetchall()
    runs = [str(row[0]) for row in found]
    if named is not None:
        return [the_one(named, runs, f"{warehouse.address} has no finished round of a run {named!r}")]
    if configured is not None and configured in runs:
        return [configured]
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
    if figures.rounds and not (last := figures.tables["rounds"][-1]).trained:
        yield f"Round {last.round} did not train: {last.reason or 'it was told not to'}."
    for row in figures.tables["unrewarded"]:
        yield f"{row.attempts:,} attempts have no reward ({row.reason}): see `trajmill view`."
    for row in figures.tables["malformed"]:
        yield f"{row.malformed:,} of {row.replies:,} replies of {row.agent}'s {row.role} are malformed."
    if rows := figures.tables["failures"]:
        yield f"{sum(row.failures for row in rows):,} inputs became no row, most of them in {rows[0].stage}."


class FilmstripFrame(NamedTuple):
    step: Step
    image: str
    """Data URI of the marked screenshot, scaled down."""
    wide: bool
    label: str
    """GOOD, NEUTRAL, HARMFUL, or empty."""
    roles: Mapping[str, str]


class Filmstrip(NamedTuple):
    title: str
    episode: Episode
    frames: tuple[FilmstripFrame, ...]


def pick_filmstrips(views: RunViews) -> tuple[Filmstrip, ...]:
    """Pick an early failure, a late success at the same query, a guided success and a wrong judgement, if any."""
    picked, titles = views.rows("filmstrips"), dict[str, str]()
    for row in picked:
        titles.setdefault(row.trajectory_id, row.title)
    rounds = {row.round for row in picked}
    episodes = read_episodes(views.warehouse, views.run_id, list(titles), sorted(rounds), with_verdicts=True)
    screens = WarehouseScreens(views.warehouse)
    return tuple(_filmstrip(title, episodes[trajectory_id], screens) for trajectory_id, title in titles.items())


def _filmstrip(title: str, episode: Episode, screens: WarehouseScreens) -> Filmstrip:
    labels, frames = {verdict.index: str(verdict.label) for verdict in episode.step_verdicts}, []
    for step in episode.steps[:12]:
        image, packed = Image.open(io.BytesIO(marked_picture(step, screens).encode())).convert("RGB"), io.BytesIO()
        width = 420 if (wide := image.width > image.height) else 216
        small = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
        small.save(packed, format="WEBP", quality=72)
        uri = f"data:image/webp;base64,{base64.b64encode(packed.getvalue()).decode('ascii')}"
        frames.append(FilmstripFrame(step, uri, wide, labels.get(step.index, ""), role_lines(step)))
    return Filmstrip(title, episode, tuple(frames))


def share_chart(series: Sequence[Series], title: str) -> Markup:
    """Draw shares over the rounds; each line has the band of its interval and a label at its end."""
    lines = [(index, line) for index, line in enumerate(series) if line.points]
    rounds: list[int] = sorted({point.round for _, line in lines for point in line.points})
    if not rounds:
        return Markup("")
    right = WIDTH - _RIGHT

    def x(number: int) -> float:
        return _LEFT + (number - rounds[0]) / max(rounds[-1] - rounds[0], 1) * (right - _LEFT)

    def y(share: float) -> float:
        return _TOP + (1.0 - share) * (LINE_HEIGHT - _TOP - _BOTTOM)

    parts, drawn = [_text((_LEFT + right) / 2, LINE_HEIGHT - 4, "round", "axis", "middle")], list[str]()
    for percent in (0, 25, 50, 75, 100):
        at = y(percent / 100)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(_text(_LEFT - 8, at + 4, f"{percent} %", "axis", "end"))
    for number in rounds[:: max(1, len(rounds) // 12)]:
        parts.append(_text(x(number), LINE_HEIGHT - 18, str(number), "axis", "middle"))
    for index, line in lines:
        upper, middle, lower = (
            [f"{x(p.round):.1f},{y(getattr(p, name)):.1f}" for p in line.points] for name in ("high", "share", "low")
        )
        parts.append(f'<polygon class="band series-{index}" points="{" ".join(upper + lower[::-1])}"/>')
        drawn.append(f'<polyline class="line series-{index}" points="{" ".join(middle)}"/>')
        drawn += [
            f'<circle class="dot series-{index}" cx="{x(p.round):.1f}" cy="{y(p.share):.1f}" r="3.2"><title>'
            f"{escape(line.name)}, round {p.round}: {p.share:.0%} ({p.low:.0%} to {p.high:.0%})</title></circle>"
            for p in line.points
        ]
    parts += drawn
    # Labels are moved apart where lines end close together.
    ordered = sorted(lines, key=lambda item: -item[1].points[-1].share)
    heights: list[float] = []
    for _, line in ordered:
        height = y(line.points[-1].share)
        heights.append(max(height, heights[-1] + _LABEL_GAP) if heights else height)
    too_low = max(0.0, heights[-1] - (LINE_HEIGHT - _BOTTOM + 4))
    for height, (index, line) in zip(heights, ordered, strict=True):
        label = f"{line.points[-1].share:.0%}  {line.name}"
        parts.append(_text(right + 12, height - too_low + 4, label, f"label series-{index}", "start"))
    return _svg(LINE_HEIGHT, title, parts)


def stacked_bars(bars: Sequence[Bar], title: str) -> Markup:
    """Draw horizontal stacked bars on one common scale; segments of one name have one colour."""
    longest = max((sum(bar.segments.values()) for bar in bars), default=0.0)
    if longest <= 0.0:
        return Markup("")
    names, room, parts = segment_names(bars), WIDTH - 84 - 92, list[str]()
    for row, bar in enumerate(bars):
        top, x = row * (_BAR + _BAR_GAP), 84.0
        parts.append(_text(76, top + _BAR - 5, bar.label, "axis", "end"))
        for name, amount in bar.segments.items():
            if amount > 0.0:
                wide = amount / longest * room
                parts.append(
                    f'<rect class="series-{names.index(name)}" x="{x:.1f}" y="{top}" height="{_BAR}" '
                    f'width="{max(wide - 1, 0):.1f}"><title>{escape(name)}: {amount:.1f}</title></rect>'
                )
                x += wide
        parts.append(_text(x + 6, top + _BAR - 5, bar.note, "axis", "start"))
    return _svg(len(bars) * (_BAR + _BAR_GAP), title, parts)


def segment_names(bars: Sequence[Bar]) -> list[str]:
    return list(dict.fromkeys(name for bar in bars for name, amount in bar.segments.items() if amount > 0.0))


def _text(x: float, y: float, words: str, style: str, anchor: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(height: int, title: str, parts: Iterable[str]) -> Markup:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
    return Markup(f"{head}{''.join(parts)}</svg>")  # every word in it went through `escape`
