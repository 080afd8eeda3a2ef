"""The start state and the goal of a query across devices: one of each for each device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.record import Origin, Record
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.first_mistake import first_mistake
from trajmill.stages.environments.task_file import TaskLine, read_task_lines

_NOTHING = "{}"


class OnDevices(Record):
    """The start states, or the goals, of the devices."""

    devices: dict[Platform, dict[str, Any]] = {}
    """By device, in the form of its environment; one that is missing has its default start, if any, and no goal."""


def query_on(query: Query, device: Platform) -> Query:
    """The part of a query that concerns one device; a query for one device alone is that part itself.

    Raises:
        EnvironmentFailure: the start state or the goal is malformed (class `task`).
    """
    parts = {"start_state": _part(query.start_state, query, device), "goal": _part(query.goal, query, device)}
    return query.model_copy(update={"platform": device, **parts})


def is_named(query: Query, device: Platform) -> bool:
    """Whether a query begins at a device, or says how it starts or ends. Raises as `query_on`."""
    own = query_on(query, device)
    return query.platform is device or own.start_state != _NOTHING or own.goal != _NOTHING


def read_device_tasks(path: Path, first: Platform, origin: Origin) -> list[Query]:
    """The tasks of a file; each begins at the device `first`.

    Raises:
        BadInputError: the file cannot be read, or a line is no task.
    """
    return read_task_lines(path, TaskLine[OnDevices, OnDevices], first, origin)


def _part(text: str, query: Query, device: Platform) -> str:
    try:
        across = "devices" in json.loads(text)
        parts = OnDevices.model_validate_json(text).devices if across else {}
    except (ValueError, TypeError, ValidationError) as error:
        reason = first_mistake(error, "it") if isinstance(error, ValidationError) else str(error)
        raise EnvironmentFailure(f"start state or goal across devices: {reason}", FailureClass.TASK) from error
    if not across:
        return text if query.platform is device else _NOTHING
    return json.dumps(parts.get(device, {}), sort_keys=True)
