"""Makes queries from an environment's own tasks; a task with seeds gives one query for each seed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source, Split

_MAX_STEPS = 10


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
