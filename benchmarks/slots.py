"""Whether every rollout slot is busy: efficiency against ideal list scheduling, and against a static split.

Run: `python -m benchmarks.slots [SLOTS ...]`; all of it takes about five minutes on two quiet cores. With
`--engines FnApiRunner dask --workers 2` the first and the last table have each engine, side by side: `dask` is a
cluster of this machine. As in `benchmarks.pool` an environment sleeps and shows a new screen of 30 kB after every
step, all of which is stored; here an agent sleeps, too, as long as a model server takes. The ideal is what slots would
need that each take the next attempt the moment they are free, and do nothing but sleep. Slots are busy until the last
episode is in its journal, which is the first efficiency; the second is that of the stage, whose tables are written
then. Worker processes are started before the clock, since a run keeps them.

The second table has episodes of log-normal lengths. A static split gives each slot its attempts before the first one;
its seconds are the ideal ones, without any cost. Ranges are what one worker does one after the other, each with all of
its slots. The queue is measured: a slot that is free takes the next attempt.

The last table has the processor time of a stage of episodes that never wait, against that of one process.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import random
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from math import ceil
from pathlib import Path
from typing import NamedTuple

from benchmarks.pool import ORIGIN, SleepingEnvironment, attempt_at
from benchmarks.process_tree import tree_cpu_seconds
from trajmill.pipelines.fan_out import BeamSettings, divide
from trajmill.pipelines.models import ActingAgent
from trajmill.pipelines.rollout import RunAttempts, run_in_shards
from trajmill.schemas.actions import Action, Click, Terminate, ends_episode
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
_EPISODES_WITHOUT_WAITS = 600
_MANY_SLOTS, _MORE_WORKERS = 512, 2
"""From so many slots on, so many worker processes are tried, too."""


class _Waits(NamedTuple):
    """Seconds that a step waits."""

    model: float
    environment: float


class _Took(NamedTuple):
    """Seconds of a stage."""

    stored: float
    """Until the last episode is in its journal."""
    written: float
    """Until all rows are in files of tables."""
    processor: float
    """Processor time of all processes."""


class _Environment(SleepingEnvironment):
    """Takes always the same time for an action, and none for a reset or for the agent's word that it is done."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds, self._query, self._count = seconds, "", 0

    async def reset(self, query: Query, seed: int) -> Observation:
        self._query, self._count = query.query_id, 0
        return self._look()

    async def step(self, action: Action) -> Observation:
        if not ends_episode(action):
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


def main(slots: Sequence[int], engines: Sequence[str] = ("FnApiRunner",), workers_given: Sequence[int] = ()) -> None:
    """Print the tables."""
    crews = [("FnApiRunner", 1), *product(engines, workers_given or (_MORE_WORKERS,))]
    for engine, workers in crews:
        _took([_attempts([1] * workers * 2)], 2 * workers, _Waits(0.0, 0.0), workers, engine)
    head = (
        "engine     slots workers  model s  env s  ideal s  stored s  written s  stored  written   CPU s  CPU ms/step"
    )
    head += "  cores  steps/s"
    print("fixed lengths", head, sep="\n")
    for waits in (_Waits(0.5, 0.2), _Waits(0.25, 0.1)):
        for count in slots:
            for workers, engine in product(workers_given or sorted({1, _most_workers(count)}), engines):
                _print_fixed(count, workers, waits, engine)
    print("log-normal lengths", "slots  ideal s  static s  ranges s  queue s  static/queue  ranges/queue", sep="\n")
    chance, waits = random.Random(0), _Waits(0.25, 0.1)
    for count in (each for each in slots if 1 < each <= _MANY_SLOTS):
        lengths = [max(1, min(60, round(chance.lognormvariate(2.0, _SIGMA)))) for _ in range(count * _RANGES)]
        attempts = _attempts(lengths)
        static = max(sum(_seconds(each, waits) for each in part) for part in divide(attempts, count))
        ranges = sum(_ideal(part, count, waits) for part in divide(attempts, _RANGES))
        ideal, queue = _ideal(attempts, count, waits), _took([attempts], count, waits, _most_workers(count)).stored
        seconds = f"{ideal:8.1f} {static:9.1f} {ranges:9.1f} {queue:8.1f}"
        print(f"{count:5} {seconds} {static / queue:13.2f} {ranges / queue:13.2f}", flush=True)
    print(f"{_EPISODES_WITHOUT_WAITS} episodes without waits", "engine     workers   CPU s  of one process", sep="\n")
    attempts, used = _attempts([_STEPS] * _EPISODES_WITHOUT_WAITS), list[float]()
    for engine, workers in crews:
        used.append(_took([attempts], 64, _Waits(0.0, 0.0), workers, engine).processor)
        print(f"{engine:11}{workers:7} {used[-1]:7.2f} {used[-1] / used[0]:15.2f}", flush=True)


