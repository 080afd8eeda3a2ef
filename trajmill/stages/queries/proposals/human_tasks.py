"""Example tasks that people wrote: the seed of a curriculum (CODA 3.4). One JSON object per line.

For example `{"instruction": "Order me a pizza", "platform": "phone", "apps": ["bites"]}`. A `start_state`, in the form
that the environment's reset takes, is optional.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform


class HumanTask(Record):
    """A task that a person wrote."""

    instruction: str = Field(min_length=1)
    platform: Platform
    apps: tuple[str, ...]
    """Apps that it needs, as in `Query.apps`."""
    start_state: dict[str, Any] = {}
    """Its start state; empty for the environment's default state."""


def read_human_tasks(path: Path) -> tuple[HumanTask, ...]:
    """The tasks of a file, in order; empty lines are ignored.

    Raises:
        BadInputError: the file cannot be read or has no task, or a line is not a task.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{path}: example tasks cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: example tasks are not UTF-8 (byte {error.start})") from None
    tasks = tuple(_task(line, f"{path}:{number}") for number, line in enumerate(text.split("\n"), 1) if line.strip())
    if not tasks:
        raise BadInputError(f"{path}: no example task; write one JSON object per line")
    return tasks


def _task(line: str, where: str) -> HumanTask:
    try:
        return HumanTask.model_validate(json.loads(line))
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadInputError(f"{where}: no JSON object ({error}); write one task per line") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "task"
        wanted = '{"instruction": ..., "platform": "phone", "apps": [...]}'
        raise BadInputError(f"{where}: {field}: {first['msg']}; a task is {wanted}") from None
