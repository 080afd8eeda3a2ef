"""What a rollout costs beyond its environments' own time, at 1 to 64 instances.

Run: `python -m benchmarks.pool`. The environment sleeps as long as a real one takes (50 to 300 ms a step, 0.2 to 1 s a
reset) and shows a new screen of 30 kB after every step; the agent walks a path without a model. All else is the real
thing: the pool with its time limits, the episodes, the journals of rows and screens, the shards. The ideal is what
perfect instances would need that each take the next attempt the moment they are free, and do nothing but sleep.
Overhead is what the round takes longer than that; it should stay below 5 %. It is the wait for this process where
several instances are done at once, and, after the last episode, the writing of the shards, which no instance's time
hides. So it grows with the instances, and with whatever else the machine does: on a busy one look at the last column,
this process's CPU time per step, the agent's included.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from trajmill.pipelines.models import ActingAgent
from trajmill.pipelines.rollout import RunAttempts
from trajmill.schemas.actions import Action
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.spec import ReferenceSpec
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.warehouse.layout import StageRun, create_warehouse

_INSTANCES = (1, 4, 16, 64)
_EPISODES_PER_INSTANCE = 4
_TAPS = 7
_STEP_SECONDS, _RESET_SECONDS = (0.05, 0.3), (0.2, 1.0)
_SCREEN_BYTES, _ELEMENTS = 30_000, 25
ORIGIN = Origin(round=1, run_id="benchmark", code_version="benchmark")


class _Times(NamedTuple):
    """How long an episode's reset and each of its steps take, in seconds."""

    reset: float
    steps: tuple[float, ...]

    @classmethod
    def of(cls, seed: int) -> _Times:
        """The times of one seed; the last step is the agent's word that it is done."""
        chance = random.Random(seed)
        return cls(chance.uniform(*_RESET_SECONDS), tuple(chance.uniform(*_STEP_SECONDS) for _ in range(_TAPS + 1)))


class _Spent(NamedTuple):
    """Seconds of a shard, by the clock and on the processor."""

    wall: float
    processor: float


class SleepingEnvironment:
    """Takes its time, and shows something new after every step."""

    platform = Platform.WEB
    name = "sleeping"

    def __init__(self) -> None:
        self._seed = 0
        self._left: list[float] = []
        self._elements = tuple(
            UIElement("button", f"Row {row}", Box(0, row * 20, 200, row * 20 + 20), ("clickable",), "", str(row))
            for row in range(_ELEMENTS)
        )

    async def reset(self, query: Query, seed: int) -> Observation:
        """Take the time of the seed's reset."""
        times = _Times.of(seed)
        self._seed, self._left = seed, list(reversed(times.steps))
        await asyncio.sleep(times.reset)
        return self._look()

    async def step(self, action: Action) -> Observation:
        """Take the time of the seed's next step."""
        await asyncio.sleep(self._left.pop())
        return self._look()

    async def score(self) -> float | None:
        """Every episode succeeds."""
        return 1.0

    async def close(self) -> None:
        """Nothing is open."""

    def _look(self) -> Observation:
        return self.screen(f"{self._seed}-{len(self._left)}")

    def screen(self, name: str) -> Observation:
        """A screen of its own for each name."""
        # Made at no cost: the CPU time is to be that of the rollout.
        png = name.encode().ljust(_SCREEN_BYTES)
        return Observation(ScreenHandle(name, Size(1280, 720), lambda: png), self._elements, "sleeping")


class _SleepingFactory:
    async def __call__(self) -> SleepingEnvironment:
        return SleepingEnvironment()

    async def close(self) -> None:
        pass


class _SleepingSpec(EnvironmentSpec):
    kind: str = "sleeping"

    def factory(self, platform: Platform) -> _SleepingFactory:
        return _SleepingFactory()


def main() -> None:
    """Print one row for each number of instances."""
    head = ("instances", "episodes", "steps", "ideal s", "took s", "efficiency", "overhead", "ms per step", "CPU ms")
    print(*(f"{word:>11}" for word in head))
    for instances in _INSTANCES:
        attempts = [attempt_at(number) for number in range(instances * _EPISODES_PER_INSTANCE)]
        ideal, (took, processor) = _ideal_seconds(attempts, instances), _seconds(attempts, instances)
        steps = len(attempts) * (_TAPS + 1)
        cells = (
            str(instances),
            str(len(attempts)),
            str(steps),
            f"{ideal:.2f}",
            f"{took:.2f}",
            f"{ideal / took:.1%}",
            f"{took / ideal - 1:.1%}",
            f"{(took - ideal) * instances / steps * 1000:.1f}",
            f"{processor / steps * 1000:.2f}",
        )
        print(*(f"{cell:>11}" for cell in cells))


def _seconds(attempts: list[Attempt], instances: int) -> _Spent:
    with tempfile.TemporaryDirectory() as folder:
        work = RunAttempts(
            warehouse=create_warehouse(Path(folder) / "root"),
            at=StageRun("benchmark", 1, "rollout"),
            origin=ORIGIN,
            environment=_SleepingSpec(),
            agent=ActingAgent(ReferenceSpec()),
            limits=Limits(),
            concurrency=instances,
        )
        start, processor = time.perf_counter(), time.process_time()
        made = work("00000", attempts)
        took = _Spent(time.perf_counter() - start, time.process_time() - processor)
    assert made.rows("steps") == len(attempts) * (_TAPS + 1) and not made.dropped
    return took


def _ideal_seconds(attempts: list[Attempt], instances: int) -> float:
    """When the last of the instances is free that each take the next attempt as soon as they can."""
    free = [0.0] * instances
    for attempt in attempts:
        times = _Times.of(attempt.seed)
        heapq.heapreplace(free, free[0] + times.reset + sum(times.steps))
    return max(free)


def attempt_at(number: int) -> Attempt:
    """An attempt at a query of its own, whose seed is its number."""
    query = Query(
        query_id=f"q{number}",
        platform=Platform.WEB,
        apps=("sleeping",),
        source=Source.IMPORTED,
        task="sleeping.tap",
        raw_instruction="Tap some rows",
        instruction="Tap some rows",
        phrasing="0",
        pages=("sleeping",),
        page_descriptions=("rows",),
        slots=(),
        path=tuple(PathStep(page="sleeping", operation="tap", target=str(row)) for row in range(_TAPS)),
        start_state="{}",
        goal="{}",
        difficulty=1,
        max_steps=_TAPS + 1,
        split=Split.TRAIN,
        validation="passed",
        **ORIGIN.common(made_by="benchmark"),
    )
    return Attempt(query, Purpose.REFERENCE, 0, number)


if __name__ == "__main__":
    main()
