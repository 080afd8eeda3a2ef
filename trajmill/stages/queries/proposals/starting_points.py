"""Starting points of new tasks: apps in a start state, with the known tasks for them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Platform, Source
from trajmill.stages.queries.proposals.human_tasks import HumanTask

PROPOSED = frozenset({Source.CURRICULUM, Source.SCREENSHOT})
"""Sources of the queries that a model proposed; they have no programmatic check."""


class TaskSuccess(NamedTuple):
    """The success of the agent so far at one task."""

    instruction: str
    platform: Platform
    apps: tuple[str, ...]
    success: float
    """Share of the judged attempts that were correct, 0 to 1."""


class StartingPoint(NamedTuple):
    """Apps in one start state, for which tasks are proposed."""

    platform: Platform
    apps: tuple[str, ...]
    """As in `Query.apps`."""
    start_state: str = "{}"
    """The start state, as JSON for the environment's reset; `{}` for its default state."""
    examples: tuple[str, ...] = ()
    """Instructions for it, written by people."""
    successes: tuple[TaskSuccess, ...] = ()
    screen: Observation | ScreenHandle | None = None
    """Its first screen, from which tasks are proposed; None for a curriculum."""

    @property
    def source(self) -> Source:
        """How its tasks are made."""
        return Source.CURRICULUM if self.screen is None else Source.SCREENSHOT

    @property
    def id(self) -> str:
        """Identifies it on failures."""
        screen = self.screen.screen if isinstance(self.screen, Observation) else self.screen
        return content_id("ground", self.platform, self.apps, self.start_state, screen.screen_id if screen else "")


def curriculum_starting_points(
    tasks: Iterable[HumanTask], successes: Iterable[TaskSuccess] = ()
) -> tuple[StartingPoint, ...]:
    """One starting point for the tasks of each set of apps and start state, in order of their first task (CODA 3.4).

    Args:
        tasks: tasks that people wrote.
        successes: the success so far; tasks of other apps are ignored.
    """
    examples: dict[tuple[Platform, tuple[str, ...], str], list[str]] = defaultdict(list)
    for task in tasks:
        examples[task.platform, task.apps, json.dumps(task.start_state, sort_keys=True)].append(task.instruction)
    by_apps: dict[tuple[Platform, tuple[str, ...]], list[TaskSuccess]] = defaultdict(list)
    for task_successes in successes:
        by_apps[task_successes.platform, task_successes.apps].append(task_successes)
    return tuple(
        StartingPoint(platform, apps, start_state, tuple(written), tuple(by_apps[platform, apps]))
        for (platform, apps, start_state), written in examples.items()
    )


def in_turn(starts: Sequence[StartingPoint], wanted: int, round_number: int) -> Sequence[StartingPoint]:
    """At most `wanted` starting points, which get a task in this round; over the rounds all take turns."""
    first = (round_number - 1) * wanted % len(starts) if starts else 0
    return [*starts[first:], *starts[:first]][:wanted]
