"""Reads queries from a user's file: one JSON object in each line."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin, Record
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source, Split
from trajmill.stages.environments.first_mistake import first_mistake
from trajmill.stages.environments.imported import ImportedTask

_MAKER = "task_file"

StartT = TypeVar("StartT", bound=Record)
GoalT = TypeVar("GoalT", bound=Record)


class TaskLine(Record, Generic[StartT, GoalT]):
    """One line of the file; the environment decides the form of start state and goal."""

    instruction: str
    """The instruction for the agent."""
    start_state: StartT
    goal: GoalT
    apps: tuple[str, ...] = ()
    """Apps or sites of the task."""
    task: str = ""
    """Name of the kind of task, e.g. `settings.brightness`; by default the first app."""
    path: tuple[PathStep, ...] = ()
    """The reference path, for the agent `reference`."""
    source: Source = Source.IMPORTED
    """How the task was made; the path of a `dag` is walked by its pages, other paths by element ids."""
    max_steps: int = 20
    difficulty: int = 1
    split: Split = Split.TRAIN


def read_task_lines(path: Path, line: type[TaskLine[StartT, GoalT]], platform: Platform, origin: Origin) -> list[Query]:
    """Read the queries of a file in its order; empty lines are ignored.

    Raises:
        BadInputError: the file cannot be read, or a line is no task; the message has one line for each mistake.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: {error}; name a file with one JSON object in each line") from error
    queries: list[Query] = []
    mistakes: list[str] = []
    for number, text in enumerate(lines, 1):
        if text.strip():
            try:
                queries.append(query_of(line.model_validate_json(text), platform, origin))
            except ValidationError as error:
                mistakes.append(f"{path}:{number}: {first_mistake(error, 'the line')}")
    if mistakes:
        raise BadInputError("\n".join(mistakes))
    if not queries:
        raise BadInputError(f"{path} has no tasks; write one JSON object in each line")
    return queries


def query_of(task: TaskLine[StartT, GoalT], platform: Platform, origin: Origin) -> Query:
    """The query of one line."""
    imported = ImportedTask(
        platform=platform,
        name=task.task or next(iter(task.apps), _MAKER),
        instruction=task.instruction,
        start_state=task.start_state.model_dump_json(exclude_defaults=True),
        apps=task.apps,
        pages=tuple(dict.fromkeys(step.page for step in task.path)) or task.apps,
        page_description="",
        phrasing="imported",
        goal=task.goal.model_dump_json(exclude_defaults=True),
        path=task.path,
        difficulty=task.difficulty,
        max_steps=task.max_steps,
        source=task.source,
    )
    return imported.query(task.split, origin, _MAKER)
