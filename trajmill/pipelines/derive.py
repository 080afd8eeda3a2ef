"""Derives the examples of a round, rows of further kinds, and RL rows from judged trajectories, shard by shard."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trajmill.pipelines.fan_out import StageWork, WrittenFiles, run_coroutine
from trajmill.pipelines.reading.episodes import (
    queries_of,
    read_episodes,
    read_episodes_of_rounds,
    read_rl_attempts,
    reward_moments,
)
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Row
from trajmill.schemas.tables.example import Example, RLStep
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.agents.base import AgentModel
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.curate.episodes import curated_episode
from trajmill.stages.curate.leaks import NearLeaks
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.collected import DerivedRows, Maker
from trajmill.stages.derive.kind_spec import GuidanceLift, KindSpec, TaskSources, Tools
from trajmill.stages.derive.rl_plan import ComparedTrajectory, RLBatch, RLPlan, plan_rl, replayable
from trajmill.stages.derive.rl_steps import PolicyWords, rl_steps
from trajmill.stages.derive.spec import RLSpec, StepWeight
from trajmill.stages.derive.step_data import end_to_end_examples
from trajmill.stages.models.prompts import Prompt
from trajmill.stages.models.spec import Endpoint, OpenEndpoints
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.screens import ScreenJournal, WarehouseScreens, stored_screen_journal


class DerivedFrom(NamedTuple):
    trajectory_id: str
    steps: tuple[int, ...] | None = None
    """The steps whose screens are used; None for all."""
    others: tuple[str, ...] = ()
    """Further successes of its task, that of its group, or branches, for a kind that derives from these."""
    lift: GuidanceLift | None = None
    """The effect of guidance on its task, for such a kind; None where that was not measured."""


@dataclass(frozen=True)
class DeriveKind(StageWork[Sequence[DerivedFrom]]):
    maker: Maker
    spec: KindSpec
    rounds: tuple[int, ...]
    prompts: Mapping[str, Prompt]
    writer: Endpoint | None = None
    describer: Endpoint | None = None
    policy: Endpoint | None = None
    curate: CurateSpec = field(default_factory=CurateSpec)
    """How near a text may come to a held-out instruction, for a kind that derives from tasks."""
    concurrency: int = 1

    def identity(self, sources: Sequence[DerivedFrom]) -> object:
        return [self.maker.made_by, [list(source) for source in sources]]

    def __call__(self, shard: str, sources: Sequence[DerivedFrom]) -> WrittenFiles:
        calls: list[ModelCall] = []
        with stored_screen_journal(self.warehouse, self.at, shard) as journal:
            made = run_coroutine(self._derive(shard, sources, calls, journal))
        refusals = [row for one in made for row in one.refusals]
        dropped = sum((Counter({refusal.reason: refusal.count}) for refusal in refusals), Counter[str]())
        rows: dict[str, Sequence[Row]] = {
            "model_calls": calls,
            "examples": [row for one in made for row in one.examples],
            "refusals": refusals,
            "failures": [row for one in made for row in one.failures],
        }
        return self.written(shard, rows, dropped)

    async def _derive(
        self, shard: str, sources: Sequence[DerivedFrom], calls: list[ModelCall], journal: ScreenJournal
    ) -> list[DerivedRows]:
        steps_of = {source.trajectory_id: source.steps for source in sources}
        ids, with_calls = {*steps_of, *(other for source in sources for other in source.others)}, self.spec.with_calls
        episodes = read_episodes(self.warehouse, self.at.run_id, ids, self.rounds, True, True, with_calls)
        of_tasks = None
        if self.spec.once_per_task or self.spec.once_per_failure or self.spec.with_branches:
            of_tasks = TaskSources(
                {source.trajectory_id: tuple(episodes[other] for other in source.others) for source in sources},
                {source.trajectory_id: source.lift for source in sources if source.lift is not None},
                NearLeaks(list(queries_of(self.warehouse, self.at.run_id).values()), self.curate),
            )
        screens, progress = WarehouseScreens(self.warehouse), self.progress(shard)
        free = asyncio.Semaphore(self.concurrency)
        async with OpenEndpoints(self.maker.origin, calls.append) as endpoints:
            roles = (self.writer, self.describer, self.policy)
            writer, describer, policy = (None if role is None else endpoints.model(role) for role in roles)
            asked = AgentModel(policy, self.policy.spec.vision_family, 1.0) if policy and self.policy else None
            tools = Tools(self.maker, screens, journal.append, self.prompts, writer, describer, asked, of_tasks)
            deriver = self.spec.open(tools)

            async def derived(episode: Episode, steps: tuple[int, ...] | None) -> DerivedRows:
                async with free:
                    rows = await deriver.derive(episode, None if steps is None else frozenset(steps))
                progress.add()
                return rows

            return await side_by_side(derived(one, steps_of[id_]) for id_, one in episodes.items() if id_ in steps_of)


@dataclass(frozen=True)
class DeriveExamples(StageWork[Sequence[str]]):
    rounds: tuple[int, ...]
    filter_steps: bool
    """Whether steps are left out that the step critic found useless."""
    curate: CurateSpec
    """What is not learned from, though the judge accepted it."""

    def identity(self, trajectory_ids: Sequence[str]) -> object:
        return [list(trajectory_ids), self.filter_steps, self.curate.identity()]

    def __call__(self, shard: str, trajectory_ids: Sequence[str]) -> WrittenFiles:
        read = read_episodes(self.warehouse, self.at.run_id, trajectory_ids, self.rounds, True, True)
        screens = WarehouseScreens(self.warehouse)
        rows: list[Example] = []
        dropped: Counter[str] = Counter()
        for episode in self.progress(shard).counted(read.values()):
            trusted = episode if self.filter_steps else episode.model_copy(update={"step_verdicts": ()})
            curated = curated_episode(trusted, self.curate, screens)
            dropped.update(one.reason for one in curated.dropped)
            if curated.episode is not None:
                made = end_to_end_examples(curated.episode, screens.size, self.origin)
                rows.extend(made.examples)
                dropped.update(one.reason for one in made.dropped)
        return self.written(shard, {"examples": rows}, dropped)


class RLRound(NamedTuple):
    run_id: str
    round: int
    trajectory_ids: Sequence[str]
    """The round's unguided attempts, and the groups of earlier rounds that waited for a judgement."""
    rounds: Sequence[int]
    remembered: Mapping[str, str]
    """By query id, the trajectory of a success of an earlier round."""
    remembered_in: Mapping[str, int]
    """By trajectory id, the round of these successes."""
    may_be_judged: frozenset[str]
    """Trajectories that a later round judges if they have no judgement yet."""
    stale: frozenset[str]
    """Policy versions that lie too far behind the trained one."""


