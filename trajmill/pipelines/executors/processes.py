"""Runs shards in worker processes of this machine; one that dies is replaced, and its shard done again.

The processes stay until the driver ends: imports and models are paid for once. Ctrl-C and `timeout` send a signal to
all processes of a group. Only the driver should answer it, because a child that dies of it looks like a failure of the
work; so each child has a group of its own, and ends with its owner.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import lru_cache
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from multiprocessing.util import Finalize, _run_finalizers  # type: ignore[attr-defined]
from typing import TypeVar

from trajmill.schemas.errors import TrajmillError
from trajmill.warehouse.store.base import is_alive

S = TypeVar("S")
T = TypeVar("T")

_TRIES = 3
"""How many processes a shard may cost before the work is given up."""
_SECONDS_TO_GIVE_BACK = 1.0
"""Seconds in which a process at work gives back what it holds (semaphores), before it is killed."""
_PRELOADED = ["trajmill.pipelines.rollout", "trajmill.stages.environments.simulated.drawing.draw"]
_AS_IN_DRIVER = "trajmill.stages.models.embedded.model"
"""It brings torch. If the driver has imported it, so will its workers: once for all, instead of each by itself."""
_CHECK_OWNER_SECONDS = 0.1
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_LOG = logging.getLogger(__name__)


def elsewhere(work: Callable[[], T]) -> T:
    """Do picklable work in a worker process, which leaves the interpreter to this one's threads; see `side_by_side`."""
    [result] = side_by_side(_call, [work], 1)
    return result


def side_by_side(do: Callable[[S], T], shards: Sequence[S], workers: int) -> list[T]:
    """Call `do` with each shard, in worker processes that each take the next one as soon as they are free.

    All are picklable; a shard may be done twice. Returns the results as they came. Raises TrajmillError if `do` raised
    it, or too many processes died.
    """
    waiting = deque((shard, 1) for shard in shards)
    running: dict[Future[T], tuple[ProcessPoolExecutor, S, int]] = {}
    results: list[T] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                pool = None
                with suppress(IndexError):  # Another thread may take the last one.
                    pool = _idle().pop()
                pool = pool or _pool()
                with suppress(BrokenProcessPool):  # It died idle.
                    begun = pool.submit(_do, dict(os.environ), do, waiting[0][0])
                    running[begun] = pool, *waiting.popleft()
            for ended in wait(running, return_when=FIRST_COMPLETED).done:
                pool, shard, tries = running[ended]
                try:
                    results.append(ended.result())
                    _idle().append(pool)
                except BrokenProcessPool as lost:
                    [process] = vars(pool)["_processes"].values()
                    pool.shutdown()
                    died = f"(exit code {process.exitcode})"
                    if tries == _TRIES:
                        raise TrajmillError(
                            f"{_TRIES} worker processes died at one shard {died}; find what kills them (memory?), "
                            "then run the same command again: nothing was lost"
                        ) from lost
                    _LOG.warning("a worker process died %s; another one takes over its shard", died)
                    waiting.append((shard, tries + 1))
                del running[ended]
    except BaseException:
        # Also after Ctrl-C: the processes would go on.
        _idle().extend(pool for pool, *_ in running.values())
        _end()
        raise
    return results


@lru_cache(maxsize=1)
def _idle() -> list[ProcessPoolExecutor]:
    """Return the processes without work, each in a pool of its own: a death breaks the whole pool."""
    # An owner that is a child of `multiprocessing` would wait at its end for processes that wait for work.
    Finalize(None, _end, exitpriority=1)
    return []


def _pool() -> ProcessPoolExecutor:
    context = children_context([*_PRELOADED, *({_AS_IN_DRIVER} & sys.modules.keys())])
    return ProcessPoolExecutor(1, context, initializer=_begin, initargs=(os.getpid(), gc.get_threshold()))


def _end() -> None:
    processes = [each for pool in _idle() for each in (vars(pool)["_processes"] or {}).values()]
    while _idle():
        _idle().pop().shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_SECONDS_TO_GIVE_BACK)
        process.kill()
        process.join()


def _begin(owner: int, collects_after: tuple[int, int, int]) -> None:
    def give_back_and_end(code: int) -> None:
        # Not waiting for the work, nor for the processes that draw for it, which end with this one. A kill would leave
        # semaphores, which Python reports to the user.
        sys.stdout.flush()
        _run_finalizers(0)
        os._exit(code)

    signal.signal(signal.SIGTERM, lambda number, frame: give_back_and_end(128 + number))
    Finalize(None, give_back_and_end, args=(0,), exitpriority=0)
    gc.set_threshold(*collects_after)
    end_with(owner)


def _call(work: Callable[[], T]) -> T:
    return work()


def _do(environment: Mapping[str, str], do: Callable[[S], T], shard: S) -> T:
    # Credentials and addresses may have changed in the owner since this process was started.
    os.environ.clear()
    os.environ.update(environment)
    try:
        return do(shard)
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
