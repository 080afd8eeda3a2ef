"""Queries for devices from a file of the user's: one JSON object in each line."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from schemas.errors import BadInputError
from schemas.query import PathStep, Platform, Query, Source, Split
from schemas.record import Origin, Record
from stages.environments.android.goal import PhoneGoal, PhoneStart

_MAKER = "android_tasks"


class TaskLine(Record):
    """One line of the file."""

    instruction: str
    """What the agent is given."""
    apps: tuple[str, ...]
    """Apps it needs, by name (as in the map of apps) or package; they are stopped before each episode."""
    task: str = ""
    """Name of the kind of task, e.g. `settings.brightness`; the first app where there is none."""
    start_state: PhoneStart = PhoneStart()
    goal: PhoneGoal = PhoneGoal()
    path: tuple[PathStep, ...] = ()
    """The reference path, for the agent `reference`; element ids are resource ids."""
    source: Source = Source.IMPORTED
    """How the task was made; the path of a `dag` is walked by its pages, any other by element ids alone."""
    max_steps: int = 20
    difficulty: int = 1
    split: Split = Split.TRAIN


def read_task_file(path: Path, origin: Origin) -> list[Query]:
    """The queries of a file, in its order; empty lines do not count.

    Raises:
        BadInputError: the file cannot be read, or a line is no task: one line for each mistake.
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
                queries.append(query_of(TaskLine.model_validate_json(text), origin))
            except ValidationError as error:
                first = error.errors(include_url=False, include_context=False)[0]
                where = ".".join(map(str, first["loc"])) or "the line"
                mistakes.append(f"{path}:{number}: {where}: {first['msg']}")
    if mistakes:
        raise BadInputError("\n".join(mistakes))
    if not queries:
        raise BadInputError(f"{path} has no tasks; write one JSON object in each line")
    return queries


def query_of(task: TaskLine, origin: Origin) -> Query:
    """The query of one line."""
    name = task.task or next(iter(task.apps), _MAKER)
    start_state = task.start_state.model_dump_json(exclude_defaults=True)
    pages = tuple(dict.fromkeys(step.page for step in task.path)) or task.apps
    return Query(
        query_id=Query.make_id(Platform.PHONE, name, (), start_state, task.instruction),
        platform=Platform.PHONE,
        apps=task.apps,
        source=task.source,
        task=name,
        raw_instruction=task.instruction,
        instruction=task.instruction,
        phrasing="imported",
        pages=pages,
        page_descriptions=("",) * len(pages),
        slots=(),
        path=task.path,
        start_state=start_state,
        goal=task.goal.model_dump_json(exclude_defaults=True),
        difficulty=task.difficulty,
        max_steps=task.max_steps,
        split=task.split,
        validation="passed",
        **origin.common(made_by=_MAKER),
    )
