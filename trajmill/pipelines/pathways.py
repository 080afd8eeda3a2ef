"""Walks programs for their pathways, one shard for each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from trajmill.pipelines.drawing import stored_screen_writer
from trajmill.pipelines.fan_out import BeamSettings, StageWork, WrittenFiles, fan_out
from trajmill.pipelines.models import Endpoint
from trajmill.schemas.spec import identity_of
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.models.prompts import Prompt, PromptedModel
from trajmill.stages.queries.pathways.programs import PathwayProgram, WalkBounds, WalkResult
from trajmill.stages.queries.pathways.search import collect_pathways


@dataclass(frozen=True)
class WalkPrograms(StageWork):
    """The work of one shard: walks one program."""

    environment: EnvironmentSpec
    bounds: WalkBounds
    second_opinion: Endpoint | None
    selection: Prompt
    """The prompt of the second opinion."""

    def identity(self, program: PathwayProgram) -> object:
        return [program.model_dump(), self.bounds.model_dump(), identity_of(self.environment)]

    def __call__(self, shard: str, program: PathwayProgram) -> WrittenFiles:
        """Walk a program; write its pathways, a failure for each branch that could not be walked, and model calls.

        Raises BadInputError if the model cannot be connected, or the environment's package is missing.
        """
        calls: list[ModelCall] = []
        with stored_screen_writer(self.warehouse, self.at, shard, self.environment.draws_screens) as screens:

            async def walk() -> WalkResult:
                async with AsyncExitStack() as stack:
                    factory = self.environment.factory(program.platform)
                    stack.push_async_callback(factory.close)
                    opinion = None
                    if self.second_opinion is not None:
                        opinion = PromptedModel(self.second_opinion.open(self.origin, calls.append), self.selection)
                        stack.push_async_callback(opinion.model.close)
                    found = await collect_pathways(factory, program, self.bounds, self.origin, opinion)
                await screens.write(found.screens.values())
                return found

            found = asyncio.run(walk())
        rows = {"pathways": found.pathways, "failures": found.failures, "model_calls": calls}
        return self.written(shard, rows, Counter(f"{row.input_id}: {row.message}" for row in found.failures))


def walk_programs(work: WalkPrograms, programs: Sequence[PathwayProgram], beam: BeamSettings) -> WrittenFiles:
    """Walk programs, each only once; a screen that several programs show is written once."""
    return work.with_screens(fan_out(work.warehouse, work.at, programs, work, beam), work.environment.kind)
