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
    """What a query asks for."""

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Pairs of slot and value; equal for goals that ask for the same thing."""
        ...


GoalT = TypeVar("GoalT", bound=GoalWithKey)


def rephrasings(split: Split) -> range:
    """The turns of a split: how many instructions one goal may get."""
    return range(_REPHRASINGS if split in _REPHRASED else 1)


def is_held_out_phrasing(split: Split, number: int) -> bool:
    """Whether a candidate gets a phrasing that training never sees; of held-out apps every other one does."""
    return split is Split.HELDOUT_PHRASINGS or (split is Split.HELDOUT_APPS and number % 2 == 1)


def share_goals(goals: Sequence[GoalT], wanted: Mapping[Split, int]) -> dict[Split, tuple[GoalT, ...]]:
    """Give each goal of a task to one split; training gets the goals that the held-out splits do not need.

    Training gets the goals in which slot values first appear. The held-out splits get goals whose values training has
    seen, so that they are new combinations, if a task has enough slots and goals.
    """
    share = {split: min(wanted[split], len(goals) // HELDOUT_SHARE) for split in HELDOUT_GOALS}
    ordered = _values_first(goals)
    trained = min(wanted[Split.TRAIN], len(goals) - sum(share.values()))
    seen = {value for goal in ordered[:trained] for value in goal.key}
    spare = sorted(ordered[trained:], key=lambda goal: len(set(goal.key) - seen))
    # In the order of drawing again, so that no held-out split gets the more familiar values.
    heldout = iter(sorted(spare[: sum(share.values())], key=goals.index))
    shares = {split: tuple(islice(heldout, share[split])) for split in HELDOUT_GOALS}
    return {Split.TRAIN: (*ordered[:trained], *spare[sum(share.values()) :]), **shares}


def _values_first(goals: Sequence[GoalT]) -> list[GoalT]:
    seen: set[tuple[str, str]] = set()
    first: list[GoalT] = []
    later: list[GoalT] = []
    for goal in goals:
        (later if seen.issuperset(goal.key) else first).append(goal)
        seen.update(goal.key)
    return first + later