def plan_round(warehouse: Warehouse, compared: RLRound, spec: RLSpec, seed: int) -> RLPlan:
    """Decide which attempts give RL rows, and with what advantage; `seed` chooses the failed ones that are replaced."""
    run_id, ids = compared.run_id, compared.trajectory_ids
    attempts = read_rl_attempts(warehouse, run_id, ids, compared.rounds, compared.round)
    wanted = replayable(attempts, compared.may_be_judged) if spec.replay else ()
    rounds_of = {name: compared.remembered_in[name] for name in map(compared.remembered.get, wanted) if name}
    remembered = read_rl_attempts(warehouse, run_id, rounds_of, set(rounds_of.values()), compared.round)
    earlier = reward_moments(warehouse, run_id, compared.round, frozenset(ids)) if spec.normalise == "batch" else []
    by_query = {attempt.query_id: attempt for attempt in remembered}
    return plan_rl(RLBatch(attempts, by_query, earlier, compared.may_be_judged, compared.stale), spec, seed)


@dataclass(frozen=True)
class DeriveRLSteps(StageWork[Sequence[ComparedTrajectory]]):
    step_weight: StepWeight
    family: Family = ANY
    with_tokens: bool = False
    temperature: float = 1.0

    def identity(self, compared: Sequence[ComparedTrajectory]) -> object:
        return [compared, self.step_weight, self.family.name, self.with_tokens, self.temperature]

    def __call__(self, shard: str, compared: Sequence[ComparedTrajectory]) -> WrittenFiles:
        rounds_of = {one.trajectory_id: one.round for one in compared}
        episodes = read_episodes_of_rounds(self.warehouse, self.at.run_id, rounds_of, with_guidance=True)
        sizes = WarehouseScreens(self.warehouse).size
        words = PolicyWords(self.family, sizes, self.with_tokens, self.temperature)
        rows: list[RLStep] = []
        dropped: Counter[str] = Counter()
        for one in self.progress(shard).counted(compared):
            made = rl_steps(episodes[one.trajectory_id], one, self.step_weight, words, self.origin)
            rows.extend(made.rows)
            dropped.update(step.reason for step in made.dropped)
        return self.written(shard, {"rl_steps": rows}, dropped)