def _most_workers(slots: int) -> int:
    return _MORE_WORKERS if slots >= _MANY_SLOTS else 1


def _print_fixed(slots: int, workers: int, waits: _Waits, engine: str) -> None:
    attempts = _attempts([_STEPS] * slots * _EPISODES_PER_SLOT)
    ideal, took = _ideal(attempts, slots, waits), _took([attempts], slots, waits, workers, engine)
    seconds = f"{waits.model:8} {waits.environment:6} {ideal:8.1f} {took.stored:9.1f} {took.written:10.1f}"
    shares = f"{ideal / took.stored:7.1%} {ideal / took.written:8.1%}"
    used = f"{took.processor:7.2f} {took.processor * 1000 / (len(attempts) * _STEPS):12.2f}"
    used += f" {took.processor / took.written:6.2f}"
    rows = f"{len(attempts) * _STEPS / took.stored:7.1f}"
    print(f"{engine:11}{slots:5} {workers:7} {seconds} {shares} {used} {rows}", flush=True)


def _attempts(lengths: Sequence[int]) -> list[Attempt]:
    planned = [attempt_at(number) for number in range(len(lengths))]
    return [
        Attempt(each.query.model_copy(update={"max_steps": steps}), each.purpose, each.attempt, each.seed)
        for each, steps in zip(planned, lengths, strict=True)
    ]


def _took(
    ranges: Sequence[Sequence[Attempt]], slots: int, waits: _Waits, workers: int = 1, engine: str = "FnApiRunner"
) -> _Took:
    """What all ranges take, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        at = StageRun("benchmark", 1, "rollout")
        work = RunAttempts(
            warehouse=create_warehouse(Path(folder) / "root"),
            at=at,
            origin=ORIGIN,
            environment=_EnvironmentSpec(seconds=waits.environment),
            agent=ActingAgent(_AgentSpec(seconds=waits.model)),
            limits=Limits(),
            concurrency=ceil(slots / workers),
        )
        start, began, processor = time.perf_counter(), time.time(), tree_cpu_seconds()
        for attempts in ranges:
            made = run_in_shards(work, attempts, workers, BeamSettings(runner=engine))
            assert made.rows("trajectories") == len(attempts) and not made.dropped
        written, processor = time.perf_counter() - start, tree_cpu_seconds() - processor
        journals = at.staging(work.warehouse).glob("episodes-*.jsonl")
        return _Took(max(journal.stat().st_mtime for journal in journals) - began, written, processor)


def _ideal(attempts: Sequence[Attempt], slots: int, waits: _Waits) -> float:
    """When the last of the slots is free that each take the next attempt as soon as they can."""
    free = [0.0] * slots
    for each in attempts:
        heapq.heapreplace(free, free[0] + _seconds(each, waits))
    return max(free)


def _seconds(attempt: Attempt, waits: _Waits) -> float:
    """What an attempt waits; its last step is the agent's word alone."""
    return attempt.query.max_steps * sum(waits) - waits.environment


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("slots", type=int, nargs="*", default=_SLOTS, metavar="SLOTS")
    options.add_argument("--engines", nargs="+", default=["FnApiRunner"], metavar="RUNNER")
    options.add_argument("--workers", type=int, nargs="*", default=[], metavar="N")
    given = options.parse_args()
    main(given.slots, given.engines, given.workers)
