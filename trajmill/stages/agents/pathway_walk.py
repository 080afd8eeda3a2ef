"""Walks an annotated path that may go through several apps and devices.

Simulated apps, which a path opens from their launcher, are walked by pages; all others by the names of elements.
"""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.actions import Action, SwitchDevice, Terminate
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.agents.element_walk import WalkPosition, next_move
from trajmill.stages.environments.simulated.reference_path import LAUNCHER, Position, Walker


class PathwayPosition(NamedTuple):
    """The position of a walk on its path."""

    step: int = 0
    """Index of the next operation."""
    waits: int = 0
    """Number of waits and scrolls for its target so far."""
    upwards: bool = False
    """Whether the walk scrolls up."""


class PathwayMove(NamedTuple):
    """One action of a walk, and the position after it."""

    action: Action
    position: PathwayPosition


class _PartOfPath(NamedTuple):
    """The steps of a path on one device."""

    begin: int
    steps: tuple[PathStep, ...]
    device: Platform


def next_pathway_move(
    path: tuple[PathStep, ...], first: Platform, observation: Observation, position: PathwayPosition
) -> PathwayMove:
    """The next action of a walk; the last is `Terminate`, with status failure if the walk cannot go on.

    Args:
        path: the whole path; `switch` goes to another device.
        first: the device that it begins at.
        observation: the screen.
        position: the position so far.

    Raises:
        ValueError: the observation has no accessibility tree.
    """
    part = _part_at(path, first, position.step)
    if part.begin + len(part.steps) <= position.step < len(path):
        device = Platform(path[position.step].target)
        return PathwayMove(SwitchDevice(device=device.value), PathwayPosition(position.step + 1))
    here = position.step - part.begin
    is_last = part.begin + len(part.steps) == len(path)
    steps = part.steps if is_last else (*part.steps, _end_of(part))
    if any(step.page == LAUNCHER and step.operation == "open" for step in part.steps):
        walked = Walker(steps, part.device).next_action(observation, Position(here, position.upwards))
        action, after = walked.action, PathwayPosition(walked.position.step, 0, walked.position.upwards)
    else:
        moved = next_move(steps, observation, WalkPosition(here, position.waits, position.upwards), part.device)
        action, after = moved.action, PathwayPosition(*moved.position)
    if not is_last and action == Terminate(status="success"):
        return next_pathway_move(path, first, observation, PathwayPosition(part.begin + len(part.steps)))
    return PathwayMove(action, after._replace(step=part.begin + after.step))


def _end_of(part: _PartOfPath) -> PathStep:
    return PathStep(page=part.steps[-1].page if part.steps else "", operation="finish", target="")


def _part_at(path: tuple[PathStep, ...], first: Platform, step: int) -> _PartOfPath:
    """The part of a path that has a step, or that ends right before it, if the step goes to another device."""
    begin, device = 0, first
    for index, each in enumerate(path):
        if each.operation != "switch":
            continue
        if index >= step:
            return _PartOfPath(begin, path[begin:index], device)
        begin, device = index + 1, Platform(each.target)
    return _PartOfPath(begin, path[begin:], device)
