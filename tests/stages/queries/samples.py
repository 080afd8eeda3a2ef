"""Samples that tests choose by hand."""

from __future__ import annotations

from stages.environments.simulated.app_spec import Scalar
from stages.environments.simulated.world import TaskGraph
from stages.queries.sampling import SlotChoice, TaskSample, paths


def chosen(task: TaskGraph, through: str = "", **values: Scalar) -> TaskSample:
    """The sample with these slot values, on the first path of the task that passes the page `through`."""
    path = next(path for path in paths(task) if not through or through in path)
    return TaskSample(path, tuple(SlotChoice(s, values[s.spec.name]) for s in task.slots if s.spec.name in values))
