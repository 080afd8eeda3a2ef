"""Reads queries for devices from a user's file."""

from __future__ import annotations

from pathlib import Path

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.android.task.start_and_goal import PhoneGoal, PhoneStart
from trajmill.stages.environments.task_file import TaskLine, read_task_lines


class PhoneTask(TaskLine[PhoneStart, PhoneGoal]):
    """One line of the file."""

    apps: tuple[str, ...]
    """The apps of the task, by name (as in the table of apps) or package; each reset stops them."""
    start_state: PhoneStart = PhoneStart()
    goal: PhoneGoal = PhoneGoal()


def read_task_file(path: Path, origin: Origin) -> list[Query]:
    """The queries of a file, in its order; empty lines are skipped.

    Raises:
        BadInputError: the file cannot be read, or a line is no task: one line for each mistake.
    """
    return read_task_lines(path, PhoneTask, Platform.PHONE, origin)
