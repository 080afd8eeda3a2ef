"""The programmatic check of a desktop task: fetches files and command outputs, compares them, combines the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trajmill.stages.environments.desktop.connection import DesktopConnection
from trajmill.stages.environments.desktop.osworld.metrics import METRICS
from trajmill.stages.environments.desktop.osworld.preparation import local_file, prepare
from trajmill.stages.environments.desktop.osworld.task import Check, Evaluator, Part


async def evaluate(desktop: DesktopConnection, evaluator: Evaluator, files: Path) -> float:
    """1.0 if the task is done, else 0.0; a file that is not there is a task that is not done.

    Raises:
        EnvironmentFailure: the machine failed, which says nothing about the task.
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


async def _fetch(desktop: DesktopConnection, part: Part, files: Path) -> Any:
    """What a part of a check names: bytes, the rules of a `rule`, or None for a missing file."""
    match part.type:
        case "rule":
            return part.rest.get("rules", {})
        case "vm_file":
            return await desktop.file(str(part.rest["path"]))
        case "vm_command_line":
            command, shell = part.rest["command"], bool(part.rest.get("shell", False))
            return (await desktop.execute(command, shell)).output.encode()
        case _:
            return local_file(files, str(part.rest["path"]))
