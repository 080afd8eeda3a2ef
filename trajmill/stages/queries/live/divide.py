"""Divides the goals of live apps between the splits: whole apps are held out, then goals of each task."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.tables.query import Split
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.queries.graph.splits import HELDOUT_GOALS, share_goals
from trajmill.stages.queries.live.base import LiveSample
from trajmill.stages.queries.live.sampling import samples_by_task

REPHRASINGS = 20
"""How many instructions are tried for one goal of a split in which a goal may have several."""
_REPHRASED = (Split.TRAIN, Split.VALIDATION, Split.HELDOUT_APPS)
_HEAD_START = 3
"""Goals that each task gives before a task begins that asks for one thing more, or one of which nothing is held out."""
_SPARE = 3
"""Goals for each wanted query of a held-out split; the surplus makes up for walks that fail."""


class LiveCandidate(NamedTuple):
    """A query that may be made."""

    sample: LiveSample
    split: Split
    heldout: bool
    """Whether it must have a phrasing that training never sees."""
    turn: int
    """0 for the first instruction of its goal."""

    @property
    def task(self) -> str:
        """Name of its task."""
        return self.sample.task


class _TaskGoals(NamedTuple):
    """The goals that one task gives to a split."""

    goals: tuple[LiveSample, ...]
    first: int
    """Turn of its first goal."""


class UnseenApps(NamedTuple):
    """Apps that training never sees."""

    heldout: Collection[str] = ()
    validation: Collection[str] = ()


def candidates(
    graphs: Sequence[AppGraph], wanted: Mapping[Split, int], unseen: UnseenApps, seed: int
) -> dict[Split, Iterator[LiveCandidate]]:
    """The candidates of each split, its tasks in turn; held-out goals are other values of tasks that training has.

    Args:
        graphs: the graphs of the apps.
        wanted: by split, the number of queries.
        unseen: whole apps for the held-out and the validation split.
        seed: decides on the values.
    """
    shares: dict[Split, list[_TaskGoals]] = {split: [] for split in Split}
    by_graph = [(graph.app, samples_by_task(graph, seed)) for graph in graphs]
    tasks = sum(len(of_graph) for _, of_graph in by_graph)
    of_task = {split: _SPARE * math.ceil(wanted[split] / max(tasks, 1)) for split in HELDOUT_GOALS}
    # No more than training will have, so that the held-out goals combine values that it really sees.
    of_task[Split.TRAIN] = max(_HEAD_START, math.ceil(wanted[Split.TRAIN] / max(tasks, 1)))
    for app, of_graph in by_graph:
        for goals in of_graph.values():
            given = share_goals(goals, of_task)
            if app in unseen.heldout:
                given = {Split.HELDOUT_APPS: goals}
            elif app in unseen.validation:
                given = {Split.VALIDATION: goals}
            first = _first_turn(goals, any(given.get(split) for split in HELDOUT_GOALS))
            for split, of_split in given.items():
                shares[split].append(_TaskGoals(of_split, first))
    return {split: _in_turn(split, shares[split]) for split in Split}


def _first_turn(goals: Sequence[LiveSample], heldout: bool) -> int:
    """The turn in which a task begins.

    Tasks that ask for more than one thing begin later: there are many, and an agent learns the single ones first.
    So do those of which nothing is held out: without other values of its tasks, what is held out could not be learned.
    """
    return _HEAD_START * (goals[0].parts - 1 + (0 if heldout else 1))


def _in_turn(split: Split, tasks: Sequence[_TaskGoals]) -> Iterator[LiveCandidate]:
    """One goal of each task, then the next of each; then all again with other words."""
    for turn in range(REPHRASINGS if split in _REPHRASED else 1):
        for number in range(max((task.first + len(task.goals) for task in tasks), default=0)):
            for goals, first in tasks:
                if first <= number < first + len(goals):
                    odd = split is Split.HELDOUT_APPS and (turn + number) % 2 == 1
                    heldout = split is Split.HELDOUT_PHRASINGS or odd
                    yield LiveCandidate(goals[number - first], split, heldout, turn)
