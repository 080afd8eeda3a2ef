"""Child processes: modules of this package that end when their standard input closes, and programs of the user."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from typing import Any

from trajmill.stages.reaper import end_processes


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


async def run_command(command: Sequence[str]) -> None:
    """Run a program; raises OSError if it fails, and kills it if this is cancelled."""
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
    try:
        _, error = await process.communicate()
    except BaseException:
        process.kill()
        raise
    if process.returncode:
        lines = error.decode(errors="replace").strip().splitlines() or [""]
        raise OSError(f"{command[0]} ended with status {process.returncode}: {lines[-1][:200]}")
