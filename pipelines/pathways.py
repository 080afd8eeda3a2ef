"""Walks programs for their pathways, a shard for each, and makes queries of what was found."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from trajmill.pipelines.drawing import ScreenKeeper, painters
from trajmill.pipelines.environments import EnvironmentSpec
from trajmill.pipelines.fan_out import BeamSettings, ShardOutput, StageOutput, fan_out
from trajmill.pipelines.generate import NewQueries
from trajmill.pipelines.models import ModelSpec
from trajmill.schemas.record import Origin, Row
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.pathway import Pathway
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.stages.models.prompts import Prompt
from trajmill.stages.queries.pathways.base import Program, WalkBounds
from trajmill.stages.queries.pathways.collect import Collected, collect_pathways, make_queries
from trajmill.stages.queries.pathways.queries import PathwaySettings
from trajmill.stages.queries.pathways.selection import SecondOpinion
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screen_journal import ScreenJournal
from trajmill.warehouse.screens import WarehouseScreens, write_screens
from trajmill.warehouse.shards import write_shard


@dataclass(frozen=True)
class WalkPrograms:
    """The work of one shard: a program."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    environment: EnvironmentSpec
    bounds: WalkBounds
    second_opinion: ModelSpec | None
    selection: Prompt
    """What the second opinion is asked with."""

    def __call__(self, shard: int, program: Program) -> ShardOutput:
        """Walk a program; write its pathways, a failure for all that could not be walked, and the calls that it took.

        Raises:
            BadInputError: the model cannot be connected, or the environment's package is missing.
        """
        calls: list[ModelCall] = []
        screens = ScreenJournal(_screens_path(self.warehouse, self.at, shard))
        try:
            found = asyncio.run(self._walk(program, screens, calls.append))
        finally:
            screens.close()
        rows: dict[str, Sequence[Row]] = {
            "pathways": found.pathways,
            "failures": found.failures,
            "model_calls": calls,
        }
        return ShardOutput(
            {
                table: write_shard(self.warehouse, table, self.at, shard, rows_to_arrow(table, records))
                for table, records in rows.items()
                if records
            },
            Counter(f"{failure.input_id}: {failure.message}" for failure in found.failures),
        )

    async def _walk(self, program: Program, screens: ScreenJournal, sink: Callable[[ModelCall], None]) -> Collected:
        async with AsyncExitStack() as stack:
            factory = self.environment.factory(program.platform)
            stack.push_async_callback(factory.close)
            opinion = None
            if self.second_opinion is not None:
                opinion = SecondOpinion(self.second_opinion.open(self.origin, sink), self.selection)
                stack.push_async_callback(opinion.model.close)
            found = await collect_pathways(factory, [program], self.bounds, self.origin, opinion)
        executor = painters() if self.environment.draws_screens else None
        await ScreenKeeper(screens, WarehouseScreens(self.warehouse), executor).keep(found.screens.values())
        return found


def walk_programs(work: WalkPrograms, programs: Sequence[Program], key: str, beam: BeamSettings) -> StageOutput:
    """Walk programs, each once however often it is asked for; a screen that several show is written once."""
    made = fan_out(work.warehouse, work.at, key, programs, work, beam)
    journals = [ScreenJournal(_screens_path(work.warehouse, work.at, shard)) for shard in range(len(programs))]
    try:
        committed = WarehouseScreens(work.warehouse)
        screens = write_screens(
            work.warehouse, work.at, journals, committed, work.origin, made_by=work.environment.kind
        )
    finally:
        for journal in journals:
            journal.close()
    return StageOutput({**made.files, "screens": [screens]}, made.dropped)


def queries_from_pathways(
    pathways: Sequence[Pathway],
    programs: Sequence[Program],
    settings: PathwaySettings,
    environment: EnvironmentSpec,
    instances: int,
    seed: int,
    origin: Origin,
) -> NewQueries:
    """Queries of all splits, each of which has been walked in the environment and meets its goal.

    Args:
        pathways: of the programs.
        programs: that were walked.
        settings: how many, and what is held out.
        environment: where the queries are walked.
        instances: environments at once.
        seed: decides between phrasings.
        origin: common columns of the rows.
    """

    async def make() -> NewQueries:
        made = NewQueries(())
        for platform in dict.fromkeys(program.platform for program in programs):
            there = [program for program in programs if program.platform is platform]
            found = tuple(pathway for pathway in pathways if pathway.platform is platform)
            factory = environment.factory(platform)
            try:
                new = await make_queries(
                    factory, Collected(found, (), (), {}, {}), there, settings, seed, origin, instances
                )
            finally:
                await factory.close()
            made = made.with_more(NewQueries(new.queries, new.failures))
        return made

    return asyncio.run(make())


def _screens_path(warehouse: Warehouse, at: StageRun, shard: int) -> Path:
    return at.staging(warehouse) / f"pathways-{shard:05d}.screens"
