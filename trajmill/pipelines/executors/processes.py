"""Runs shards in processes of this machine; a worker process that dies is replaced, and its shard done again.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import lru_cache
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize, _run_finalizers  # type: ignore[attr-defined]
from operator import call
from typing import Any, Generic, TypeVar

from trajmill.schemas.errors import TrajmillError
from trajmill.stages.concurrency import in_thread
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
    shards = _Shards(call, [work])
    with shards.ending_after_errors():
        shards.do_in_processes(1)
    return shards.results[0]


def side_by_side(do: Callable[[S], T], shards: Sequence[S], workers: int) -> list[T]:
    """Call `do` with each shard, in this process and `workers - 1` others, which take the next one as they are free.

    All are picklable; a shard may be done twice. Returns the results as they came. Raises TrajmillError if `do` raised
    it, or too many processes died.
    """
    waiting = _Shards(do, shards)
    with waiting.ending_after_errors():
        others = in_thread(lambda: waiting.do_in_processes(workers - 1))
        waiting.do_here()
        others.result()
    return waiting.results


class _Shards(Generic[T]):
    """Shards that wait, those that processes are doing, and the results of the others."""

    def __init__(self, do: Callable[[S], T], shards: Sequence[S]) -> None:
        self.results: list[T] = []
        self._ended = False
        # Pickled before any is done here: the work on one may change what others share with it, such as a queue.
        self._waiting = deque((pickle.dumps((do, shard)), 1) for shard in shards)
        self._running: dict[Future[T], tuple[ProcessPoolExecutor, bytes, int]] = {}

    def do_here(self) -> None:
        """Do waiting shards, but none that has killed a process: it might kill this one, too."""
        with suppress(IndexError):  # None is left.
            while not self._ended and self._waiting[0][1] == 1:
                pickled, _ = self._waiting.popleft()
                self.results.append(_done(pickled))

    def do_in_processes(self, most: int) -> None:
        try:
            while self._waiting or self._running:
                self._begin(most)
                if self._ended:
                    self._end_running()
                    return
                for done in wait(self._running, return_when=FIRST_COMPLETED).done:
                    self._take(done)
        except BaseException:
            self._ended = True
            raise

    @contextmanager
    def ending_after_errors(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Also after Ctrl-C: the processes would go on.
            self._ended = True
            self._end_running()
            raise

    def _end_running(self) -> None:
        _idle().extend([pool for pool, *_ in self._running.values()])
        _end()

    def _begin(self, most: int) -> None:
        while len(self._running) < most:
            try:
                pickled, tries = self._waiting.pop()
            except IndexError:  # Another thread has taken the last one.
                return
            pool = None
            with suppress(IndexError):
                pool = _idle().pop()
            pool = pool or _pool()
            try:
                self._running[pool.submit(_do, dict(os.environ), pickled)] = pool, pickled, tries
            except BrokenProcessPool:  # It died idle.
                self._waiting.append((pickled, tries))

    def _take(self, done: Future[T]) -> None:
        pool, pickled, tries = self._running[done]
        try:
            self.results.append(done.result())
            _idle().append(pool)
        except BrokenProcessPool as lost:
            if self._ended:
                raise
            [process] = vars(pool)["_processes"].values()
            pool.shutdown()
            died = f"(exit code {process.exitcode})"
            if tries == _TRIES:
                raise TrajmillError(
                    f"{_TRIES} worker processes died at one shard {died}; find what kills them (memory?), "
                    "then run the same command again: nothing was lost"
                ) from lost
            _LOG.warning("a worker process died %s; another one takes over its shard", died)
            self._waiting.append((pickled, tries + 1))
        del self._running[done]


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
    processes: list[BaseProcess] = []
    with suppress(IndexError):
        while True:
            pool = _idle().pop()
            processes += (vars(pool)["_processes"] or {}).values()
            pool.shutdown(wait=False, cancel_futures=True)
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


def _done(pickled: bytes) -> Any:
    do, shard = pickle.loads(pickled)
    return do(shard)


def _do(environment: Mapping[str, str], pickled: bytes) -> Any:
    # Credentials and addresses may have changed in the owner since this process was started.
    os.environ.clear()
    os.environ.update(environment)
    try:
        return _done(pickled)
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
    # If it started below, it would unblock the signals.
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
