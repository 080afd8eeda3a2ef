"""Reads queries for the browser from a user's file."""

from __future__ import annotations

from pathlib import Path

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.browser.task.start_and_goal import BrowserGoal, BrowserStart
from trajmill.stages.environments.task_file import TaskLine, read_task_lines


class WebTask(TaskLine[BrowserStart, BrowserGoal]):
    """One line of the file."""

    goal: BrowserGoal = BrowserGoal()


def read_task_file(path: Path, origin: Origin) -> list[Query]:
    """The queries of a file, in its order; empty lines are skipped.

    Raises:
        BadInputError: the file cannot be read, or a line is no task: one line for each mistake.
    """
    return read_task_lines(path, WebTask, Platform.WEB, origin)
