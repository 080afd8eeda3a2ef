"""The programmatic check of a desktop task: fetches files and command outputs and compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trajmill.stages.environments.desktop.connection import DesktopConnection
from trajmill.stages.environments.desktop.osworld.metrics import METRICS
from trajmill.stages.environments.desktop.osworld.preparation import local_file, prepare
from trajmill.stages.environments.desktop.osworld.task import Check, Evaluator, Getter


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
