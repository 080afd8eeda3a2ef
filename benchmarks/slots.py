"""Whether every rollout slot is busy: efficiency against ideal list scheduling, and against ranges one after the other.

Run: `python -m benchmarks.slots [SLOTS ...]`. As in `benchmarks.pool` an environment sleeps and shows a new screen of
30 kB after every step, all of which is stored; here an agent sleeps, too, as long as a model server takes. The ideal is
what slots would need that each take the next attempt the moment they are free, and do nothing but sleep. The second
table has episodes of log-normal lengths: ranges that a worker did one after the other, each with all of its slots,
against the queue, from which a slot that is free takes the next attempt.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.pool import ORIGIN, SleepingEnvironment, attempt_at
from trajmill.pipelines.agents import ActingAgent
from trajmill.pipelines.engine.settings import BeamSettings
from trajmill.pipelines.fan_out import split_evenly
from trajmill.pipelines.rollout import RunAttempts, run_in_shards
from trajmill.schemas.actions import Click, Terminate
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.agents.base import AgentMaker, AgentModel, Decision, EpisodeView
from trajmill.stages.agents.spec import AgentSpec
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.warehouse.layout import StageRun, create_warehouse

_SLOTS = (1, 8, 64, 512)
_STEPS, _EPISODES_PER_SLOT = 8, 3
_RANGES, _SIGMA = 8, 0.9


class _Waits(NamedTuple):
    """Seconds that a step waits."""

    model: float
    environment: float


class _Environment(SleepingEnvironment):
    """Takes always the same time for a step, and none for a reset."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds, self._query, self._count = seconds, "", 0

    async def reset(self, query: Query, seed: int) -> Observation:
        self._query, self._count = query.query_id, 0
        return self._look()

    async def step(self, action: object) -> Observation:
        await asyncio.sleep(self._seconds)
        self._count += 1
        return self._look()

    def _look(self) -> Observation:
        return self.screen(f"{self._query}-{self._count}")


class _Factory(NamedTuple):
    seconds: float

    async def __call__(self) -> _Environment:
        return _Environment(self.seconds)

    async def close(self) -> None:
        pass


class _EnvironmentSpec(EnvironmentSpec):
    kind: str = "sleeping"
    seconds: float

    def factory(self, platform: Platform) -> _Factory:
        return _Factory(self.seconds)


class _Agent:
    """Thinks for some seconds, and says in its last step that it is done."""

    name, model_version = "thinking", "none"

    def __init__(self, steps: int, seconds: float) -> None:
        self._steps, self._seconds = steps, seconds

    async def act(self, episode: EpisodeView) -> Decision:
        await asyncio.sleep(self._seconds)
        done = len(episode.history) + 1 >= self._steps
        return Decision("I think.", Terminate(status="success") if done else Click(x=1, y=1), "Done.")


class _AgentSpec(AgentSpec):
    kind: str = "thinking"
    seconds: float

    def open(self, model: AgentModel | None) -> AgentMaker:
        return lambda query: _Agent(query.max_steps, self.seconds)


def main(slots: Sequence[int]) -> None:
    """Print both tables."""
    print("fixed lengths", "slots  model s  env s  ideal s  took s  efficiency  CPU ms/step", sep="\n")
    for waits in (_Waits(0.5, 0.2), _Waits(0.25, 0.1)):
        for count in slots:
            attempts = _attempts([_STEPS] * count * _EPISODES_PER_SLOT)
            cpu = time.process_time()
            ideal, took = _ideal(attempts, count, waits), _took([attempts], count, waits)
            cpu = (time.process_time() - cpu) * 1000 / (len(attempts) * _STEPS)
            seconds = f"{waits.model:8} {waits.environment:6} {ideal:8.1f} {took:7.1f}"
            print(f"{count:5} {seconds} {ideal / took:10.1%} {cpu:8.2f}")
    print("log-normal lengths", "slots  ranges s  queue s  ratio", sep="\n")
    chance, waits = random.Random(0), _Waits(0.05, 0.02)
    for count in (each for each in slots if 1 < each <= 64):
        lengths = [max(1, min(60, round(chance.lognormvariate(2.0, _SIGMA)))) for _ in range(count * _RANGES)]
        attempts = _attempts(lengths)
        split = _took(split_evenly(attempts, _RANGES), count, waits)
        queue = _took([attempts], count, waits)
        print(f"{count:5} {split:9.1f} {queue:8.1f} {split / queue:6.2f}")


def _attempts(lengths: Sequence[int]) -> list[Attempt]:
    planned = [attempt_at(number) for number in range(len(lengths))]
    return [
        Attempt(each.query.model_copy(update={"max_steps": steps}), each.purpose, each.attempt, each.seed)
        for each, steps in zip(planned, lengths, strict=True)
    ]


def _took(ranges: Sequence[Sequence[Attempt]], slots: int, waits: _Waits) -> float:
    """Seconds until the rows of all ranges are written, one range after the other."""
    with tempfile.TemporaryDirectory() as folder:
        work = RunAttempts(
            warehouse=create_warehouse(Path(folder) / "root"),
            at=StageRun("benchmark", 1, "rollout"),
            origin=ORIGIN,
            environment=_EnvironmentSpec(seconds=waits.environment),
            agent=ActingAgent(_AgentSpec(seconds=waits.model)),
            limits=Limits(),
            concurrency=slots,
        )
        start = time.perf_counter()
        for attempts in ranges:
            made = run_in_shards(work, attempts, 1, BeamSettings())
            assert made.rows("trajectories") == len(attempts) and not made.dropped
        return time.perf_counter() - start


def _ideal(attempts: Sequence[Attempt], slots: int, waits: _Waits) -> float:
    """When the last of the slots is free that each take the next attempt as soon as they can."""
    free = [0.0] * slots
    for each in attempts:
        # The last step is the agent's word alone.
        heapq.heapreplace(free, free[0] + each.query.max_steps * sum(waits) - waits.environment)
    return max(free)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or _SLOTS)
