"""Child processes that run a module of this package and end when their standard input closes."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from typing import Any

from trajmill.stages.environments.pool.reaper import end_processes


async def start_child(module: str, *arguments: str, **options: Any) -> Process:
    """Start `python -m module`, in a session of its own, with pipes for standard input and output."""
    # With -P, a module in the user's working folder never replaces ours.
    command = (sys.executable, "-P", "-m", module, *arguments)
    return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, start_new_session=True, **options)


async def end_child(process: Process, seconds: float) -> None:
    """Close the standard input of a process; after `seconds`, kill it with all its descendants."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        await asyncio.to_thread(end_processes, [process.pid])
        await process.wait()
