"""Prints one trajectory on the terminal, with its steps and verdicts, and writes its pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text

from trajmill.flows.view.roles import call_lines, role_lines
from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.pipelines.reading.role_calls import read_role_calls
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import StepVerdict
from trajmill.stages.critics.model.marking import marked_screen
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import WarehouseScreens

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
    calls: tuple[ModelCall, ...] = ()
    """What its roles were asked and answered, if that is to be shown."""


def find_trajectory(warehouse: Warehouse, start: str, with_calls: bool = False) -> ShownTrajectory:
    """The trajectory whose id starts with `start`.

    Args:
        warehouse: where to look.
        start: of its id.
        with_calls: whether to read what its roles were asked and answered.

    Raises:
        BadInputError: there is none, or more than one.
    """
    found = _place(warehouse, start)
    episode = _episode(warehouse, found, [found.round])
    if episode.judgement is None and episode.trajectory.purpose is not Purpose.EVALUATE:
        # What a judge could not decide, a later round may have judged.
        episode = _episode(warehouse, found, None)
    votes = tuple(ShownVote(vote.channel.value, vote.correct, vote.reason) for vote in episode.trajectory_verdicts)
    ids = [found.trajectory_id]
    calls = read_role_calls(warehouse, found.run_id, ids, [found.round]) if with_calls else {}
    return ShownTrajectory(episode, votes, episode.guidance or None, calls.get(found.trajectory_id, ()))


class _Place(NamedTuple):
    """Where the rows of a trajectory are."""

    trajectory_id: str
    run_id: str
    round: int


def _place(warehouse: Warehouse, start: str) -> _Place:
    rows = read_table(warehouse, "trajectories", list(_Place._fields))
    found = rows.filter(pc.starts_with(rows["trajectory_id"], start)).to_pylist()
    if len(found) != 1:
        raise BadInputError(_not_one(start, len(found)))
    return _Place(**found[0])


def _episode(warehouse: Warehouse, place: _Place, rounds: Sequence[int] | None) -> Episode:
    ids = [place.trajectory_id]
    (episode,) = read_episodes(warehouse, place.run_id, ids, rounds, with_verdicts=True, with_guidance=True)
    return episode


def print_trajectory(shown: ShownTrajectory, console: Console) -> None:
    """Print a trajectory; texts of models and screens are printed without markup."""
    for line in _heading(shown):
        console.print(line, soft_wrap=True)
    verdicts = {verdict.index: verdict for verdict in shown.episode.step_verdicts}
    for step in shown.episode.steps:
        console.print()
        for line in _step(step, verdicts.get(step.index)):
            console.print(line, soft_wrap=True)
        for name, text in call_lines(call for call in shown.calls if call.step_index == step.index):
            console.print(Text(f"     {name}: {_plain(text)}", style="dim"), soft_wrap=True)


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
    for name, text in role_lines(step):
        yield Text(f"     {name:<10}  {_plain(text)}", style="cyan")
    if verdict is not None:
        line = Text(f"     critic      {verdict.label}", style=_LABEL_STYLES[verdict.label])
        yield line.append(f"  {_plain(verdict.analysis)}")


def _reward(reward: float | None) -> str:
    return "none" if reward is None else f"{reward:g}"


def _plain(text: str) -> str:
    """Untrusted text on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
