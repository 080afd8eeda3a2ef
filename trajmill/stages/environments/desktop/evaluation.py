"""Prepares a desktop for a task, and checks what the task has left: files and outputs of commands."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.desktop.connection import DesktopConnection
from trajmill.stages.environments.desktop.metrics import METRICS
from trajmill.stages.environments.desktop.task import Check, Evaluator, Getter, SetupStep

_LONGEST_SLEEP_SECONDS = 60.0
_SECONDS_TO_SHOW = 20.0
_SECONDS_TO_SETTLE = 3.0
_POLL_SECONDS = 0.2


async def prepare(desktop: DesktopConnection, steps: Iterable[SetupStep], files: Path) -> None:
    """Do all steps in order.

    Args:
        desktop: the machine.
        steps: steps of a parsed task, so that their types and parameters are known.
        files: folder of the tasks' local files; nothing outside it is read.

    Raises:
        EnvironmentFailure: the machine failed, or a local file is missing.
    """
    for step in steps:
        await _take(desktop, step.type, step.parameters, files)


async def _take(desktop: DesktopConnection, kind: str, parameters: dict[str, Any], files: Path) -> None:
    match kind:
        case "launch":
            before = await desktop.screenshot()
            await desktop.launch(*_command(parameters))
            await _wait_until_changed(desktop, before.png)
        case "execute" | "command":
            await desktop.execute(*_command(parameters))
        case "upload_file" | "upload":
            for file in parameters.get("files", ()):
                await desktop.upload(str(file["path"]), local_file(files, str(file["local_path"])))
        case "open":
            before = await desktop.screenshot()
            await desktop.open_file(str(parameters["path"]))
            await _wait_until_changed(desktop, before.png)
        case "sleep":
            await asyncio.sleep(min(float(parameters["seconds"]), _LONGEST_SLEEP_SECONDS))
        case "activate_window":
            await desktop.activate_window(*_window(parameters))
        case "close_window":
            await desktop.close_window(*_window(parameters))


def local_file(files: Path, name: str) -> bytes:
    """Read a local file that a task names.

    Raises:
        EnvironmentFailure: it is not in the folder of the tasks' files (class `setup`).
    """
    path = (files / name).resolve()
    if not path.is_relative_to(files.resolve()) or not path.is_file():
        raise EnvironmentFailure(f"the task's file {name!r} is not in {files}", FailureClass.SETUP)
    return path.read_bytes()


async def wait_until_settled(desktop: DesktopConnection) -> None:
    """Wait until two screenshots in a row are equal, three seconds at most."""
    deadline = time.monotonic() + _SECONDS_TO_SETTLE
    last = b""
    while time.monotonic() < deadline:
        await asyncio.sleep(_POLL_SECONDS)
        now = (await desktop.screenshot()).png
        if now == last:
            return
        last = now


async def _wait_until_changed(desktop: DesktopConnection, before: bytes) -> None:
    """Wait until the screen has changed and settled, unless the machine waits by itself."""
    if desktop.settles:
        return
    deadline = time.monotonic() + _SECONDS_TO_SHOW
    while (await desktop.screenshot()).png == before and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_SECONDS)
    await wait_until_settled(desktop)


def _command(parameters: dict[str, Any]) -> tuple[str | list[str], bool]:
    command, shell = parameters["command"], bool(parameters.get("shell", False))
    if isinstance(command, str) and not shell:
        return shlex.split(command), False
    return command, shell


def _window(parameters: dict[str, Any]) -> tuple[str, bool, bool]:
    return str(parameters["window_name"]), bool(parameters.get("strict")), bool(parameters.get("by_class"))


async def evaluate(desktop: DesktopConnection, evaluator: Evaluator, files: Path) -> float:
    """1.0 if the task is done, else 0.0; a missing file means that it is not done.

    Raises:
        EnvironmentFailure: the machine failed, so that the task cannot be checked.
    """
    await prepare(desktop, evaluator.postconfig, files)
    passed = [await _passes(desktop, check, files) for check in evaluator.checks]
    return float(all(passed) if evaluator.conjunction == "and" else any(passed))


async def _passes(desktop: DesktopConnection, check: Check, files: Path) -> bool:
    result = await _fetch(desktop, check.result, files)
    expected = None if check.expected is None else await _fetch(desktop, check.expected, files)
    if not isinstance(result, bytes) or (check.expected is not None and expected is None):
        return False
    return METRICS[check.metric](result, expected, check.options)


async def _fetch(desktop: DesktopConnection, getter: Getter, files: Path) -> Any:
    """The value that a getter names: bytes, the rules of a `rule`, or None for a missing file."""
    match getter.type:
        case "rule":
            return getter.rest.get("rules", {})
        case "vm_file":
            return await desktop.file(str(getter.rest["path"]))
        case "vm_command_line":
            command, shell = getter.rest["command"], bool(getter.rest.get("shell", False))
            return (await desktop.execute(command, shell)).output.encode()
        case _:
            return local_file(files, str(getter.rest["path"]))
