"""What an episode did of what its query asks, and the labels of its steps by what is left after each (paper 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import inf
from typing import NamedTuple, Protocol

import networkx as nx

from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.replay import ElementAction, SeenStep
from trajmill.stages.critics.voting import StepResult, at_most_words

GOOD, NEUTRAL, HARMFUL, UNKNOWN = StepLabel


class Problem(NamedTuple):
    """Something that is wrong for certain."""

    text: str
    step: int | None = None


class Left(NamedTuple):
    """What is left of a task; an earlier field counts more."""

    unasked: int = 0
    """What was done and cannot be taken back, and nobody asked for."""
    acts: int = 0
    transitions: float = 0.0
    """The fewest to the end, past each page on which something is left; infinite without such a way."""
    values: int = 0


class Reading(Protocol):
    """An episode on the pages of its app, read against what its query asks."""

    @property
    def steps(self) -> Sequence[SeenStep]: ...

    def problems(self) -> Sequence[Problem]:
        """Return all that is wrong with the episode; empty if it did what its query asks.

        Raises JudgeFailure if nothing is wrong for certain, but the annotations do not tell.
        """

    def left(self) -> Sequence[Left]:
        """Return what is left before the first step and after each one."""

    def use_of(self, at: int) -> str:
        """Return what a step is good for after which as much is left as before; empty if it is of no use."""


class Ways:
    """The fewest transitions between places."""

    def __init__(self, network: nx.MultiDiGraph[str] | nx.DiGraph[str]) -> None:
        lengths = nx.single_source_shortest_path_length
        self._from: Callable[[str], Mapping[str, int]] = cache(lambda at: lengths(network, at) if at in network else {})

    def past(self, stops: Iterable[str]) -> float:
        """Return the fewest transitions past places, in this order; infinite if there is no way."""
        return float(sum(self._from(start).get(end, inf) for start, end in pairwise(stops)))


class Opinion(NamedTuple):
    label: StepLabel
    why: str

    def on(self, step: SeenStep) -> StepResult:
        return StepResult(step.index, f"{step.caption} {self.why}", at_most_words(step.caption), self.label)


def first_error(steps: Sequence[StepResult]) -> int | None:
    """Return the first HARMFUL step; None without one, as at a limit, and after a step whose label is UNKNOWN."""
    error = next((each for each in steps if each.label in (HARMFUL, UNKNOWN)), None)
    return None if error is None or error.label is UNKNOWN else error.index


_NO_ACTION, _GAVE_UP = Opinion(HARMFUL, "The reply was no action."), Opinion(HARMFUL, "It gave up.")
_WHY = {
    "unasked": ("It took back what nobody asked for.", "It did something that nobody asked for, or not as asked."),
    "acts": ("It did what was asked for.", "It undid what was asked for."),
    "transitions": ("It came nearer to what is left of the task.", "It went away from what is left of the task."),
    "values": ("It came nearer to the values that are asked for.", "It set something otherwise than asked."),
}
"""By what differs after a step: why it is good, and why it is harmful."""


def opinions_on(reading: Reading) -> list[Opinion]:
    """Return the opinion on each step. GOOD: less of the task is left after it. HARMFUL: more, or it was no action."""
    left = reading.left()
    opinions = [_opinion(reading, at, *pair) for at, pair in enumerate(pairwise(left))]
    for at, (step, following) in enumerate(pairwise(reading.steps)):
        roles = [each.action.element.role if each.action.element else "" for each in (step, following)]
        if roles == ["menu", "menu_item"] and opinions[at].label is NEUTRAL and opinions[at + 1].label is GOOD:
            opinions[at] = Opinion(GOOD, "It opened a menu with what was asked for.")
    return opinions


def _opinion(reading: Reading, at: int, before: Left, after: Left) -> Opinion:
    step = reading.steps[at]
    if step.action.parsed is None:
        return _NO_ACTION
    if step.action.kind in ("terminate", "answer"):
        try:
            found = reading.problems()
        except JudgeFailure:
            return Opinion(UNKNOWN, "The graph does not tell whether everything was done.")
        if step.action.gives_up:
            return _GAVE_UP if found else Opinion(GOOD, "What was asked for is not there.")
        return Opinion(HARMFUL, f"It ended though {found[0].text}.") if found else Opinion(GOOD, "All had been done.")
    if before != after:
        is_good = after < before
        differs = next(name for name in Left._fields if getattr(before, name) != getattr(after, name))
        return Opinion(GOOD if is_good else HARMFUL, _WHY[differs][not is_good])
    if step.outcome.same:
        return Opinion(NEUTRAL, "Nothing visible came of it.")
    if not any(after):
        return Opinion(NEUTRAL, "Nothing was left to do.")
    use = reading.use_of(at)
    return Opinion(GOOD, use) if use else Opinion(NEUTRAL, "It only looked, or nothing tells what it is for.")


def opinions_without_task(steps: Sequence[SeenStep]) -> list[Opinion]:
    """Label only the steps that help with no task: replies without an action, and repetitions without an effect."""
    found, tried = list[Opinion](), set[tuple[str, ElementAction]]()
    for step in steps:
        this = step.outcome.before.screen_id, step.action
        opinion = Opinion(UNKNOWN, "Nothing tells what the task needs.")
        if step.outcome.same and this in tried:
            opinion = Opinion(NEUTRAL, "It did the same thing again, without effect.")
        found.append(_NO_ACTION if step.action.parsed is None else opinion)
        tried.add(this)
    return found
