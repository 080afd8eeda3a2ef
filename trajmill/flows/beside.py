"""Does work in a thread beside other work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from threading import Thread

from trajmill.flows.interrupt import asked_to_stop


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Do `work` in a thread while the block runs; the block ends when both are done.

    An error of the block comes before one of the work. After Ctrl-C nothing is waited for: the thread ends with its
    process, and what it was doing is continued like work that was killed.
    """
    done: Future[object] = Future()
    context = copy_context()

    def do() -> None:
        try:
            done.set_result(context.run(work))
        except BaseException as error:
            done.set_exception(error)

    Thread(target=do, name="beside", daemon=True).start()
    try:
        yield
    except BaseException as error:
        if not (isinstance(error, KeyboardInterrupt) or asked_to_stop()):
            wait([done])
        raise
    done.result()
