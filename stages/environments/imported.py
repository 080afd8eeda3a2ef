"""Queries from the tasks that an environment brings along; a task that has seeds gives one query for each seed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source, Split

_MAX_STEPS = 10


class ImportedTask(NamedTuple):
    """A task as its environment describes it."""

    platform: Platform
    name: str
    instruction: str
    start_state: str
    apps: tuple[str, ...]
    pages: tuple[str, ...]
    page_description: str
    """Of each of the pages."""
    phrasing: str
    """Who has worded it."""
    goal: str = "{}"
    path: tuple[PathStep, ...] = ()
    difficulty: int = 1
    max_steps: int = _MAX_STEPS
    source: Source = Source.IMPORTED

    def query(self, split: Split, origin: Origin, made_by: str) -> Query:
        """The row of a task, which is taken to be possible as it is."""
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
    """How many seeds of each task are trained on and held out."""

    train: int
    held_out: int


class ImportedQueries(NamedTuple):
    """Queries and the tasks that could not be asked for."""

    queries: list[Query]
    failures: list[Failure]


async def ask_at_seeds(
    ask: Callable[[int], Awaitable[ImportedTask]],
    name: str,
    size: SuiteSize,
    run_seed: int,
    origin: Origin,
    made_by: str,
) -> ImportedQueries:
    """Ask for one task at every seed, up to the first at which it cannot be started.

    Held-out seeds are in split `heldout_slots`: the task is known, what it asks for is new.

    Args:
        ask: Starts the task at a seed.
        name: Of the task.
        size: How many seeds.
        run_seed: Chooses the seeds.
        origin: Common columns of the rows.
        made_by: Stands on the rows.
    """
    asked = ImportedQueries([], [])
    for number in range(size.train + size.held_out):
        split = Split.TRAIN if number < size.train else Split.HELDOUT_SLOTS
        try:
            task = await ask(run_seed * 100_000 + number)
        except EnvironmentFailure as error:
            asked.failures.append(_not_started(name, error, origin, made_by))
            break
        asked.queries.append(task.query(split, origin, made_by))
    return asked


def together(asked: Sequence[ImportedQueries]) -> ImportedQueries:
    """All of several, in their order."""
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
