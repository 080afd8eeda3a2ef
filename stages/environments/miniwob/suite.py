"""Queries from MiniWoB++ pages: what a page asks for at a seed, split by seed into training and held-out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import NamedTuple

from schemas.errors import EnvironmentFailure
from schemas.failure import Failure
from schemas.query import Platform, Query, Source, Split
from schemas.record import Origin
from stages.environments.miniwob.environment import MiniWobEnvironment, MiniWobFactory

_MAX_STEPS = 10
_AT_ONCE = 4


class SuiteSize(NamedTuple):
    """How many seeds of each page are trained on and held out."""

    train: int
    held_out: int


class ImportedQueries(NamedTuple):
    """Queries and the pages that could not be asked."""

    queries: list[Query]
    failures: list[Failure]


async def import_queries(
    pages: Sequence[str],
    size: SuiteSize,
    run_seed: int,
    origin: Origin,
) -> ImportedQueries:
    """Ask every page at every seed for its instruction.

    Held-out seeds are in split `heldout_slots`: the page is known, what it asks for is new.
    """
    pages = tuple(dict.fromkeys(pages))
    factory = MiniWobFactory()
    imported: dict[str, ImportedQueries] = {}
    waiting = iter(pages)

    async def work_off() -> None:
        environment = await factory()
        for page in waiting:
            imported[page] = await _ask(environment, page, size, run_seed, origin)

    try:
        await asyncio.gather(*(work_off() for _ in range(min(_AT_ONCE, len(pages)))))
    finally:
        await factory.close()
    return ImportedQueries(
        [query for page in pages for query in imported[page].queries],
        [failure for page in pages for failure in imported[page].failures],
    )


async def _ask(
    environment: MiniWobEnvironment, page: str, size: SuiteSize, run_seed: int, origin: Origin
) -> ImportedQueries:
    asked = ImportedQueries([], [])
    for number in range(size.train + size.held_out):
        split = Split.TRAIN if number < size.train else Split.HELDOUT_SLOTS
        try:
            asked.queries.append(await _query(environment, page, run_seed * 100_000 + number, split, origin))
        except EnvironmentFailure as error:
            asked.failures.append(_failure(page, error, origin))
            break
    return asked


async def _query(environment: MiniWobEnvironment, page: str, seed: int, split: Split, origin: Origin) -> Query:
    instruction, fields = await environment.start(page, seed)
    start_state = json.dumps({"page": page, "seed": seed, "fields": fields})
    return Query(
        query_id=Query.make_id(Platform.WEB, page, (), start_state, instruction),
        platform=Platform.WEB,
        apps=(page,),
        source=Source.IMPORTED,
        task=page,
        raw_instruction=instruction,
        instruction=instruction,
        phrasing="miniwob",
        pages=(page,),
        page_descriptions=("A MiniWoB++ task page.",),
        slots=(),
        path=(),
        start_state=start_state,
        goal="{}",
        difficulty=1,
        max_steps=_MAX_STEPS,
        split=split,
        validation="passed",
        **origin.common(made_by="miniwob"),
    )


def _failure(page: str, error: EnvironmentFailure, origin: Origin) -> Failure:
    return Failure(
        stage="generate",
        input_id=page,
        failure_class=error.failure_class,
        message=str(error),
        attempts=1,
        **origin.common(made_by="miniwob"),
    )
