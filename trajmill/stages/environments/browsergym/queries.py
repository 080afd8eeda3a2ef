"""Makes queries from BrowserGym tasks: one for each task and seed; some seeds are held out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.browsergym.environment import BrowserGymEnvironment, BrowserGymStart
from trajmill.stages.environments.browsergym.factory import BrowserGymFactory
from trajmill.stages.environments.imported import ImportedQueries, ImportedTask, SuiteSize, ask_at_seeds, joined

_MAKER = "browsergym"


async def import_tasks(tasks: Sequence[str], size: SuiteSize, run_seed: int, origin: Origin) -> ImportedQueries:
    """Ask every task at every seed for its instruction; one that cannot be started is a failure.

    Args:
        tasks: BrowserGym's names, e.g. `miniwob.click-test`.
        size: number of seeds of each task.
        run_seed: decides the seeds.
        origin: common columns of the rows.
    """
    asked: list[ImportedQueries] = []
    for task in tasks:
        environment = await BrowserGymFactory()()
        try:
            asked.append(await ask_at_seeds(partial(_ask, environment, task), task, size, run_seed, origin, _MAKER))
        finally:
            await environment.close()
    return joined(asked)


async def _ask(environment: BrowserGymEnvironment, task: str, seed: int) -> ImportedTask:
    start = BrowserGymStart(task=task, seed=seed)
    return ImportedTask(
        platform=Platform.WEB,
        name=task,
        instruction=(await environment.start(start)).goal,
        start_state=start.model_dump_json(),
        apps=(task,),
        pages=(task,),
        page_description="A BrowserGym task.",
        phrasing=_MAKER,
    )
