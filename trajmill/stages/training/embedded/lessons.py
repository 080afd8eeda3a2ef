"""Turns the files of a release into lessons for the embedded policy; images are not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.export.exporter import RL_FILE, SFT_FILE
from trajmill.stages.export.release import released_rows, screen_files
from trajmill.stages.models.embedded.network_inputs import Bags, Batch, bags, collate
from trajmill.stages.models.embedded.situation import InputReader, empty_situation
from trajmill.stages.training.embedded.detours import detours
from trajmill.stages.training.embedded.lesson_steps import SeenScreen, Turn, lesson_steps
from trajmill.stages.training.embedded.strange_apps import App, apps_of

_STEP_COLUMNS = ["prompt", "screen_ids", "trajectory_id", "step_index"]
_SFT_COLUMNS = [*_STEP_COLUMNS, "completion", "loss_weight"]
_RL_COLUMNS = [*_STEP_COLUMNS, "response", "advantage", "step_weight"]


@dataclass(frozen=True, slots=True)
class Lessons:
    """Situations with the action to learn in each."""

    situations: Batch
    labels: Tensor
    """(rows,) index of the candidate that was chosen."""
    weights: Tensor
    """(rows,) loss weight; in RL it is the advantage times the step weight."""
    bags: Bags
    """The words of all situations."""
    apps: tuple[App, ...]
    """The apps on the launchers of all situations."""
    left_apps: Tensor
    """(rows,) code of the icon of the app that a detour leaves; 0 for every other lesson."""
    detours: int
    """Number of lessons, the last ones, that are detours and no row of the release."""
    skipped: int
    """Rows whose action is none of the candidates."""

    def __len__(self) -> int:
        return len(self.labels)


def sft_lessons(release: Path, detour_share: float = 0.0, seed: int = 0) -> Lessons:
    """Return the supervised rows of a release, with detours, see `lessons`.

    Raises:
        BadInputError: a file of the release is missing, or was not written by trajmill.
    """
    with _damage_as_error(release):
        rows = released_rows(release, SFT_FILE, _SFT_COLUMNS).to_pylist()
    turns = [_turn(row, _text(row["completion"][-1]["content"]), row["loss_weight"]) for row in rows]
    return lessons(turns, _screens(release), detour_share, seed)


def rl_lessons(release: Path) -> Lessons:
    """Return the RL rows of a release; a lesson's weight is advantage times step weight (paper 3.1.2).

    Raises:
        BadInputError: the release has no RL rows, or a file of it was not written by trajmill.
    """
    if not (release / RL_FILE).exists():
        raise BadInputError(f"{release} has no RL rows: nothing to compare; set rollout.group_size to 2 or more")
    with _damage_as_error(release):
        rows = pq.read_table(release / RL_FILE, columns=_RL_COLUMNS).to_pylist()
    turns = [_turn(row, row["response"], row["advantage"] * row["step_weight"]) for row in rows]
    return lessons(turns, _screens(release))


def lessons(
    turns: Iterable[Turn], screens: Mapping[str, SeenScreen], detour_share: float = 0.0, seed: int = 0
) -> Lessons:
    """Return the lessons of some turns, and of their detours; a turn whose action is no candidate is skipped.

    Args:
        turns: the turns to learn from.
        screens: the screens of the turns, by id.
        detour_share: probability that a press on an entry is preceded by wrong ones, see `detours`.
        seed: of the draws of detours.
    """
    turns, reader = list(turns), InputReader()
    steps = lesson_steps(turns, screens, reader)
    more = detours(steps, screens, reader, detour_share, seed)
    situations = [step.policy_input.situation for step in steps] + [each.situation for each in more]
    return Lessons(
        collate(situations or [empty_situation()]),
        torch.tensor([step.label for step in steps] + [each.label for each in more], dtype=torch.long),
        torch.tensor([step.turn.weight for step in steps] + [each.weight for each in more], dtype=torch.float32),
        bags(reader.lexicon, range(len(reader.lexicon.buckets))),
        apps_of(steps),
        torch.tensor([0] * len(steps) + [each.left_app for each in more], dtype=torch.long),
        len(more),
        len(turns) - len(steps),
    )


def _turn(row: dict[str, Any], reply: str, weight: float) -> Turn:
    system = next((_text(message["content"]) for message in row["prompt"] if message["role"] == "system"), "")
    user = _text(row["prompt"][-1]["content"])
    return Turn(system, user, reply, row["screen_ids"][-1], weight, row["trajectory_id"], row["step_index"])


def _text(content: str | list[dict[str, str]]) -> str:
    """The text of a message, whose content is a string or a list of blocks."""
    return content if isinstance(content, str) else "".join(block["text"] or "" for block in content)


def _screens(release: Path) -> dict[str, SeenScreen]:
    columns = ["screen_id", "width", "height", "elements"]
    with _damage_as_error(release):
        rows = [row for path in screen_files(release) for row in pq.read_table(path, columns=columns).to_pylist()]
    return {
        row["screen_id"]: SeenScreen(
            Size(row["width"], row["height"]),
            tuple(
                UIElement(e["role"], e["text"], Box(*e["bounds"]), tuple(e["states"]), e["value"], e["element_id"])
                for e in row["elements"]
            ),
        )
        for row in rows
    }


@contextmanager
def _damage_as_error(release: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise BadInputError(f"{release}: a file of the release cannot be read ({error}); make it again") from error
