"""Reads the task pool of execution feedback: the request to a role at a step, and the action of that step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from datasets import Dataset

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.tables.query import Platform
from trajmill.stages.export.rewards import ReplyTarget
from trajmill.stages.metrics.action_match import RightAction
from trajmill.stages.models.base import ChatMessage
from trajmill.stages.training.execution_feedback.spec import CodaSpecialistSpec, FeedbackRecipe
from trajmill.stages.training.hugging_face.rows import block_messages, read_rows, shown_screens

_COLUMNS: Final = ["prompt", "variant", "target", "past", "images", "screen_ids"]
_STEP: Final = ["example_id", "trajectory_id", "step_index", "instruction"]
_COORDINATOR = "coordinator"


class FeedbackTask(NamedTuple):
    """One step at which replies of the trained role are sampled and rewarded."""

    task_id: str
    messages: tuple[ChatMessage, ...]
    """The request to the role."""
    instruction: str
    """The user's task."""
    platform: Platform
    screens: tuple[ScreenHandle, ...]
    """The screens that the Executor may be shown; the present one is the last."""
    past: tuple[tuple[str, str], ...]
    """The reply and the conclusion of each step before."""
    right: RightAction


@dataclass(frozen=True)
class FeedbackTasks:
    """The tasks of a training, read from disk lazily."""

    rows: Dataset
    chosen: Sequence[int]
    """The numbers of the rows that are tasks."""
    screens: Sequence[int]
    """For each of them, the number of the row with its screens."""

    def __len__(self) -> int:
        return len(self.chosen)

    def task(self, number: int) -> FeedbackTask:
        row, shown = self.rows[self.chosen[number]], self.rows[self.screens[number]]
        target = ReplyTarget.model_validate_json(row["target"])
        return FeedbackTask(
            row["example_id"],
            block_messages(row),
            row["instruction"],
            target.platform,
            tuple(shown_screens(shown)),
            tuple((reply, conclusion) for reply, conclusion in json.loads(row["past"])),
            RightAction(target.action, target.box, target.screen),
        )


def feedback_tasks(recipe: FeedbackRecipe, files: Sequence[Path], cache: Path) -> FeedbackTasks:
    """Return the tasks of a recipe.

    A State Tracker is shown no screen; the Coordinator and the Executor that its summary is tried with are. Their
    screen is that of the Coordinator's row of the same step, and a step without such a row is no task.

    Args:
        recipe: decides which rows are tasks.
        files: Parquet files of the format `feedback`.
        cache: folder for a copy that can be read in any order.

    Raises:
        BadInputError: a file is damaged, or no row is a task.
    """
    rows = read_rows(files, [*_COLUMNS, *_STEP], cache)
    variants: list[str] = rows["variant"]
    steps = list(zip(rows["trajectory_id"], rows["step_index"], strict=True))
    wanted = recipe.app if isinstance(recipe, CodaSpecialistSpec) else recipe.role
    chosen = screens = [number for number, variant in enumerate(variants) if not wanted or variant == wanted]
    if recipe.learns_kind == "ces":
        shown = {step: number for number, step in enumerate(steps) if variants[number] == _COORDINATOR}
        chosen = [number for number in chosen if steps[number] in shown]
        screens = [shown[steps[number]] for number in chosen]
    if not chosen:
        there = ", ".join(f"{count} of {variant!r}" for variant, count in sorted(Counter(variants).items()))
        raise BadInputError(f"the release has no row of {wanted!r} to train on; it has {there or 'none'}")
    return FeedbackTasks(rows, chosen, screens)
