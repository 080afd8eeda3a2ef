"""Runs shards in worker processes of this machine; one that dies is replaced, and its shard done again.

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
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize, _run_finalizers  # type: ignore[attr-defined]
from typing import NoReturn, TypeVar

from trajmill.schemas.errors import TrajmillError
from trajmill.warehouse.store.base import is_alive

S = TypeVar("S")

_TRIES = 3
"""Processes that may die at one shard before it is given up."""
_LAST_SECONDS = 5.0
"""Seconds in which a process without work may end by itself."""
_SECONDS_BETWEEN_ENDS = 0.05
_SECONDS_TO_GIVE_BACK = 1.0
"""Seconds in which a process at work gives back what it holds (semaphores), before it is killed."""
_PRELOADED = ["trajmill.pipelines.rollout", "trajmill.stages.environments.simulated.drawing.draw"]
_AS_IN_DRIVER = "trajmill.stages.models.embedded.model"
"""It brings torch. If the driver has imported it, so will its workers: once for all, instead of each by itself."""
_CHECK_OWNER_SECONDS = 0.1
_STOPPING = (signal.SIGINT, signal.SIGTERM)


class WorkerDiedError(TrajmillError):
    """A worker process ended in the middle of its work."""


def side_by_side(do: Callable[[S], object], shards: Sequence[S], workers: int) -> None:
    """Call `do` with each shard, in worker processes that each take the next one as soon as they are free.

    Both are picklable. Raises TrajmillError if `do` raised it, or the processes of one shard died again and again.
    """
    # Threads share the iterator: each shard is given to one of them.
    waiting, failed = iter(list(shards)), threading.Event()
    lanes = [_lane(number) for number in range(min(workers, len(shards)))]

    def drain(lane: WorkerLane) -> None:
        try:
            for shard in waiting:
                for left in reversed(range(_TRIES)):
                    if failed.is_set():
                        return
                    try:
                        lane.do(do, shard)
                        break
                    except WorkerDiedError:
                        if not left or failed.is_set():
                            raise
        except BaseException:
            failed.set()
            raise

    done: list[Future[None]] = []
    with ThreadPoolExecutor(len(lanes) or 1) as threads:
        try:
            done.extend(threads.submit(drain, lane) for lane in lanes)
            for each in done:
                each.result()
        except BaseException:
            # Also after Ctrl-C: the threads wait for their processes, which would go on, as one would that starts now.
            failed.set()
            while wait(done, _SECONDS_BETWEEN_ENDS).not_done:
                for lane in lanes:
                    lane.end()
            raise


class WorkerLane:
    """A place for one worker process at a time; the first work starts it."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._ours: Connection | None = None
        self._is_busy = False

    def do(self, do: Callable[[S], object], shard: S) -> None:
        """Call `do` in the process; raises WorkerDiedError if it died, and the next call starts another."""
        ours = self._ours or self._start()
        self._is_busy = True
        try:
            ours.send((dict(os.environ), do, shard))
            error = ours.recv()
            self._is_busy = False
        except (EOFError, OSError) as lost:
            code = self.end()
            raise WorkerDiedError(
                f"a worker process died again and again (exit code {code}); look for what kills it (memory?), "
                "then run the same command again: nothing was lost"
            ) from lost
        if error is not None:
            raise error

    def end(self) -> int | None:
        """End the process, if there is one, whatever it does; return its exit code."""
        process, self._process, self._ours = self._process, None, None
        if process is None:
            return None
        # A process that has died by itself keeps its code.
        process.terminate()
        process.join(_SECONDS_TO_GIVE_BACK)
        process.kill()
        process.join()
        return process.exitcode

    def _retire(self) -> None:
        """Let the process end by itself, if it does not work."""
        if self._ours is not None and self._process is not None and not self._is_busy:
            self._ours.close()
            self._process.join(_LAST_SECONDS)
        self.end()

    def _start(self) -> Connection:
        context = children_context([*_PRELOADED, *({_AS_IN_DRIVER} & sys.modules.keys())])
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, os.getpid()), name="trajmill worker")
        process.start()
        self._process, self._ours = process, ours
        # Otherwise this process would wait at its end for one that waits for work.
        Finalize(None, self._retire, exitpriority=1)
        # The last copy of that end is the process's own, so that its death is noticed.
        theirs.close()
        return ours


@lru_cache(maxsize=256)
def _lane(number: int) -> WorkerLane:
    return WorkerLane()


def _serve(work: Connection, owner: int) -> None:
    """Do what comes, one after the other, until the owner ends."""

    def give_back_and_end(code: int) -> NoReturn:
        # Not waiting for the work, nor for the processes that draw for it, which end with this one. A kill would leave
        # semaphores, which Python reports to the user.
        _run_finalizers(0)
        os._exit(code)

    signal.signal(signal.SIGTERM, lambda number, frame: give_back_and_end(128 + number))
    end_with(owner)
    while True:
        try:
            environment, do, shard = work.recv()
        except EOFError:
            sys.stdout.flush()
            give_back_and_end(0)
        # Credentials and addresses may have changed in the owner since this process was started.
        os.environ.clear()
        os.environ.update(environment)
        failure: Exception | None = None
        try:
            do(shard)
        except Exception as error:
            failure = error
            try:
                pickle.loads(pickle.dumps(error))
            except Exception:
                failure = TrajmillError(f"{type(error).__name__}: {error}")
        work.send(failure)


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
