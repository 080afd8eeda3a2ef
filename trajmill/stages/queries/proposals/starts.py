"""Starting points of proposed tasks: apps in a start state, the tasks that people wrote for them, their first screens.

A file of example tasks has one JSON object per line, e.g. `{"instruction": "Order me a pizza", "platform": "phone",
"apps": ["bites"]}`. A `start_state`, in the form that the environment's reset takes, is optional.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.record import Origin, Record, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Platform, Source
from trajmill.stages.environments.base import Environment, EnvironmentFactory
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.environments.tasks import bare_query, first_mistake
from trajmill.stages.queries.base import failure
from trajmill.stages.rollout.base import Limits

STAGE = "propose"
PROPOSED = frozenset({Source.CURRICULUM, Source.SCREENSHOT})
"""Sources of the queries that a model proposed; they have no programmatic check."""


class HumanTask(Record):
    instruction: str = Field(min_length=1)
    platform: Platform
    apps: tuple[str, ...]
    start_state: dict[str, Any] = {}


def read_human_tasks(path: Path) -> tuple[HumanTask, ...]:
    """Read the tasks of a file; raises BadInputError if it cannot be read, has no task, or a line is not a task."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise BadInputError(f"{path}: example tasks cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: example tasks are not UTF-8 (byte {error.start})") from None
    tasks: list[HumanTask] = []
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                tasks.append(HumanTask.model_validate_json(line))
        except ValidationError as error:
            wanted = '{"instruction": ..., "platform": "phone", "apps": [...]}'
            text = f"{path}:{number}: {first_mistake(error, 'task')}; write one task per line, as {wanted}"
            raise BadInputError(text) from None
    if not tasks:
        raise BadInputError(f"{path}: no example task; write one JSON object per line")
    return tuple(tasks)


class TaskSuccess(NamedTuple):
    instruction: str
    platform: Platform
    apps: tuple[str, ...]
    success: float
    """Share of the judged attempts that were correct, 0 to 1."""


class StartingPoint(NamedTuple):
    platform: Platform
    apps: tuple[str, ...]
    start_state: str = "{}"
    examples: tuple[str, ...] = ()
    successes: tuple[TaskSuccess, ...] = ()
    screen: Observation | ScreenHandle | None = None
    """Its first screen, from which tasks are proposed; None for a curriculum."""

    @property
    def source(self) -> Source:
        return Source.CURRICULUM if self.screen is None else Source.SCREENSHOT

    @property
    def id(self) -> str:
        screen = self.screen.screen if isinstance(self.screen, Observation) else self.screen
        return content_id("ground", self.platform, self.apps, self.start_state, screen.screen_id if screen else "")


def curriculum_starting_points(
    tasks: Iterable[HumanTask], successes: Iterable[TaskSuccess] = ()
) -> tuple[StartingPoint, ...]:
    """Make one starting point per set of apps and start state, in order of their first task (CODA 3.4)."""
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
    first = (round_number - 1) * wanted % len(starts) if starts else 0
    return [*starts[first:], *starts[:first]][:wanted]


class StartScreens(NamedTuple):
    screens: dict[str, Observation]
    """By id of the starting point; one whose start state cannot be reached is missing."""
    failures: tuple[Failure, ...]


async def start_screens(
    starts: Sequence[StartingPoint],
    factory: Callable[[Platform], EnvironmentFactory],
    seed: Callable[[StartingPoint], int],
    limits: Limits,
    origin: Origin,
    at_once: int = 1,
) -> StartScreens:
    pools = {platform: EnvironmentPool(factory(platform), at_once) for platform in {each.platform for each in starts}}
    screens: dict[str, Observation] = {}

    async def read(start: StartingPoint) -> Failure | None:
        tried, reason = 0, EnvironmentFailure("no environment is to be tried", FailureClass.SETUP)
        while tried < limits.environment_tries:
            tried += 1
            try:
                async with pools[start.platform].lease() as environment:
                    screens[start.id] = await _reset(start, environment, seed(start), limits.seconds, origin)
                    return None
            except EnvironmentFailure as error:
                reason = error
        message = f"{', '.join(start.apps) or start.platform}: the start state cannot be reached: {reason}"
        return failure(start.id, message, origin, STAGE, reason.failure_class, tried, STAGE)

    try:
        failed = await asyncio.gather(*map(read, starts))
    finally:
        for pool in pools.values():
            await pool.close()
    return StartScreens(screens, tuple(each for each in failed if each))


async def _reset(
    start: StartingPoint, environment: Environment, seed: int, seconds: float, origin: Origin
) -> Observation:
    if environment.platform is not start.platform:
        text = f"its platform is {start.platform}, the environment is a {environment.platform}"
        raise EnvironmentFailure(text, FailureClass.SETUP)
    try:
        async with asyncio.timeout(seconds):
            name = start.apps[0] if start.apps else ""
            bare = bare_query(start.platform, name, start.start_state, start.source, origin, environment.name)
            return await environment.reset(bare.model_copy(update={"apps": start.apps}), seed)
    except TimeoutError:
        raise EnvironmentFailure(f"it took longer than {seconds:g} s") from None
