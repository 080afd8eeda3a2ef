"""Makes queries from MiniWoB++ pages: one for each page and seed; some seeds are held out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.imported import ImportedQueries, ImportedTask, SuiteSize, ask_at_seeds, joined
from trajmill.stages.environments.miniwob.environment import MiniWobEnvironment, MiniWobFactory

_MAKER = "miniwob"
_AT_ONCE = 4


async def import_queries(
    pages: Sequence[str],
    size: SuiteSize,
    run_seed: int,
    origin: Origin,
) -> ImportedQueries:
    """Read the instruction of every page at every seed.

    Queries of held-out seeds are in the split `heldout_slots`: the page is known, its instruction is new.
    """
    pages = tuple(dict.fromkeys(pages))
    factory = MiniWobFactory()
    imported: dict[str, ImportedQueries] = {}
    waiting = iter(pages)

    async def ask_pages() -> None:
        environment = await factory()
        for page in waiting:
            ask = partial(_ask, environment, page)
            imported[page] = await ask_at_seeds(ask, page, size, run_seed, origin, _MAKER)

    try:
        await asyncio.gather(*(ask_pages() for _ in range(min(_AT_ONCE, len(pages)))))
    finally:
        await factory.close()
    return joined([imported[page] for page in pages])


async def _ask(environment: MiniWobEnvironment, page: str, seed: int) -> ImportedTask:
    instruction, fields = await environment.start(page, seed)
    return ImportedTask(
        platform=Platform.WEB,
        name=page,
        instruction=instruction,
        start_state=json.dumps({"page": page, "seed": seed, "fields": fields}),
        apps=(page,),
        pages=(page,),
        page_description="A MiniWoB++ task page.",
        phrasing=_MAKER,
    )
