"""Prints one trajectory on the terminal, with its steps and verdicts, and writes its pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from trajmill.pipelines.reading.episodes import places_of, read_role_calls, read_trajectory
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.trajectory import Step
from trajmill.warehouse.layout import Warehouse

_LABEL_STYLES = {"GOOD": "green", "NEUTRAL": "dim", "HARMFUL": "red"}
_SHOWN: Final = (
    *("outcome", "feedback", "notes", "completed", "plan", "knowledge"),  # Mobile-Agent-v3; CODA has a plan, too
    *("instruction", "state"),  # CES
    *("device", "atomic_tasks", "answers"),  # LightManus, which has an instruction, too
)
"""The role outputs that are shown, in order; others are kept for the agent alone."""


def find_trajectory(warehouse: Warehouse, start: str, with_calls: bool = False) -> Episode:
    """Read the trajectory whose id starts with `start`, with the verdicts of the run's own judge.

    Raises BadInputError if there is none, or more than one.
    """
    places, named = places_of(warehouse, start), _plain(start)[:40]
    if not places:
        advice = '`trajmill sql "SELECT trajectory_id FROM trajectories"` lists them'
        raise BadInputError(f"no trajectory starts with {named!r}; {advice}")
    if len(places) > 1:
        raise BadInputError(f"several trajectories start with {named!r}; give more of the id")
    [place] = places
    records = read_trajectory(warehouse, place)
    if records.query is None:
        raise BadInputError(f"{warehouse.root}: the query of trajectory {place.trajectory_id} is missing")
    judgements = [row for row in records.judgements if row.judge is None]
    calls = read_role_calls(warehouse, place.run_id, [place.trajectory_id], [place.round]) if with_calls else {}
    return Episode(
        query=records.query,
        trajectory=records.trajectory,
        guidance=records.guidance.text if records.guidance else "",
        steps=records.steps,
        step_verdicts=tuple(verdict for verdict in records.step_verdicts if verdict.judge is None),
        trajectory_verdicts=tuple(vote for vote in records.votes if vote.judge is None),
        judgement=judgements[-1] if judgements else None,
        calls=calls.get(place.trajectory_id, ()),
    )


def print_trajectory(episode: Episode, console: Console) -> None:
    for line in _lines(episode):
        console.print(line, soft_wrap=True)


def write_images(episode: Episode, warehouse: Warehouse, folder: Path) -> int:
    """Write the screen before each step with its action drawn, and the last screen; return the number of files.

    Raises BadInputError if the folder cannot be made or written to.
    """
    # Without pictures a tenth of a second is saved.
    from trajmill.stages.critics.model.marking import marked_picture
    from trajmill.warehouse.screens import WarehouseScreens

    screens, pictures = WarehouseScreens(warehouse), {}
    for step in episode.steps:
        action = re.sub(r"[^a-z_]", "_", step.action_kind)[:40]
        pictures[folder / f"{step.index + 1:02d}-{action}.png"] = marked_picture(step, screens).encode()
    if episode.steps:
        pictures[folder / f"{len(episode.steps) + 1:02d}-end.png"] = screens.image(episode.steps[-1].screen_after)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, picture in pictures.items():
            path.write_bytes(picture)
    except OSError as error:
        raise BadInputError(f"{folder}: pictures cannot be written there: {error.strerror}") from None
    return len(pictures)


def _lines(episode: Episode) -> Iterator[Text]:
    trajectory = episode.trajectory
    yield _line(episode.query.instruction, "bold")
    yield _line(
        f"trajectory {trajectory.trajectory_id}, round {trajectory.round}, {trajectory.purpose} attempt of "
        f"{trajectory.agent} ({trajectory.model_version}) on {episode.query.platform}"
    )
    reward = "none" if trajectory.reward is None else f"{trajectory.reward:g}"
    yield _line(f"{trajectory.steps} steps, stopped by {trajectory.stop_reason}, reward {reward}")
    if trajectory.failure_message:
        yield _line(f"failed ({trajectory.failure_class}): {trajectory.failure_message}", "red")
    if episode.guidance:
        yield _line(f"guidance: {episode.guidance}")
    if (judgement := episode.judgement) is not None:
        verdict, style = ("correct", "green") if judgement.correct else ("not correct", "red")
        yield _line(f"judged {verdict} by {judgement.rule}", style)
    for vote in episode.trajectory_verdicts:
        yield _line(f"  {vote.channel.value}: {'correct' if vote.correct else 'not correct'}; {vote.reason}")
    verdicts = {verdict.index: verdict for verdict in episode.step_verdicts}
    for step in episode.steps:
        yield Text()
        yield _line(f"{step.index + 1:>3}  {step.action or 'no action could be read'}", "bold")
        yield _line(f"     thought     {step.thought}")
        yield _line(f"     conclusion  {step.conclusion}")
        for name, text in role_lines(step):
            yield _line(f"     {name:<10}  {text}", "cyan")
        if (found := verdicts.get(step.index)) is not None:
            line = _line(f"     critic      {found.label}", _LABEL_STYLES[found.label])
            yield line.append(_plain(f"  {found.analysis}"))
        for call in episode.calls:
            if call.step_index == step.index:
                parts = [
                    part if isinstance(part, str) else f"[screen {part['screen'][:8]}]"
                    for message in json.loads(call.messages)
                    if message["role"] != "system"  # The same at every step.
                    for part in message["content"]
                ]
                yield _line(f"     {call.role} is asked: {' | '.join(parts)}", "dim")
                said = f"{call.response} ({call.made_by}, {call.output_tokens} tokens)"
                yield _line(f"     {call.role} says: {said}", "dim")


def _line(text: str, style: str = "") -> Text:
    return Text(_plain(text), style=style)


def _plain(text: str) -> str:
    """Put text of any origin on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


class RoleLine(NamedTuple):
    name: str
    text: str
    """On one line: the items of a list are separated by semicolons."""


def role_lines(step: Step) -> tuple[RoleLine, ...]:
    outputs = json.loads(step.role_outputs)
    return tuple(RoleLine(name, "; ".join(outputs[name].splitlines())) for name in _SHOWN if outputs.get(name))
