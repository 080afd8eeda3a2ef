"""Balances the training data of a Reflector, which calls most steps a success (GUI-Owl 2.2.3, reflector balancing)."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Reflection(NamedTuple):
    """What a Reflector said of one step."""

    trajectory_id: str
    step_index: int
    positive: bool
    """Whether it called the step a success."""


def balanced_reflections(reflections: Iterable[Reflection], seed: int) -> list[Reflection]:
    """The reflections that are learned from, in order of trajectory and step.

    The two rules of the paper: a negative reflection on step i is kept if step i + 1 was called positive; otherwise
    reflections are kept only from trajectories whose steps were all called positive. Then as many of the larger side
    are drawn at random as the smaller side has.

    Args:
        reflections: of any number of trajectories, in any order.
        seed: decides which of the larger side stay.
    """
    by_trajectory: dict[str, dict[int, Reflection]] = defaultdict(dict)
    for each in reflections:
        by_trajectory[each.trajectory_id][each.step_index] = each
    negative = [each for steps in by_trajectory.values() for each in steps.values() if _was_repaired(each, steps)]
    positive = [
        each
        for steps in by_trajectory.values()
        if all(one.positive for one in steps.values())
        for each in steps.values()
    ]
    size = min(len(negative), len(positive))
    return sorted([*_drawn(negative, size, seed), *_drawn(positive, size, seed)])


def _was_repaired(reflection: Reflection, steps: dict[int, Reflection]) -> bool:
    after = steps.get(reflection.step_index + 1)
    return not reflection.positive and after is not None and after.positive


def _drawn(reflections: Sequence[Reflection], size: int, seed: int) -> list[Reflection]:
    return random.Random(seed).sample(sorted(reflections), size)
