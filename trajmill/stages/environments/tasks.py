"""An environment's own tasks and a user's task files, as queries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.record import Origin, Record
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source, Split
from trajmill.stages.parts import first_mistake

_MAX_STEPS = 10
_FILE_MAKER = "task_file"

T = TypeVar("T")
StartT = TypeVar("StartT", bound=Record)
GoalT = TypeVar("GoalT", bound=Record)


def own_query(
    platform: Platform, task: str, instruction: str, start_state: str, origin: Origin, made_by: str, **others: Any
) -> Query:
    """Make a query, without validation, for a task that is not sampled from a graph; `others` are other columns."""
    defaults: dict[str, Any] = {
        "query_id": Query.make_id(platform, task, (), start_state, instruction),
        "apps": (task,),
        "source": Source.IMPORTED,
        "phrasing": "imported",
        "pages": (),
        "page_descriptions": (),
        "slots": (),
        "path": (),
        "goal": "{}",
        "difficulty": 1,
        "max_steps": _MAX_STEPS,
        "split": Split.TRAIN,
        "validation": "passed",
    }
    fixed = {"platform": platform, "task": task, "start_state": start_state, **origin.common(made_by=made_by)}
    return Query(raw_instruction=instruction, instruction=instruction, **fixed, **{**defaults, **others})


def splits_of_seeds(train: int, held_out: int, validation: int = 0) -> tuple[Split, ...]:
    """Return the split of each seed of a task; held-out seeds are `heldout_slots`: a known task with new values."""
    return (Split.TRAIN,) * train + (Split.HELDOUT_SLOTS,) * held_out + (Split.VALIDATION,) * validation


class ImportedQueries(NamedTuple):
    """Queries, and the failures of tasks that could not be started."""

    queries: list[Query]
    failures: list[Failure]
    untried: bool = False
    """Whether the tasks are untried, so that goals may hold at the start."""


async def ask_at_seeds(
    ask: Callable[[int], Awaitable[Query]],
    name: str,
    splits: Sequence[Split],
    run_seed: int,
    origin: Origin,
    made_by: str,
) -> ImportedQueries:
    """Make the queries of a task at the seeds that `run_seed` gives, until the first at which it cannot be started."""
    asked = ImportedQueries([], [])
    for number, split in enumerate(splits):
        try:
            query = await ask(run_seed * 100_000 + number)
        except EnvironmentFailure as error:
            failed = {"stage": "generate", "input_id": name, "failure_class": error.failure_class, "attempts": 1}
            asked.failures.append(Failure(**failed, message=str(error), **origin.common(made_by=made_by)))
            break
        asked.queries.append(query.model_copy(update={"split": split}))
    return asked


def joined(asked: Sequence[ImportedQueries]) -> ImportedQueries:
    failures = [failure for each in asked for failure in each.failures]
    return ImportedQueries([query for each in asked for query in each.queries], failures)


class TaskLine(Record, Generic[StartT, GoalT]):
    """One line of the file; the environment decides the form of start state and goal."""

    platform: ClassVar[Platform]

    instruction: str
    start_state: StartT
    goal: GoalT
    apps: tuple[str, ...] = ()
    """Apps or sites of the task."""
    task: str = ""
    """Name of the kind of task, e.g. `settings.brightness`; by default the first app."""
    path: tuple[PathStep, ...] = ()
    source: Source = Source.IMPORTED
    """How the task was made; the path of a `dag` is walked by its pages, other paths by element ids."""
    max_steps: int = 20
    difficulty: int = 1
    split: Split = Split.TRAIN


def read_task_lines(path: Path, read: Callable[[str], T]) -> list[T]:
    """Read the tasks of a file with one JSON object in each line; BadInputError has a line for each mistake."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: {error}; name a file with one JSON object in each line") from error
    tasks: list[T] = []
    mistakes: list[str] = []
    for number, text in enumerate(lines, 1):
        if text.strip():
            try:
                tasks.append(read(text))
            except ValidationError as error:
                mistakes.append(f"{path}:{number}: {first_mistake(error, 'the line')}")
    if mistakes:
        raise BadInputError("\n".join(mistakes))
    if not tasks:
        raise BadInputError(f"{path} has no tasks; write one JSON object in each line")
    return tasks


def query_of(task: TaskLine[StartT, GoalT], origin: Origin) -> Query:
    pages = tuple(dict.fromkeys(step.page for step in task.path)) or task.apps
    return own_query(
        task.platform,
        task.task or next(iter(task.apps), _FILE_MAKER),
        task.instruction,
        task.start_state.model_dump_json(exclude_defaults=True),
        origin,
        _FILE_MAKER,
        apps=task.apps,
        source=task.source,
        pages=pages,
        page_descriptions=("",) * len(pages),
        path=task.path,
        goal=task.goal.model_dump_json(exclude_defaults=True),
        difficulty=task.difficulty,
        max_steps=task.max_steps,
        split=task.split,
    )


def bare_query(platform: Platform, name: str, start_state: str, source: Source, origin: Origin, made_by: str) -> Query:
    others = {"source": source, "phrasing": "", "max_steps": 1, "validation": ""}
    return own_query(platform, name, "", start_state, origin, made_by, **others)


def read_part(read: Callable[[str], T], text: str, what: str) -> T:
    """Read the start state or the goal of a query; raises EnvironmentFailure (`task`) if it is malformed."""
    try:
        return read(text)
    except ValidationError as error:
        message = f"the {what} `{text[:80]}` is malformed: {first_mistake(error, 'the whole')}"
        raise EnvironmentFailure(message, FailureClass.TASK) from error
