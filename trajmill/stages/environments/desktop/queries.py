"""Makes queries from a folder of OSWorld task files; the package has our own tasks for five programs."""

from __future__ import annotations

import json
from pathlib import Path

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.stages.environments.desktop.osworld.task import DesktopTask, read_task
from trajmill.stages.environments.imported import ImportedTask

_MAKER = "osworld"
_FEWEST_STEPS = 15  # OSWorld's own limit
_STEPS_PER_PATH_STEP = 3


def packaged_tasks() -> Path:
    """The folder of our own tasks: mousepad, galculator, pcmanfm, LibreOffice Calc and Writer."""
    return Path(__file__).parent / "tasks"


def import_tasks(folder: Path, held_out: float, origin: Origin, validation: float = 0.0) -> list[Query]:
    """Queries of all task files (`*.json`) below a folder, in order of their ids.

    Args:
        folder: folder of the task files; their local files are named relative to it.
        held_out: share of the tasks, in [0, 1], in the split `heldout_slots`; the ids decide which ones.
        origin: common columns of the rows.
        validation: a further share, in the split `validation`.

    Raises:
        BadInputError: there is no task, a task is wrong or not supported, or two tasks have the same id.
    """
    files = sorted(folder.rglob("*.json"))
    tasks = sorted((read_task(file) for file in files), key=lambda task: task.id)
    if not tasks:
        raise BadInputError(f"{folder}: there are no task files (*.json)")
    ids = [task.id for task in tasks]
    if len(set(ids)) < len(ids):
        raise BadInputError(f"{folder}: two tasks have the id {next(i for i in ids if ids.count(i) > 1)!r}")
    by_chance = sorted(ids, key=lambda task_id: content_id("held-out", task_id))
    first, last = round(held_out * len(ids)), round((held_out + validation) * len(ids))
    splits = dict.fromkeys(by_chance[:first], Split.HELDOUT_SLOTS) | dict.fromkeys(
        by_chance[first:last], Split.VALIDATION
    )
    return [_query(task, splits.get(task.id, Split.TRAIN), origin) for task in tasks]


def _query(task: DesktopTask, split: Split, origin: Origin) -> Query:
    imported = ImportedTask(
        platform=Platform.DESKTOP,
        name=task.id,
        instruction=task.instruction,
        start_state=json.dumps({"config": [step.model_dump() for step in task.config]}, sort_keys=True),
        apps=task.related_apps,
        pages=tuple(dict.fromkeys(step.page for step in task.path)),
        page_description="A window of a desktop program.",
        phrasing=_MAKER,
        goal=json.dumps(task.evaluator or {}, sort_keys=True),
        path=task.path,
        difficulty=task.difficulty,
        max_steps=max(_FEWEST_STEPS, _STEPS_PER_PATH_STEP * len(task.path)),
    )
    return imported.query(split, origin, _MAKER)
