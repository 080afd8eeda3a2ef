"""An environment's own tasks and a user's task files, as queries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from trajmill.schemas.errors import BadInputError, EnvironmentFailure
from trajmill.schemas.record import Origin, Record
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source, Split

_MAX_STEPS = 10
_FILE_MAKER = "task_file"

StartT = TypeVar("StartT", bound=Record)
GoalT = TypeVar("GoalT", bound=Record)


class ImportedTask(NamedTuple):
    """A task of an environment."""

    platform: Platform
    name: str
    instruction: str
    start_state: str
    apps: tuple[str, ...]
    pages: tuple[str, ...]
    page_description: str
    """A description for each page."""
    phrasing: str
    """The writer of the instruction."""
    goal: str = "{}"
    path: tuple[PathStep, ...] = ()
    difficulty: int = 1
    max_steps: int = _MAX_STEPS
    source: Source = Source.IMPORTED

    def query(self, split: Split, origin: Origin, made_by: str) -> Query:
        """The query of the task; it is not validated."""
        return Query(
            query_id=Query.make_id(self.platform, self.name, (), self.start_state, self.instruction),
            platform=self.platform,
            apps=self.apps,
            source=self.source,
            task=self.name,
            raw_instruction=self.instruction,
            instruction=self.instruction,
            phrasing=self.phrasing,
            pages=self.pages,
            page_descriptions=(self.page_description,) * len(self.pages),
            slots=(),
            path=self.path,
            start_state=self.start_state,
            goal=self.goal,
            difficulty=self.difficulty,
            max_steps=self.max_steps,
            split=split,
            validation="passed",
            **origin.common(made_by=made_by),
        )


class SuiteSize(NamedTuple):
    """The number of seeds of each task for training, and of held-out seeds."""

    train: int
    held_out: int
    validation: int = 0
    """How many decide which policy is promoted."""


class ImportedQueries(NamedTuple):
    """Queries, and the failures of tasks that could not be started."""

    queries: list[Query]
    failures: list[Failure]
    untried: bool = False
    """Whether nobody has tried the tasks, so that their goals may hold at the start."""


async def ask_at_seeds(
    ask: Callable[[int], Awaitable[ImportedTask]],
    name: str,
    size: SuiteSize,
    run_seed: int,
    origin: Origin,
    made_by: str,
) -> ImportedQueries:
    """Make the queries of one task at all seeds; ends at the first seed at which the task cannot be started.

    Held-out seeds are in split `heldout_slots`: the task is known from training, its values are new.

    Args:
        ask: starts the task at a seed.
        name: name of the task.
        size: number of seeds.
        run_seed: decides the seeds.
        origin: common columns of the rows.
        made_by: the maker of the rows.
    """
    asked = ImportedQueries([], [])
    splits = (
        *(Split.TRAIN for _ in range(size.train)),
        *(Split.HELDOUT_SLOTS for _ in range(size.held_out)),
        *(Split.VALIDATION for _ in range(size.validation)),
    )
    for number, split in enumerate(splits):
        try:
            task = await ask(run_seed * 100_000 + number)
        except EnvironmentFailure as error:
            asked.failures.append(_not_started(name, error, origin, made_by))
            break
        asked.queries.append(task.query(split, origin, made_by))
    return asked


def joined(asked: Sequence[ImportedQueries]) -> ImportedQueries:
    """Join several results in their order."""
    return ImportedQueries(
        [query for each in asked for query in each.queries],
        [failure for each in asked for failure in each.failures],
    )


def _not_started(name: str, error: EnvironmentFailure, origin: Origin, made_by: str) -> Failure:
    return Failure(
        stage="generate",
        input_id=name,
        failure_class=error.failure_class,
        message=str(error),
        attempts=1,
        **origin.common(made_by=made_by),
    )


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
        name=task.task or next(iter(task.apps), _FILE_MAKER),
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
    return imported.query(task.split, origin, _FILE_MAKER)


def bare_query(platform: Platform, name: str, start_state: str, source: Source, origin: Origin, made_by: str) -> Query:
    """A query without instruction and goal; a reset for it brings an app or program into its start state.

    Args:
        platform: of the app.
        name: of the app.
        start_state: as the environment's reset takes it.
        source: what a walk from there is for.
        origin: of the row, if it becomes one.
        made_by: who made it.
    """
    return Query(
        query_id=Query.make_id(platform, name, (), start_state, ""),
        platform=platform,
        apps=(name,),
        source=source,
        task=name,
        raw_instruction="",
        instruction="",
        phrasing="",
        pages=(),
        page_descriptions=(),
        slots=(),
        path=(),
        start_state=start_state,
        goal="{}",
        difficulty=1,
        max_steps=1,
        split=Split.TRAIN,
        validation="",
        **origin.common(made_by=made_by),
    )


def first_mistake(error: ValidationError, whole: str) -> str:
    """The key of the first mistake, and its message.

    Args:
        error: pydantic's error.
        whole: the text in place of the key if the whole JSON is wrong.
    """
    first = error.errors(include_url=False, include_context=False)[0]
    key = ".".join(map(str, first["loc"])) or whole
    return f"{key}: {first['msg']}"
