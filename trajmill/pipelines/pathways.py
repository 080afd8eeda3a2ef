"""Walks programs for their pathways, one shard for each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from trajmill.pipelines.drawing import ScreenWriter, stored_screen_writer
from trajmill.pipelines.executors.beam import BeamSettings
from trajmill.pipelines.fan_out import WrittenFiles, fan_out
from trajmill.pipelines.models import Endpoint
from trajmill.schemas.record import Origin, Row
from trajmill.schemas.spec import identity_of
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.models.prompts import Prompt, PromptedModel
from trajmill.stages.queries.pathways.programs import PathwayProgram, WalkBounds, WalkResult
from trajmill.stages.queries.pathways.search import collect_pathways
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staged_screens import write_screens


@dataclass(frozen=True)
class WalkPrograms:
    """The work of one shard: walks one program."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    environment: EnvironmentSpec
    bounds: WalkBounds
    second_opinion: Endpoint | None
    selection: Prompt
    """The prompt of the second opinion."""

    def identity(self, program: PathwayProgram) -> object:
        """The program, the bounds of the walk, and the environment."""
        return [program.model_dump(), self.bounds.model_dump(), identity_of(self.environment)]

    def __call__(self, shard: str, program: PathwayProgram) -> WrittenFiles:
        """Walk a program; write its pathways, a failure for each branch that could not be walked, and model calls.

        Raises:
            BadInputError: the model cannot be connected, or the environment's package is missing.
        """
        calls: list[ModelCall] = []
        with stored_screen_writer(self.warehouse, self.at, shard, self.environment.draws_screens) as screens:
            found = asyncio.run(self._walk(program, screens, calls.append))
        rows: dict[str, Sequence[Row]] = {
            "pathways": found.pathways,
            "failures": found.failures,
            "model_calls": calls,
        }
        return WrittenFiles(
            write_tables(self.warehouse, self.at, rows, shard),
            Counter(f"{failure.input_id}: {failure.message}" for failure in found.failures),
        )

    async def _walk(
        self, program: PathwayProgram, screens: ScreenWriter, sink: Callable[[ModelCall], None]
    ) -> WalkResult:
        async with AsyncExitStack() as stack:
            factory = self.environment.factory(program.platform)
            stack.push_async_callback(factory.close)
            opinion = None
            if self.second_opinion is not None:
                opinion = PromptedModel(self.second_opinion.open(self.origin, sink), self.selection)
                stack.push_async_callback(opinion.model.close)
            found = await collect_pathways(factory, program, self.bounds, self.origin, opinion)
        await screens.write(found.screens.values())
        return found


def walk_programs(work: WalkPrograms, programs: Sequence[PathwayProgram], beam: BeamSettings) -> WrittenFiles:
    """Walk programs, each only once; a screen that several programs show is written once."""
    made = fan_out(work.warehouse, work.at, programs, work, beam)
    screens = write_screens(work.warehouse, work.at, work.origin, made_by=work.environment.kind)
    return WrittenFiles({**made.files, "screens": [screens]}, made.dropped)
