"""Keeps the screens of finished episodes, each once; drawing them is left to processes of their own.

Drawing a simulated screen costs more than all else in a step, and nothing waits for it but the end of its episode.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import Container, Iterable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from time import sleep

from trajmill.schemas.observation import Observation
from trajmill.warehouse.screen_journal import ScreenJournal

_MOST_PAINTERS = 4
_LOOK_FOR_OWNER_SECONDS = 1.0


@lru_cache(maxsize=1)
def painters() -> Executor:
    """Processes that draw, one per core up to four; they start once and leave with this process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["trajmill.stages.environments.simulated.drawing.draw"])
    return ProcessPoolExecutor(
        min(os.cpu_count() or 1, _MOST_PAINTERS), context, initializer=_leave_with, initargs=(os.getpid(),)
    )


class ScreenKeeper:
    """Puts screens into a journal unless they are there, or committed, already."""

    def __init__(self, journal: ScreenJournal, committed: Container[str], executor: Executor | None) -> None:
        self._journal = journal
        self._committed = committed
        self._executor = executor
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def keep(self, observations: Iterable[Observation]) -> None:
        """Return when the screens of all observations are on disk."""
        new = [seen for seen in observations if seen.screen.screen_id not in self._committed]
        if self._executor is None:
            for observation in new:
                self._journal.append(observation)
        else:
            await asyncio.gather(*(self._keep(observation, self._executor) for observation in new))

    async def _keep(self, observation: Observation, executor: Executor) -> None:
        screen_id = observation.screen.screen_id
        if screen_id in self._journal.ids():
            return
        task = self._under_way.get(screen_id)
        if task is None:
            task = self._under_way[screen_id] = asyncio.create_task(self._draw(observation, executor))
            task.add_done_callback(lambda _: self._under_way.pop(screen_id, None))
        await task

    async def _draw(self, observation: Observation, executor: Executor) -> None:
        image = await asyncio.get_running_loop().run_in_executor(executor, observation.screen.encode)
        self._journal.append(replace(observation, screen=replace(observation.screen, encode=lambda: image)))


def _leave_with(owner: int) -> None:
    """A process that is killed does not tell its helpers, and the fork server between them stays: so they look."""

    def watch() -> None:
        while _lives(owner):
            sleep(_LOOK_FOR_OWNER_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
