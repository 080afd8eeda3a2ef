"""Judges committed trajectories, and single attempts as soon as they are finished; writes guidance from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from trajmill.pipelines.fan_out import StageWork, WrittenFiles, run_coroutine
from trajmill.pipelines.reading.episodes import read_episodes, read_episodes_of_rounds
from trajmill.schemas.episode import Episode, verdict_rows
from trajmill.schemas.record import Origin, Row
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.stages.critics.judge import Judged, judge_each, judge_episodes
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
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
from trajmill.stages.models.spec import Endpoint, OpenEndpoints
from trajmill.stages.rollout.base import FinishedAttempt, JudgeAttempt
from trajmill.warehouse.screens import WarehouseScreens

R = TypeVar("R", bound=Row)

AGAIN = "judge_again"
"""Start of the names of stages that judge stored trajectories again; also the stage on their failures."""
_SEED_STRIDE = 1_000_000
"""Distance between the seeds of repeated tries; no channel has so many votes."""


@dataclass(frozen=True)
class RejudgeIdentity:
    """Names the judge that judges stored trajectories; its verdicts stand beside those of the run's own judge."""

    name: str
    judge_id: str
    """Hash of everything that decides its verdicts."""

    def stamped(self, row: R) -> R:
        """Return the same row with the name and id of this judge."""
        if isinstance(row, Failure):
            return row.model_copy(update={"stage": f"{AGAIN}:{self.name}"})
        return row.model_copy(update={"judge": self.name, "judge_id": self.judge_id})


@dataclass(frozen=True)
class JudgeTrajectories(StageWork[Sequence[str]]):
    judge: JudgeSpec
    critics: CriticModels
    rounds: tuple[int, ...]
    tried: Mapping[str, int]
    """By trajectory id, the number of failed tries; new trajectories are missing."""
    rejudge: RejudgeIdentity | None = None
    """Names the judge on its verdicts; None for the run's own judge, whose rows name none."""

    def identity(self, trajectory_ids: Sequence[str]) -> object:
        return [self.judge.identity(), [[name, self.tried.get(name, 0)] for name in trajectory_ids]]

    def __call__(self, shard: str, trajectory_ids: Sequence[str]) -> WrittenFiles:
        calls: list[ModelCall] = []
        judged = run_coroutine(self._judge(shard, trajectory_ids, calls))
        rows: dict[str, Sequence[Row]] = {
            "model_calls": calls,
            **verdict_rows(judged.episodes),
            "failures": judged.failures,
        }
        if self.rejudge is not None:
            rows = {table: [self.rejudge.stamped(row) for row in records] for table, records in rows.items()}
        return self.written(shard, rows)

    async def _judge(self, shard: str, trajectory_ids: Sequence[str], calls: list[ModelCall]) -> Judged:
        screens, judged, progress = WarehouseScreens(self.warehouse), Judged([], []), self.progress(shard)
        by_tries: dict[int, list[Episode]] = defaultdict(list)
        for name, episode in read_episodes(self.warehouse, self.at.run_id, trajectory_ids, self.rounds).items():
            by_tries[self.tried.get(name, 0)].append(episode)
        for tried, same_tries in by_tries.items():
            # Each try has another seed; otherwise the request cache would give the same invalid answer again.
            critics = replace(self.critics, seed=self.critics.seed + tried * _SEED_STRIDE)
            async with self.judge.open(critics, self.origin, calls.append) as judge:
                async for one in judge_each(same_tries, judge, screens, self.origin, self.judge.concurrency):
                    judged.episodes.append(one.episode)
                    judged.failures.extend([one.failure] if one.failure else [])
                    progress.add()
        return judged


@asynccontextmanager
async def judging(spec: JudgeSpec, critics: CriticModels, origin: Origin) -> AsyncIterator[JudgeAttempt]:
    calls: dict[str | None, list[ModelCall]] = defaultdict(list)
    async with spec.open(critics, origin, lambda call: calls[call.trajectory_id].append(call)) as judge:

        async def judge_attempt(made: FinishedAttempt) -> FinishedAttempt:
            judged = await judge_episodes([made.episode], judge, ObservedScreens(made.screens), origin)
            [episode] = judged.episodes
            added = calls.pop(episode.trajectory.trajectory_id, [])
            update = {"calls": (*episode.calls, *added), "failures": tuple(judged.failures)}
            return replace(made, episode=episode.model_copy(update=update))

        yield judge_attempt


@dataclass(frozen=True)
class WriteGuidance(StageWork[Sequence[str]]):
    references: frozenset[str]
    """Ids of the trajectories that walk the annotated path; the others are successes of the policy."""
    rounds_of: Mapping[str, int]
    describer: Endpoint | None = None
    """A vision-language model; None compares accessibility trees."""
    writer: Endpoint | None = None
    """A language model; None writes one line per step."""
    prompts: GuidePrompts = field(default_factory=guide_prompts)
    concurrency: int = 1

    def identity(self, trajectory_ids: Sequence[str]) -> object:
        return [[name, name in self.references] for name in trajectory_ids]

    def __call__(self, shard: str, trajectory_ids: Sequence[str]) -> WrittenFiles:
        calls: list[ModelCall] = []
        rounds_of = {name: self.rounds_of[name] for name in trajectory_ids}
        episodes = read_episodes_of_rounds(self.warehouse, self.at.run_id, rounds_of, with_verdicts=True)
        screens = WarehouseScreens(self.warehouse)

        def source_of(episode: Episode) -> str:
            return REFERENCE_PATH if episode.trajectory.trajectory_id in self.references else OWN_SUCCESS

        async def write() -> list[Guidance | Failure]:
            async with OpenEndpoints(self.origin, calls.append) as endpoints:
                describer: StepDescriber = TreeDescriber()
                if self.describer is not None:
                    describer = ModelDescriber(endpoints.model(self.describer), self.prompts.describe)
                writer: GuidanceWriter = LineWriter()
                if self.writer is not None:
                    writer = ModelGuidanceWriter(endpoints.model(self.writer), self.prompts.synthesise)
                guide = Guide(describer, writer)
                return await guide_episodes(episodes.values(), screens, self.origin, source_of, guide, self.concurrency)

        written = run_coroutine(write())
        guidance = [row for row in written if isinstance(row, Guidance)]
        failures = [row for row in written if isinstance(row, Failure)]
        return self.written(shard, {"model_calls": calls, "guidance": guidance, "failures": failures})
