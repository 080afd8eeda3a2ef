"""A few trajectories for the report, with each step's action drawn on its screenshot."""

from __future__ import annotations

import base64
import io
from typing import NamedTuple

from PIL import Image

from trajmill.flows.report.figures import run_views
from trajmill.flows.terminal.show import RoleLine, role_lines
from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.step import Step
from trajmill.stages.critics.model.marking import marked_screen
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.screens import WarehouseScreens

FRAMES = 12
"""Steps shown of one trajectory."""
_PHONE_WIDTH, _DESKTOP_WIDTH = 216, 420
_QUALITY = 72


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


def pick_filmstrips(warehouse: Warehouse, run_id: str) -> tuple[Filmstrip, ...]:
    """Pick an early failure, a late success at the same query, a guided success and a wrong judgement, if any."""
    titles: dict[str, str] = {}
    rounds: set[int] = set()
    with run_views(warehouse, run_id) as views:
        for title, query in _PICKS.items():
            for row in views.rows(query):
                titles.setdefault(row.trajectory_id, title)
                rounds.add(row.round)
    episodes = read_episodes(warehouse, run_id, list(titles), sorted(rounds), with_verdicts=True)
    by_id, screens = {episode.trajectory.trajectory_id: episode for episode in episodes}, WarehouseScreens(warehouse)
    return tuple(_filmstrip(title, by_id[trajectory_id], screens) for trajectory_id, title in titles.items())


def _filmstrip(title: str, episode: Episode, screens: WarehouseScreens) -> Filmstrip:
    """Show a trajectory up to its twelfth step."""
    labels, frames = {verdict.index: str(verdict.label) for verdict in episode.step_verdicts}, []
    for step in episode.steps[:FRAMES]:
        image = Image.open(io.BytesIO(marked_screen(step, screens))).convert("RGB")
        wide = image.width > image.height
        width = _DESKTOP_WIDTH if wide else _PHONE_WIDTH
        small = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
        packed = io.BytesIO()
        small.save(packed, format="WEBP", quality=_QUALITY)
        uri = f"data:image/webp;base64,{base64.b64encode(packed.getvalue()).decode('ascii')}"
        frames.append(FilmstripFrame(step, uri, wide, labels.get(step.index, ""), role_lines(step)))
    return Filmstrip(title, episode, tuple(frames))
