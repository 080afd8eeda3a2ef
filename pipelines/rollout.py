"""Rolls out attempts: journals each finished episode at once, then writes the journals as shards."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trajmill.pipelines.drawing import ScreenKeeper, painters
from trajmill.pipelines.environments import EnvironmentSpec
from trajmill.pipelines.fan_out import BeamSettings, ShardOutput, StageOutput, fan_out, split_evenly
from trajmill.pipelines.resources import AgentSpec
from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Origin, Record, Row
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.stages.rollout.base import Attempt, Limits, Rollout
from trajmill.stages.rollout.worker import run_attempts
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screen_journal import ScreenJournal
from trajmill.warehouse.screens import WarehouseScreens, write_screens
from trajmill.warehouse.shards import write_shard
from trajmill.warehouse.staging import Journal


class RolledOut(Record):
    """A finished attempt as its journal holds it."""

    trajectory: Trajectory
    steps: tuple[Step, ...]
    calls: tuple[ModelCall, ...]
    failure: Failure | None
    earlier_failure: Failure | None = None


@dataclass(frozen=True)
class RollOut:
    """The work of one shard of attempts."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    environment: EnvironmentSpec
    agent: AgentSpec
    limits: Limits
    concurrency: int

    def __call__(self, shard: int, attempts: Sequence[Attempt]) -> ShardOutput:
        """Roll out what the shard's journal does not hold yet, then write the whole journal as shards."""
        journal = Journal(_episodes_path(self.warehouse, self.at, shard))
        screens = ScreenJournal(_screens_path(self.warehouse, self.at, shard))
        try:
            asyncio.run(self._roll_out(attempts, journal, screens))
            done = {row.trajectory.trajectory_id: row for row in map(RolledOut.model_validate_json, journal.read())}
        finally:
            journal.close()
            screens.close()
        return self._write(shard, [done[trajectory_id] for trajectory_id in sorted(done)])

    async def _roll_out(self, attempts: Sequence[Attempt], journal: Journal, screens: ScreenJournal) -> None:
        finished = {RolledOut.model_validate_json(line).trajectory.trajectory_id for line in journal.read()}
        executor = painters() if self.environment.draws_screens else None
        keeper = ScreenKeeper(screens, WarehouseScreens(self.warehouse), executor)

        async def record(rollout: Rollout) -> None:
            await keeper.keep(rollout.screens.values())
            journal.append(_to_line(rollout))

        async with self.agent.at_work() as make_agent:
            for platform, owed in _by_platform(attempts).items():
                left = [attempt for attempt in owed if attempt.trajectory_id(make_agent(attempt.query)) not in finished]
                if left:
                    factory = self.environment.factory(platform)
                    await run_attempts(left, make_agent, factory, self.limits, self.origin, record, self.concurrency)

    def _write(self, shard: int, rows: Sequence[RolledOut]) -> ShardOutput:
        tables: dict[str, Sequence[Row]] = {
            "trajectories": [row.trajectory for row in rows],
            "steps": [step for row in rows for step in row.steps],
            "model_calls": [call for row in rows for call in row.calls],
            "failures": [failure for row in rows for failure in (row.earlier_failure, row.failure) if failure],
        }
        return ShardOutput(
            {
                table: write_shard(self.warehouse, table, self.at, shard, rows_to_arrow(table, records))
                for table, records in tables.items()
            },
            Counter(row.failure.failure_class.value for row in rows if row.failure),
        )


def roll_out(work: RollOut, attempts: Sequence[Attempt], key: str, shards: int, beam: BeamSettings) -> StageOutput:
    """Roll out attempts in `shards` shards and return what was made.

    A screen that several shards saw is written once.
    """
    payloads = split_evenly(attempts, shards)
    made = fan_out(work.warehouse, work.at, key, payloads, work, beam)
    journals = [ScreenJournal(_screens_path(work.warehouse, work.at, shard)) for shard in range(len(payloads))]
    committed = WarehouseScreens(work.warehouse)
    try:
        screens = write_screens(
            work.warehouse, work.at, journals, committed, work.origin, made_by=work.environment.kind
        )
    finally:
        for journal in journals:
            journal.close()
    return StageOutput({**made.files, "screens": [screens]}, made.dropped)


def _to_line(rollout: Rollout) -> bytes:
    episode: Episode = rollout.episode
    row = RolledOut(
        trajectory=episode.trajectory,
        steps=episode.steps,
        calls=episode.calls,
        failure=rollout.failure,
        earlier_failure=rollout.earlier_failure,
    )
    return row.model_dump_json().encode()


def _by_platform(attempts: Sequence[Attempt]) -> dict[Platform, list[Attempt]]:
    found: dict[Platform, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.query.platform].append(attempt)
    return dict(found)


def _episodes_path(warehouse: Warehouse, at: StageRun, shard: int) -> Path:
    return at.staging(warehouse) / f"episodes-{shard:05d}.jsonl"


def _screens_path(warehouse: Warehouse, at: StageRun, shard: int) -> Path:
    return at.staging(warehouse) / f"screens-{shard:05d}.screens"


def episodes_done(warehouse: Warehouse, at: StageRun) -> int:
    """How many attempts of a stage have finished so far."""
    journals = at.staging(warehouse).glob("episodes-*.jsonl")
    return sum(sum(1 for _ in Journal(journal).read()) for journal in journals)
