"""Read OSWorld's task files: instruction, preparation and evaluator of a task.

A task that needs more than files and commands is refused; the error names the missing part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import refuse_unknown
from trajmill.schemas.record import Origin, Record, content_id
from trajmill.schemas.tables.query import PathStep, Platform, Query, Split
from trajmill.stages.environments.desktop.metrics import METRICS
from trajmill.stages.environments.tasks import own_query
from trajmill.stages.parts import first_mistake

_WINDOW = frozenset({"window_name", "strict", "by_class"})
_COMMAND = frozenset({"command", "shell"})
_FILES = frozenset({"files"})
SETUPS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("launch", "execute", "command"), _COMMAND),
    **dict.fromkeys(("upload_file", "upload"), _FILES),
    "open": frozenset({"path"}),
    "sleep": frozenset({"seconds"}),
    **dict.fromkeys(("activate_window", "close_window"), _WINDOW),
}
_PLACEHOLDERS = ("{CLIENT_PASSWORD}", "{SCREEN_WIDTH", "{SCREEN_HEIGHT")
RESULTS = ("vm_file", "vm_command_line")
EXPECTATIONS = ("rule", "vm_file", "vm_command_line", "local_file")
OsworldTask = dict[str, Any]
"""`instruction`, `config`, `evaluator` and `proxy`, as in a task file."""
_MAKER = "osworld"
_FEWEST_STEPS = 15  # OSWorld's own limit
_STEPS_PER_PATH_STEP = 3


class Getter(BaseModel):
    """The source of a value of a check (OSWorld's term): its type, and keys that depend on the type."""

    model_config = ConfigDict(frozen=True, extra="allow")
    type: str

    @property
    def rest(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class SetupStep(Record):
    type: str
    parameters: dict[str, Any] = {}


class DesktopStart(Record):
    config: tuple[SetupStep, ...] = ()
    osworld: bool = False
    """Whether OSWorld's own code prepares and checks the task."""
    proxy: bool = False


class Check(Record):
    metric: str
    result: Getter
    expected: Getter | None
    options: dict[str, Any]


class Evaluator(Record):
    postconfig: tuple[SetupStep, ...]
    checks: tuple[Check, ...]
    conjunction: Literal["and", "or"]


class DesktopTask(BaseModel):
    """The content of a task file; other keys are ignored."""

    model_config = ConfigDict(frozen=True)
    id: str
    instruction: str
    config: tuple[SetupStep, ...] = ()
    evaluator: dict[str, Any] | None = None
    related_apps: tuple[str, ...] = ()
    proxy: bool = False
    path: tuple[PathStep, ...] = ()
    """The annotated reference path of our own tasks; OSWorld's files have none."""
    difficulty: Literal[1, 2, 3] = 1


class _Evaluator(BaseModel):
    """An evaluator as it is written: one check, or lists of the same length."""

    func: str | list[str]
    result: Getter | list[Getter]
    expected: Getter | list[Getter | None] | None = None
    options: dict[str, Any] | list[dict[str, Any]] | None = None
    conj: Literal["and", "or"] = "and"
    postconfig: tuple[SetupStep, ...] = ()


def read_task(file: Path) -> DesktopTask:
    """Read a task file; raises BadInputError with file and key for what is no task, or not supported."""
    try:
        return parse_task(json.loads(file.read_text()), str(file))
    except (OSError, ValueError) as error:
        raise BadInputError(f"{file}: no JSON task: {error}") from error


def parse_task(content: Any, where: str) -> DesktopTask:
    try:
        task = DesktopTask.model_validate(content)
        if task.evaluator is not None:
            parse_evaluator(task.evaluator, where)
    except ValidationError as error:
        raise BadInputError(f"{where}: {first_mistake(error, 'the task')}") from error
    _refuse_steps(where, "config", task.config)
    return task


def parse_evaluator(content: Mapping[str, Any], where: str) -> Evaluator:
    """Make an evaluator; raises ValidationError for what is none, BadInputError for what is not supported."""
    refuse_unknown(_as_list(content.get("func")), METRICS, f"{where}: evaluator.func: unknown")
    written = _Evaluator.model_validate(content)
    metrics, results = _as_list(written.func), _as_list(written.result)
    expected = _as_list(written.expected) or [None] * len(metrics)
    options = _as_list(written.options) or [{}] * len(metrics)
    if not len(metrics) == len(results) == len(expected) == len(options):
        raise BadInputError(f"{where}: evaluator: func, result, expected and options differ in length")
    _refuse_steps(where, "evaluator.postconfig", written.postconfig)
    refuse_unknown((part.type for part in results), RESULTS, f"{where}: evaluator.result: unknown")
    refuse_unknown((part.type for part in expected if part), EXPECTATIONS, f"{where}: evaluator.expected: unknown")
    checks = tuple(
        Check(metric=metric, result=result, expected=wanted, options=chosen)
        for metric, result, wanted, chosen in zip(metrics, results, expected, options, strict=True)
    )
    return Evaluator(postconfig=written.postconfig, checks=checks, conjunction=written.conj)


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _refuse_steps(where: str, part: str, steps: Iterable[SetupStep]) -> None:
    for step in steps:
        refuse_unknown([step.type], SETUPS, f"{where}: {part}: unknown")
        refuse_unknown(step.parameters, SETUPS[step.type], f"{where}: {part}: {step.type}: unknown")
        text = json.dumps(step.parameters)
        if step.type in ("upload_file", "upload") and "://" in text:
            raise BadInputError(f"{where}: {part}: {step.type} takes local files only, nothing is downloaded")
        if any(placeholder in text for placeholder in _PLACEHOLDERS):
            raise BadInputError(f"{where}: {part}: {step.type} has a placeholder that is not filled in here")


def packaged_tasks() -> Path:
    return Path(__file__).parent / "tasks"


def import_tasks(folder: Path, held_out: float, origin: Origin, validation: float = 0.0) -> list[Query]:
    """Make the queries of all task files below a folder; `held_out` and `validation` are shares, chosen by ids."""
    return make_queries([read_task(file) for file in task_files(folder)], folder, held_out, origin, validation)


def task_files(folder: Path) -> list[Path]:
    if files := sorted(folder.rglob("*.json")):
        return files
    raise BadInputError(f"{folder}: there are no task files (*.json); name a folder that has some")


def make_queries(
    tasks: Iterable[DesktopTask],
    folder: Path,
    held_out: float,
    origin: Origin,
    validation: float,
    osworld: bool = False,
) -> list[Query]:
    tasks = sorted(tasks, key=lambda task: task.id)
    ids = [task.id for task in tasks]
    if len(set(ids)) < len(ids):
        raise BadInputError(f"{folder}: two tasks have the id {next(i for i in ids if ids.count(i) > 1)!r}; rename one")
    by_chance = sorted(ids, key=lambda task_id: content_id("held-out", task_id))
    first, last = round(held_out * len(ids)), round((held_out + validation) * len(ids))
    splits = dict.fromkeys(by_chance[:first], Split.HELDOUT_SLOTS)
    splits |= dict.fromkeys(by_chance[first:last], Split.VALIDATION)
    return [_query(task, splits.get(task.id, Split.TRAIN), origin, osworld) for task in tasks]


def osworld_task(query: Query, start: DesktopStart) -> OsworldTask | None:
    """Return the task as OSWorld's code takes it; None if that code is not to be used."""
    if not start.osworld:
        return None
    config = [step.model_dump() for step in start.config]
    evaluator = json.loads(query.goal)
    return {"instruction": query.instruction, "config": config, "evaluator": evaluator, "proxy": start.proxy}


def _query(task: DesktopTask, split: Split, origin: Origin, osworld: bool) -> Query:
    start: dict[str, Any] = {"config": [step.model_dump() for step in task.config]}
    if osworld:
        start |= {"osworld": True, "proxy": task.proxy}
    pages = tuple(dict.fromkeys(step.page for step in task.path))
    return own_query(
        Platform.DESKTOP,
        task.id,
        task.instruction,
        json.dumps(start, sort_keys=True),
        origin,
        _MAKER,
        apps=task.related_apps,
        pages=pages,
        page_descriptions=("A window of a desktop program.",) * len(pages),
        phrasing=_MAKER,
        goal=json.dumps(task.evaluator or {}, sort_keys=True),
        path=task.path,
        difficulty=task.difficulty,
        max_steps=max(_FEWEST_STEPS, _STEPS_PER_PATH_STEP * len(task.path)),
        split=split,
    )
