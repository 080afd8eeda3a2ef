"""Read OSWorld's task files for OSWorld's own code: what is incomplete is listed, the rest becomes queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.stages.environments.desktop.osworld.client import OsworldCode
from trajmill.stages.environments.desktop.spec import OsworldSpec
from trajmill.stages.environments.desktop.task import DesktopTask, make_queries, task_files
from trajmill.stages.environments.tasks import ImportedQueries
from trajmill.stages.parts import first_mistake


class CheckedTask(NamedTuple):
    file: Path
    task: DesktopTask | None
    reasons: tuple[str, ...]
    """Why the task is incomplete, as far as no machine is needed to know."""


async def check_tasks(folder: Path, spec: OsworldSpec) -> list[CheckedTask]:
    """Check all task files below a folder; raises BadInputError if there are none, EnvironmentFailure (`setup`)."""
    files = task_files(folder)
    code = await OsworldCode.start(spec, folder)
    try:
        return [await _checked(file, code) for file in files]
    finally:
        await code.python.close()


async def _checked(file: Path, code: OsworldCode) -> CheckedTask:
    try:
        content = json.loads(file.read_text())
        task = DesktopTask.model_validate(content)
    except ValidationError as error:
        return CheckedTask(file, None, (first_mistake(error, "the task"),))
    except (OSError, ValueError) as error:
        return CheckedTask(file, None, (f"no JSON task: {error}",))
    return CheckedTask(file, task, await code.check(content))


async def import_checked(
    folder: Path, spec: OsworldSpec, held_out: float, origin: Origin, validation: float
) -> ImportedQueries:
    """Make the queries of the complete tasks, and a failure of each other one."""
    checked = await check_tasks(folder, spec)
    tasks = [each.task for each in checked if each.task is not None and not each.reasons]
    queries = make_queries(tasks, folder, held_out, origin, validation, osworld=True)
    fixed = {"stage": "generate", "failure_class": FailureClass.TASK, "attempts": 1, **origin.common(made_by="osworld")}
    failures = [
        Failure(input_id=each.file.stem, message=f"{each.file.name}: {each.reasons[0]}", **fixed)
        for each in checked
        if each.reasons
    ]
    # Trying each at its start would restore a machine for each.
    return ImportedQueries(queries, failures)
