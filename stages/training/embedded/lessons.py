"""Turns the files of a release into lessons for the embedded policy; images are not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from trajmill.schemas.actions import Action, Click
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlDesktop, GuiOwlMobile
from trajmill.schemas.dialects.user_text import read
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.stages.export.selection import released_rows, screen_files
from trajmill.stages.export.trl.exporter import SFT_FILE
from trajmill.stages.export.verl.exporter import RL_FILE
from trajmill.stages.models.embedded.network.batch import bags, collate
from trajmill.stages.models.embedded.reading.candidates import CandidateAction
from trajmill.stages.models.embedded.reading.situation import InputReader, Situation, empty_situation
from trajmill.stages.training.embedded.lesson_batch import Lessons

_SFT_COLUMNS = ["prompt", "completion", "screen_ids", "loss_weight"]
_RL_COLUMNS = ["prompt", "response", "screen_ids", "advantage", "step_weight"]


class Turn(NamedTuple):
    """One prompt, the reply given to it and how much it counts."""

    system: str
    user: str
    reply: str
    screen_id: str
    weight: float


class SeenScreen(NamedTuple):
    """Size and accessibility tree of a stored screen."""

    size: Size
    elements: tuple[UIElement, ...]


def sft_lessons(release: Path) -> Lessons:
    """The supervised rows of a release.

    Raises:
        BadInputError: a file of the release is missing, or was not written by trajmill.
    """
    with _damage_as_error(release):
        rows = released_rows(release, SFT_FILE, _SFT_COLUMNS).to_pylist()
    turns = [_turn(row, _text(row["completion"][-1]["content"]), row["loss_weight"]) for row in rows]
    return lessons(turns, _screens(release))


def rl_lessons(release: Path) -> Lessons:
    """The RL rows of a release; a lesson's weight is advantage times step weight (paper 3.1.2).

    Raises:
        BadInputError: the release has no RL rows, or a file of it was not written by trajmill.
    """
    if not (release / RL_FILE).exists():
        raise BadInputError(f"{release} has no RL rows: nothing to compare; set rollout.group_size to 2 or more")
    with _damage_as_error(release):
        rows = pq.read_table(release / RL_FILE, columns=_RL_COLUMNS).to_pylist()
    turns = [_turn(row, row["response"], row["advantage"] * row["step_weight"]) for row in rows]
    return lessons(turns, _screens(release))


def lessons(turns: Iterable[Turn], screens: dict[str, SeenScreen]) -> Lessons:
    """The lessons of some turns; a turn whose action is no candidate of its screen is skipped."""
    reader = InputReader()
    situations: list[Situation] = []
    labels, weights, skipped = [], [], 0
    for turn in turns:
        lesson = _lesson(turn, screens.get(turn.screen_id), reader)
        if lesson is None:
            skipped += 1
            continue
        situations.append(lesson.situation)
        labels.append(lesson.label)
        weights.append(turn.weight)
    return Lessons(
        collate(situations or [empty_situation()]),
        torch.tensor(labels, dtype=torch.long),
        torch.tensor(weights, dtype=torch.float32),
        bags(reader.lexicon, range(len(reader.lexicon.buckets))),
        skipped,
    )


class _Lesson(NamedTuple):
    situation: Situation
    label: int


def _lesson(turn: Turn, screen: SeenScreen | None, reader: InputReader) -> _Lesson | None:
    if screen is None:
        return None
    phone = '"name": "computer_use"' not in turn.system
    dialect = GuiOwlMobile() if phone else GuiOwlDesktop()
    reply = dialect.parse(turn.reply, native_frame(screen.size))
    if not isinstance(reply, Reply):
        return None
    user = read(turn.user.replace(IMAGE_PLACEHOLDER, ""))
    policy_input = reader.read(user, turn.screen_id, screen.size, screen.elements, phone=phone)
    label = chosen_candidate(policy_input.candidates, reply.action, phone=phone)
    return None if label is None else _Lesson(policy_input.situation, label)


def chosen_candidate(candidates: Sequence[CandidateAction], action: Action, *, phone: bool) -> int | None:
    """Index of the candidate that does the same as an action; None if there is none.

    A press anywhere on an element counts as a press on it; of nested elements, the smallest counts.
    """
    for index, candidate in enumerate(candidates):
        if candidate.action(phone=phone) == action:
            return index
    if not isinstance(action, Click):
        return None
    verb = "open" if action.count == 2 else "press"
    under = [i for i, c in enumerate(candidates) if c.verb == verb and c.bounds.contains(action.x, action.y)]
    return min(under, key=lambda index: candidates[index].bounds.area, default=None)


def _turn(row: dict[str, Any], reply: str, weight: float) -> Turn:
    system = next((_text(message["content"]) for message in row["prompt"] if message["role"] == "system"), "")
    return Turn(system, _text(row["prompt"][-1]["content"]), reply, row["screen_ids"][-1], weight)


def _text(content: str | list[dict[str, str]]) -> str:
    """The text of a message, whose content is a string or a list of blocks."""
    return content if isinstance(content, str) else "".join(block["text"] or "" for block in content)


def _screens(release: Path) -> dict[str, SeenScreen]:
    columns = ["screen_id", "width", "height", "elements"]
    with _damage_as_error(release):
        rows = [row for path in screen_files(release) for row in pq.read_table(path, columns=columns).to_pylist()]
    return {
        row["screen_id"]: SeenScreen(
            Size(row["width"], row["height"]), tuple(_element(element) for element in row["elements"])
        )
        for row in rows
    }


def _element(row: dict[str, Any]) -> UIElement:
    return UIElement(
        row["role"], row["text"], Box(*row["bounds"]), tuple(row["states"]), row["value"], row["element_id"]
    )


@contextmanager
def _damage_as_error(release: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise BadInputError(f"{release}: a file of the release cannot be read ({error}); make it again") from error
