"""Samples that tests choose by hand."""

from __future__ import annotations

from collections.abc import Mapping

from trajmill.stages.environments.simulated.annotations import PathMetadata, path_metadata
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.queries.graph.sampling import Path, SlotChoice, TaskSample, paths


def chosen(task: TaskGraph, **values: Scalar) -> TaskSample:
    """The sample with these slot values, on the first path of the task."""
    return _on(task, paths(task)[0], values)


def chosen_through(task: TaskGraph, page: str, **values: Scalar) -> TaskSample:
    """The sample with these slot values, on the first path that passes a page."""
    return _on(task, next(path for path in paths(task) if page in path), values)


def described(task: TaskGraph, sample: TaskSample) -> PathMetadata:
    """What a writer is told about a sample."""
    return path_metadata(task, sample.path, sample.asked)


def _on(task: TaskGraph, path: Path, values: Mapping[str, Scalar]) -> TaskSample:
    choices = (SlotChoice(slot, values[slot.spec.name]) for slot in task.slots if slot.spec.name in values)
    return TaskSample(path, tuple(choices))
