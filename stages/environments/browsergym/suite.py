"""Queries from BrowserGym tasks: what a task asks for at a seed, split by seed into training and held-out."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.errors import EnvironmentFailure
from schemas.failure import Failure
from schemas.query import Platform, Query, Source, Split
from schemas.record import Origin
from stages.environments.browsergym.environment import BrowserGymEnvironment, BrowserGymStart
from stages.environments.browsergym.factory import BrowserGymFactory
from stages.environments.miniwob.suite import ImportedQueries, SuiteSize

_MAX_STEPS = 10
_MADE_BY = "browsergym"


async def import_tasks(tasks: Sequence[str], size: SuiteSize, run_seed: int, origin: Origin) -> ImportedQueries:
    """Ask every task at every seed for its instruction; one that cannot be started is a failure.

    Args:
        tasks: BrowserGym's names, e.g. `miniwob.click-test`.
        size: How many seeds of each are trained on and held out (`heldout_slots`).
        run_seed: Chooses the seeds.
        origin: Of the rows.
    """
    made = ImportedQueries([], [])
    for task in tasks:
        environment = await BrowserGymFactory()()
        try:
            for number in range(size.train + size.held_out):
                split = Split.TRAIN if number < size.train else Split.HELDOUT_SLOTS
                start = BrowserGymStart(task=task, seed=run_seed * 100_000 + number)
                made.queries.append(await _query(environment, start, split, origin))
        except EnvironmentFailure as error:
            made.failures.append(_failure(task, error, origin))
        finally:
            await environment.close()
    return made


async def _query(environment: BrowserGymEnvironment, start: BrowserGymStart, split: Split, origin: Origin) -> Query:
    instruction = (await environment.start(start)).goal
    start_state = start.model_dump_json()
    return Query(
        query_id=Query.make_id(Platform.WEB, start.task, (), start_state, instruction),
        platform=Platform.WEB,
        apps=(start.task,),
        source=Source.IMPORTED,
        task=start.task,
        raw_instruction=instruction,
        instruction=instruction,
        phrasing=_MADE_BY,
        pages=(start.task,),
        page_descriptions=("A BrowserGym task.",),
        slots=(),
        path=(),
        start_state=start_state,
        goal="{}",
        difficulty=1,
        max_steps=_MAX_STEPS,
        split=split,
        validation="passed",
        **origin.common(made_by=_MADE_BY),
    )


def _failure(task: str, error: EnvironmentFailure, origin: Origin) -> Failure:
    return Failure(
        stage="generate",
        input_id=task,
        failure_class=error.failure_class,
        message=str(error),
        attempts=1,
        **origin.common(made_by=_MADE_BY),
    )
