"""Runs shards in worker processes of this machine; if one dies they are replaced, and what is unfinished done again.

The processes stay until the driver ends: imports and models are paid for once. Ctrl-C and `timeout` send a signal to
all processes of a group. Only the driver should answer it, because a child that dies of it looks like a failure of the
work; so each child has a group of its own, and ends with its owner.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from multiprocessing.util import Finalize, _run_finalizers  # type: ignore[attr-defined]
from typing import TypeVar
from weakref import ref

from trajmill.schemas.errors import TrajmillError
from trajmill.warehouse.store.base import is_alive

S = TypeVar("S")

_TRIES = 3
"""How often processes may die, with no shard finished in between, before the work is given up."""
_SECONDS_TO_GIVE_BACK = 1.0
"""Seconds in which a process at work gives back what it holds (semaphores), before it is killed."""
_PRELOADED = ["trajmill.pipelines.rollout", "trajmill.stages.environments.simulated.drawing.draw"]
_AS_IN_DRIVER = "trajmill.stages.models.embedded.model"
"""It brings torch. If the driver has imported it, so will its workers: once for all, instead of each by itself."""
_CHECK_OWNER_SECONDS = 0.1
_STOPPING = (signal.SIGINT, signal.SIGTERM)


class WorkerDiedError(TrajmillError): ...


def side_by_side(do: Callable[[S], object], shards: Sequence[S], workers: int) -> None:
    """Call `do` with each shard, in worker processes that each take the next one as soon as they are free.

    Both are picklable; a shard may be done twice. Raises TrajmillError if `do` raised it, or processes died again and
    again.
    """
    left, tries = dict(enumerate(shards)), _TRIES
    while left:
        pool, before = _pool(min(workers, len(shards))), len(left)
        try:
            running: dict[Future[None], int] = {
                pool.submit(_do, dict(os.environ), do, shard): number for number, shard in left.items()
            }
            for done in as_completed(running):
                done.result()
                del left[running[done]]
        except BrokenProcessPool as lost:
            code = next((code for code in _end(pool) if code not in (None, 0, 128 + signal.SIGTERM)), None)
            tries = _TRIES if len(left) < before else tries - 1
            if not tries:
                raise WorkerDiedError(
                    f"a worker process died again and again (exit code {code}); look for what kills it (memory?), "
                    "then run the same command again: nothing was lost"
                ) from lost
        except BaseException:
            # Also after Ctrl-C: the processes would go on.
            _end(pool)
            raise


@lru_cache(maxsize=1)
def _pool(workers: int) -> ProcessPoolExecutor:
    context = children_context([*_PRELOADED, *({_AS_IN_DRIVER} & sys.modules.keys())])
    pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(os.getpid(),))
    # An owner that is a child of `multiprocessing` would wait at its end for processes that wait for work.
    still_there = ref(pool)
    Finalize(None, lambda: _end(used) if (used := still_there()) else None, exitpriority=1)
    return pool


def _end(pool: ProcessPoolExecutor) -> list[int | None]:
    _pool.cache_clear()
    processes = list((vars(pool)["_processes"] or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        # One that has died by itself keeps its code.
        process.terminate()
    for process in processes:
        process.join(_SECONDS_TO_GIVE_BACK)
        process.kill()
        process.join()
    return [process.exitcode for process in processes]


def _begin(owner: int) -> None:
    def give_back_and_end(code: int) -> None:
        # Not waiting for the work, nor for the processes that draw for it, which end with this one. A kill would leave
        # semaphores, which Python reports to the user.
        sys.stdout.flush()
        _run_finalizers(0)
        os._exit(code)

    signal.signal(signal.SIGTERM, lambda number, frame: give_back_and_end(128 + number))
    Finalize(None, give_back_and_end, args=(0,), exitpriority=0)
    end_with(owner)


def _do(environment: Mapping[str, str], do: Callable[[S], object], shard: S) -> None:
    # Credentials and addresses may have changed in the owner since this process was started.
    os.environ.clear()
    os.environ.update(environment)
    try:
        do(shard)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise TrajmillError(f"{type(error).__name__}: {error}") from None
        raise


def children_context(preload: Sequence[str]) -> ForkServerContext:
    """Return what starts processes; each must begin with `end_with`, since it ignores Ctrl-C and SIGTERM until then.

    `preload` are modules that are imported once for all of them; those of the first call count.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    # It would allow the signals again.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    return context


def end_with(owner: int) -> None:
    """Give this process a group of its own; end it when its owner ends, since a killed owner cannot end it."""
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)

    def watch() -> None:
        while is_alive(owner):
            time.sleep(_CHECK_OWNER_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
