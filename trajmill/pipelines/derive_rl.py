"""Derives trajectory-level RL rows: one plan from the columns of a round's attempts, then rows shard by shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.pipelines.reading.episodes import read_episodes_of_rounds
from trajmill.pipelines.reading.verdicts import look_up_rl_attempts, read_rl_attempts, reward_moments
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.rl_step import RLStep
from trajmill.stages.derive.rl_plan import ComparedTrajectory, RLBatch, RLPlan, plan_rl, replayable
from trajmill.stages.derive.rl_steps import PolicyWords, rl_steps
from trajmill.stages.derive.spec import RLSpec, StepWeight
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staging import ShardProgress


class RLRound(NamedTuple):
    """The attempts of a round whose rewards are compared."""

    run_id: str
    round: int
    trajectory_ids: Sequence[str]
    """The round's unguided attempts, and the groups of earlier rounds that waited for a judgement."""
    rounds: Sequence[int]
    """The rounds of these trajectories."""
    remembered: Mapping[str, str]
    """By query id, the trajectory of a success of an earlier round."""
    remembered_in: Mapping[str, int]
    """By trajectory id, the round of these successes."""
    may_be_judged: frozenset[str]
    """Trajectories that a later round judges if they have no judgement yet."""
    stale: frozenset[str]
    """Policy versions that lie too far behind the trained one."""


def plan_round(warehouse: Warehouse, compared: RLRound, spec: RLSpec, seed: int) -> RLPlan:
    """Decide which attempts of a round give RL rows, and with what advantage; reads columns without texts.

    Args:
        warehouse: where to read.
        compared: the attempts.
        spec: how rewards are normalised and what is replayed and kept.
        seed: decides which failed attempts are replaced.
    """
    run_id, ids = compared.run_id, compared.trajectory_ids
    attempts = read_rl_attempts(warehouse, run_id, ids, compared.rounds, compared.round)
    wanted = replayable(attempts, compared.may_be_judged) if spec.replay else ()
    names = {compared.remembered[query] for query in wanted if query in compared.remembered}
    rounds_of = {name: compared.remembered_in[name] for name in sorted(names)}
    remembered = look_up_rl_attempts(warehouse, run_id, rounds_of, compared.round)
    earlier = reward_moments(warehouse, run_id, compared.round, frozenset(ids)) if spec.normalise == "batch" else []
    by_query = {attempt.query_id: attempt for attempt in remembered}
    return plan_rl(RLBatch(attempts, by_query, earlier, compared.may_be_judged, compared.stale), spec, seed)


@dataclass(frozen=True)
class DeriveRLSteps:
    """The work of one shard: makes the RL rows of some trajectories of a plan."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    step_weight: StepWeight
    family: Family = ANY
    """The policy's family."""
    with_tokens: bool = False
    """Whether the policy was asked for the tokens of its replies."""
    temperature: float = 1.0
    """At which its replies were sampled."""

    def identity(self, compared: Sequence[ComparedTrajectory]) -> object:
        """The trajectories with what their comparison has decided, and how rows are made."""
        return [compared, self.step_weight, self.family.name, self.with_tokens, self.temperature]

    def __call__(self, shard: str, compared: Sequence[ComparedTrajectory]) -> WrittenFiles:
        """Write the RL rows of the trajectories, in their order."""
        rounds_of = {one.trajectory_id: one.round for one in compared}
        found = read_episodes_of_rounds(self.warehouse, self.at.run_id, rounds_of, with_guidance=True)
        episodes = {episode.trajectory.trajectory_id: episode for episode in found}
        sizes = WarehouseScreens(self.warehouse).size
        words = PolicyWords(self.family, sizes, self.with_tokens, self.temperature)
        rows: list[RLStep] = []
        dropped: Counter[str] = Counter()
        for one in ShardProgress(self.at.staging(self.warehouse), shard).counted(compared):
            made = rl_steps(episodes[one.trajectory_id], one, self.step_weight, words, self.origin)
            rows.extend(made.rows)
            dropped.update(step.reason for step in made.dropped)
        return WrittenFiles(write_tables(self.warehouse, self.at, {"rl_steps": rows}, shard), dropped)


def stored_place(one: ComparedTrajectory) -> tuple[int, str]:
    """Sort key of a trajectory's place in the tables: by round, then by id."""
    return one.round, one.trajectory_id
