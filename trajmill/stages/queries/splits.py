"""Divides goals between the splits: training keeps at least half, and held-out goals combine values from training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Protocol, TypeVar

from trajmill.schemas.tables.query import Split

HELDOUT_GOALS = (Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS, Split.VALIDATION)
"""The splits that hold out goals of tasks that training has."""
HELDOUT_SHARE = 6
"""Each held-out split gets at most one in six goals of a task."""
SPARE_GOALS = 3
"""Goals for each wanted query of a held-out split; the surplus replaces goals that give no query."""
_REPHRASED = (Split.TRAIN, Split.HELDOUT_APPS, Split.VALIDATION)
_REPHRASINGS = 20


class GoalWithKey(Protocol):
    """A goal that can be compared."""

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Pairs of slot and value; equal for goals that ask for the same thing."""
        ...


GoalT = TypeVar("GoalT", bound=GoalWithKey)


def rephrasings(split: Split) -> range:
    """Return the turns of a split: how many instructions one goal may get."""
    return range(_REPHRASINGS if split in _REPHRASED else 1)


def is_held_out_phrasing(split: Split, number: int) -> bool:
    """Whether a candidate gets a phrasing kept from training; of held-out apps every other one does."""
    return split is Split.HELDOUT_PHRASINGS or (split is Split.HELDOUT_APPS and number % 2 == 1)


def share_goals(goals: Sequence[GoalT], wanted: Mapping[Split, int]) -> dict[Split, tuple[GoalT, ...]]:
    """Give each goal of a task to one split; training gets the surplus.

    Training gets the goals in which slot values first appear. The held-out splits get goals whose values training has,
    hence new combinations, if a task has enough slots and goals.
    """
    share = {split: min(wanted[split], len(goals) // HELDOUT_SHARE) for split in HELDOUT_GOALS}
    held_out = sum(share.values())
    seen: set[tuple[str, str]] = set()
    with_new_values: list[GoalT] = []
    others: list[GoalT] = []
    for goal in goals:
        (others if seen.issuperset(goal.key) else with_new_values).append(goal)
        seen.update(goal.key)
    ordered = with_new_values + others
    trained = min(wanted[Split.TRAIN], len(goals) - held_out)
    trained_values = {value for goal in ordered[:trained] for value in goal.key}
    spare = sorted(ordered[trained:], key=lambda goal: len(set(goal.key) - trained_values))
    # Back in drawing order: otherwise the first held-out split would get the most familiar values.
    heldout = iter(sorted(spare[:held_out], key=goals.index))
    shares = {split: tuple(islice(heldout, share[split])) for split in HELDOUT_GOALS}
    return {Split.TRAIN: (*ordered[:trained], *spare[held_out:]), **shares}
