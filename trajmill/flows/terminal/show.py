"""Prints one trajectory on the terminal, with its steps and verdicts, and writes its pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from trajmill.pipelines.reading.episodes import read_role_calls
from trajmill.pipelines.reading.trajectory import places_of, read_trajectory
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.verdict import StepVerdict
from trajmill.warehouse.layout import Warehouse

_LABEL_STYLES = {"GOOD": "green", "NEUTRAL": "dim", "HARMFUL": "red"}
SHOWN: Final = (
    *("outcome", "feedback", "notes", "completed", "plan", "knowledge"),  # Mobile-Agent-v3; CODA has a plan, too
    *("instruction", "state"),  # CES
    *("device", "atomic_tasks", "answers"),  # LightManus, which has an instruction, too
)
"""The role outputs that are shown, in order; others are kept for the agent alone."""


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
    places = places_of(warehouse, start)
    if len(places) != 1:
        raise BadInputError(_not_one(start, len(places)))
    [place] = places
    records = read_trajectory(warehouse, place)
    if records.query is None:
        raise BadInputError(f"{warehouse.root}: the query of trajectory {place.trajectory_id} is missing")
    judgements = [row for row in records.judgements if row.judge is None]
    votes = tuple(vote for vote in records.votes if vote.judge is None)
    episode = Episode(
        query=records.query,
        trajectory=records.trajectory,
        guidance=records.guidance.text if records.guidance else "",
        steps=records.steps,
        step_verdicts=tuple(verdict for verdict in records.step_verdicts if verdict.judge is None),
        trajectory_verdicts=votes,
        judgement=judgements[-1] if judgements else None,
    )
    shown = tuple(ShownVote(vote.channel.value, vote.correct, vote.reason) for vote in votes)
    ids = [place.trajectory_id]
    calls = read_role_calls(warehouse, place.run_id, ids, [place.round]) if with_calls else {}
    return ShownTrajectory(episode, shown, episode.guidance or None, calls.get(place.trajectory_id, ()))


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
            console.print(_line(f"     {name}: {text}", "dim"), soft_wrap=True)


def write_images(shown: ShownTrajectory, warehouse: Warehouse, folder: Path) -> tuple[Path, ...]:
    """Write the screen before each step with its action drawn, and the last screen; returns the files.

    Raises:
        BadInputError: the folder cannot be made or written to.
    """
    # Without pictures a tenth of a second is saved.
    from trajmill.stages.critics.model.marking import marked_screen
    from trajmill.warehouse.screens import WarehouseScreens

    screens = WarehouseScreens(warehouse)
    steps = shown.episode.steps
    pictures = [
        (f"{step.index + 1:02d}-{_file_word(step.action_kind)}.png", marked_screen(step, screens)) for step in steps
    ]
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
    yield _line(episode.query.instruction, "bold")
    yield _line(
        f"trajectory {trajectory.trajectory_id}, round {trajectory.round}, {trajectory.purpose} attempt of "
        f"{trajectory.agent} ({trajectory.model_version}) on {episode.query.platform}"
    )
    yield _line(f"{trajectory.steps} steps, stopped by {trajectory.stop_reason}, reward {_reward(trajectory.reward)}")
    if trajectory.failure_message:
        yield _line(f"failed ({trajectory.failure_class}): {trajectory.failure_message}", "red")
    if shown.guidance:
        yield _line(f"guidance: {shown.guidance}")
    if episode.judgement is not None:
        correct = episode.judgement.correct
        verdict = "correct" if correct else "not correct"
        yield _line(f"judged {verdict} by {episode.judgement.rule}", "green" if correct else "red")
    for vote in shown.votes:
        yield _line(f"  {vote.channel}: {'correct' if vote.correct else 'not correct'}; {vote.reason}")


def _step(step: Step, verdict: StepVerdict | None) -> Iterable[Text]:
    yield _line(f"{step.index + 1:>3}  {step.action or 'no action could be read'}", "bold")
    yield _line(f"     thought     {step.thought}")
    yield _line(f"     conclusion  {step.conclusion}")
    for name, text in role_lines(step):
        yield _line(f"     {name:<10}  {text}", "cyan")
    if verdict is not None:
        line = _line(f"     critic      {verdict.label}", _LABEL_STYLES[verdict.label])
        yield line.append(_plain(f"  {verdict.analysis}"))


def _line(text: str, style: str = "") -> Text:
    return Text(_plain(text), style=style)


def _reward(reward: float | None) -> str:
    return "none" if reward is None else f"{reward:g}"


def _plain(text: str) -> str:
    """Text of any origin on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _file_word(text: str) -> str:
    """Text of any origin as a part of a file's name."""
    return re.sub(r"[^a-z_]", "_", text)[:40]


class RoleLine(NamedTuple):
    """One output of the roles at a step."""

    name: str
    text: str
    """On one line: the items of a list are separated by semicolons."""


def role_lines(step: Step) -> tuple[RoleLine, ...]:
    """The outputs of other roles at a step, without empty ones."""
    outputs = json.loads(step.role_outputs)
    return tuple(RoleLine(name, "; ".join(outputs[name].splitlines())) for name in SHOWN if outputs.get(name))


def call_lines(calls: Iterable[ModelCall]) -> Iterable[RoleLine]:
    """What each role was asked and answered: texts of the messages, a screen as its id."""
    for call in calls:
        yield RoleLine(f"{call.role} is asked", " | ".join(_parts(call.messages)))
        yield RoleLine(f"{call.role} says", f"{call.response} ({call.made_by}, {call.output_tokens} tokens)")


def _parts(messages: str) -> Iterable[str]:
    for message in json.loads(messages):
        # The system message is the same at every step.
        if message["role"] != "system":
            yield from (
                part if isinstance(part, str) else f"[screen {part['screen'][:8]}]" for part in message["content"]
            )
