"""Prints one trajectory on the terminal, with its steps and verdicts, and writes its pictures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.verdict import StepVerdict
from trajmill.stages.critics.model.marking import marked_screen
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.views import connect, refresh_views

_LABEL_STYLES = {"GOOD": "green", "NEUTRAL": "dim", "HARMFUL": "red"}


class ShownVote(NamedTuple):
    """One vote of one channel."""

    channel: str
    correct: bool
    reason: str


class ShownTrajectory(NamedTuple):
    """A trajectory with its votes and guidance."""

    episode: Episode
    votes: tuple[ShownVote, ...]
    guidance: str | None


def find_trajectory(warehouse: Warehouse, start: str) -> ShownTrajectory:
    """The trajectory whose id starts with `start`.

    Raises:
        BadInputError: there is none, or more than one.
    """
    refresh_views(warehouse)
    with connect(warehouse) as views:
        ids = views.execute(
            "SELECT DISTINCT trajectory_id, run_id FROM trajectories WHERE starts_with(trajectory_id, $1) LIMIT 2",
            [start],
        ).fetchall()
        if len(ids) != 1:
            raise BadInputError(_not_one(start, len(ids)))
        trajectory_id, run_id = ids[0]
        votes = views.execute(
            "SELECT channel, correct, reason FROM trajectory_verdicts WHERE trajectory_id = $1 AND run_id = $2 "
            "AND judge IS NULL ORDER BY channel, vote",
            [trajectory_id, run_id],
        ).fetchall()
        guidance = views.execute(
            "SELECT g.text FROM guidance AS g JOIN trajectories AS t USING (guidance_id) WHERE t.trajectory_id = $1",
            [trajectory_id],
        ).fetchone()
    (episode,) = read_episodes(warehouse, run_id, [trajectory_id], with_verdicts=True)
    return ShownTrajectory(
        episode, tuple(ShownVote(*vote) for vote in votes), None if guidance is None else guidance[0]
    )


def print_trajectory(shown: ShownTrajectory, console: Console) -> None:
    """Print a trajectory; texts of models and screens are printed without markup."""
    for line in _heading(shown):
        console.print(line, soft_wrap=True)
    verdicts = {verdict.index: verdict for verdict in shown.episode.step_verdicts}
    for step in shown.episode.steps:
        console.print()
        for line in _step(step, verdicts.get(step.index)):
            console.print(line, soft_wrap=True)


def write_images(shown: ShownTrajectory, warehouse: Warehouse, folder: Path) -> tuple[Path, ...]:
    """Write the screen before each step with its action drawn, and the last screen; returns the files.

    Raises:
        BadInputError: the folder cannot be made or written to.
    """
    screens = WarehouseScreens(warehouse)
    steps = shown.episode.steps
    pictures = [(f"{step.index + 1:02d}-{step.action_kind}.png", marked_screen(step, screens)) for step in steps]
    if steps:
        pictures.append((f"{len(steps) + 1:02d}-end.png", screens.image(steps[-1].screen_after)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures:
            (folder / name).write_bytes(picture)
    except OSError as error:
        raise BadInputError(f"{folder}: pictures cannot be written there: {error.strerror}") from None
    return tuple(folder / name for name, _ in pictures)


def _not_one(start: str, found: int) -> str:
    shown = _plain(start)[:40]
    if found:
        return f"several trajectories start with {shown!r}; give more of the id"
    return f'no trajectory starts with {shown!r}; `trajmill sql "SELECT trajectory_id FROM trajectories"` lists them'


def _heading(shown: ShownTrajectory) -> Iterable[Text]:
    episode = shown.episode
    trajectory = episode.trajectory
    yield Text(_plain(episode.query.instruction), style="bold")
    yield Text(
        f"trajectory {trajectory.trajectory_id}, round {trajectory.round}, {trajectory.purpose} attempt of "
        f"{trajectory.agent} ({trajectory.model_version}) on {episode.query.platform}"
    )
    yield Text(f"{trajectory.steps} steps, stopped by {trajectory.stop_reason}, reward {_reward(trajectory.reward)}")
    if trajectory.failure_message:
        yield Text(f"failed ({trajectory.failure_class}): {_plain(trajectory.failure_message)}", style="red")
    if shown.guidance:
        yield Text(f"guidance: {_plain(shown.guidance)}")
    if episode.judgement is not None:
        verdict = "correct" if episode.judgement.correct else "not correct"
        yield Text(
            f"judged {verdict} by {episode.judgement.rule}", style="green" if episode.judgement.correct else "red"
        )
    for vote in shown.votes:
        yield Text(f"  {vote.channel}: {'correct' if vote.correct else 'not correct'}; {_plain(vote.reason)}")


def _step(step: Step, verdict: StepVerdict | None) -> Iterable[Text]:
    yield Text(f"{step.index + 1:>3}  {_plain(step.action or 'no action could be read')}", style="bold")
    yield Text(f"     thought     {_plain(step.thought)}")
    yield Text(f"     conclusion  {_plain(step.conclusion)}")
    if verdict is not None:
        line = Text(f"     critic      {verdict.label}", style=_LABEL_STYLES[verdict.label])
        yield line.append(f"  {_plain(verdict.analysis)}")


def _reward(reward: float | None) -> str:
    return "none" if reward is None else f"{reward:g}"


def _plain(text: str) -> str:
    """Untrusted text on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
