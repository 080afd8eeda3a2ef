"""Writes guidance from committed trajectories."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trajmill.pipelines.fan_out import StageWork, WrittenFiles
from trajmill.pipelines.models import Endpoint, OpenEndpoints
from trajmill.pipelines.reading.episodes import read_episodes_of_rounds
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.guidance.model_guide import GuidePrompts, ModelDescriber, ModelGuidanceWriter, guide_prompts
from trajmill.stages.guidance.write import (
    OWN_SUCCESS,
    REFERENCE_PATH,
    GuidanceWriter,
    Guide,
    LineWriter,
    StepDescriber,
    TreeDescriber,
    guide_episodes,
)
from trajmill.warehouse.screens import WarehouseScreens


@dataclass(frozen=True)
class GuideSpec:
    describer: Endpoint | None = None
    """A vision-language model; None compares accessibility trees."""
    writer: Endpoint | None = None
    """A language model; None writes one line per step."""
    prompts: GuidePrompts = field(default_factory=guide_prompts)


@dataclass(frozen=True)
class WriteGuidance(StageWork[Sequence[str]]):
    """The work of one shard: writes guidance from trajectories, given by id."""

    references: frozenset[str]
    """Ids of the trajectories that walk the annotated path; the others are successes of the policy."""
    rounds_of: Mapping[str, int]
    """By trajectory id, the round of its attempt."""
    guide: GuideSpec = GuideSpec()
    concurrency: int = 1

    def identity(self, trajectory_ids: Sequence[str]) -> object:
        return [[name, name in self.references] for name in trajectory_ids]

    def __call__(self, shard: str, trajectory_ids: Sequence[str]) -> WrittenFiles:
        """Write guidance, model calls, and a failure for each trajectory that gives none; may raise BadInputError."""
        calls: list[ModelCall] = []
        rounds_of = {name: self.rounds_of[name] for name in trajectory_ids}
        episodes = read_episodes_of_rounds(self.warehouse, self.at.run_id, rounds_of, with_verdicts=True)
        screens = WarehouseScreens(self.warehouse)

        def source_of(episode: Episode) -> str:
            return REFERENCE_PATH if episode.trajectory.trajectory_id in self.references else OWN_SUCCESS

        async def write() -> list[Guidance | Failure]:
            spec = self.guide
            async with OpenEndpoints(self.origin, calls.append) as endpoints:
                describer: StepDescriber = TreeDescriber()
                if spec.describer is not None:
                    describer = ModelDescriber(endpoints.model(spec.describer), spec.prompts.describe)
                writer: GuidanceWriter = LineWriter()
                if spec.writer is not None:
                    writer = ModelGuidanceWriter(endpoints.model(spec.writer), spec.prompts.synthesise)
                guide = Guide(describer, writer)
                return await guide_episodes(episodes, screens, self.origin, source_of, guide, self.concurrency)

        written = asyncio.run(write())
        guidance = [row for row in written if isinstance(row, Guidance)]
        failures = [row for row in written if isinstance(row, Failure)]
        return self.written(shard, {"model_calls": calls, "guidance": guidance, "failures": failures})
