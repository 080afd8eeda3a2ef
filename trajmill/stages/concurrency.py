"""Concurrent coroutines, and work in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


async def side_by_side(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines concurrently and return their results in order; the first exception cancels the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Do work in a thread that does not keep the interpreter from ending, as those of an executor do."""
    done: Future[T] = Future()

    def do() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    Thread(target=do, name="in_thread", daemon=True).start()
    return done
