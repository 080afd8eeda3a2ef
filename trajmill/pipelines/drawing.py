"""Draws and writes the screens of finished episodes, each once, beside the episodes.

Drawing a simulated screen costs more than the rest of a step, so other processes do it; only the end of its episode
waits for it. The files of the table grow in a thread, so that a stage does not wait for all screens at its end.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from multiprocessing.util import Finalize

from trajmill.pipelines.executors.processes import children_context, end_with
from trajmill.schemas.observation import Observation
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screens import NewScreens, ScreenJournal, WarehouseScreens, stored_screen_journal

_MOST_PROCESSES = 4
_LOOK_SECONDS = 0.5


@contextmanager
def stored_screen_writer(warehouse: Warehouse, at: StageRun, shard: str, draws: bool) -> Iterator[ScreenWriter]:
    with stored_screen_journal(warehouse, at, shard) as journal:
        yield ScreenWriter(journal, WarehouseScreens(warehouse), draws)


@lru_cache(maxsize=1)
def drawing_processes() -> ProcessPoolExecutor:
    context = children_context(["trajmill.stages.environments.simulated.drawing.draw"])
    processes = min(os.cpu_count() or 1, _MOST_PROCESSES)
    pool = ProcessPoolExecutor(processes, context, initializer=end_with, initargs=(os.getpid(),))
    # A child of `multiprocessing` (a Dask worker) would wait for them at its end.
    Finalize(None, lambda: [each.kill() for each in (vars(pool)["_processes"] or {}).values()], exitpriority=1)
    return pool


async def draw_elsewhere(observation: Observation) -> bytes:
    """Draw a screen in another process; if that was killed (memory), in a thread, and later ones in new processes."""
    try:
        return await asyncio.get_running_loop().run_in_executor(drawing_processes(), observation.screen.encode)
    except BrokenProcessPool:
        drawing_processes.cache_clear()
        return await asyncio.to_thread(observation.screen.encode)


class ScreenWriter:
    """Writes screens to a journal, unless they are in it or committed already; with `draws`, other processes draw."""

    def __init__(self, journal: ScreenJournal, committed: Container[str], draws: bool) -> None:
        self._journal, self._committed, self._draws = journal, committed, draws
        self._running: dict[str, asyncio.Task[None]] = {}

    async def write(self, observations: Iterable[Observation]) -> None:
        new = {seen.screen.screen_id: seen for seen in observations if seen.screen.screen_id not in self._committed}
        if not self._draws:
            self._journal.append(*new.values())
            return
        for screen_id, seen in new.items():
            if screen_id not in self._journal.ids() and screen_id not in self._running:
                task = self._running[screen_id] = asyncio.create_task(self._draw(seen))
                task.add_done_callback(partial(self._running.pop, screen_id))
        await asyncio.gather(*(self._running[screen_id] for screen_id in new if screen_id in self._running))

    async def _draw(self, observation: Observation) -> None:
        image = await draw_elsewhere(observation)
        self._journal.append(replace(observation, screen=replace(observation.screen, encode=lambda: image)))


@contextmanager
def screens_in_background(screens: NewScreens) -> Iterator[Callable[[], None]]:
    """Write files of screens in a thread whenever the journals have grown enough; the last file is left to the caller.

    Yields a function to call after the last episode, which writes the rest while the caller goes on. Raises
    TrajmillError at the end of the block if the disk is full.
    """
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(_LOOK_SECONDS):
            screens.write_grown()

    with ThreadPoolExecutor(1) as thread:
        begun: list[Future[object]] = [thread.submit(follow)]

        def write_now() -> None:
            ended.set()
            begun.append(thread.submit(screens.write))

        try:
            yield write_now
        finally:
            ended.set()
    for each in begun:
        each.result()
