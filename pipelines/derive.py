"""Derives training rows from judged trajectories: supervised examples, and trajectory-level RL rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.pipelines.reading.episodes import read_episodes, read_episodes_of_rounds
from trajmill.pipelines.reading.rewards import attempt_rewards
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import Example
from trajmill.stages.curate.episodes import curated_episode
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.base import as_trusted
from trajmill.stages.derive.end_to_end import end_to_end_examples
from trajmill.stages.derive.rl_steps import PolicyWords, RLBatch, replayable, rl_steps
from trajmill.stages.derive.spec import RLSpec
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staged.tally import ShardTally


@dataclass(frozen=True)
class DeriveExamples:
    """The work of one shard: derives supervised examples from judged trajectories, given by id."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    rounds: tuple[int, ...]
    """The rounds of the trajectories."""
    trust_judge: bool
    """False uses every finished trajectory, whatever its judgement (an ablation)."""
    trust_step_critic: bool
    """False keeps the steps that the step critic found useless (an ablation)."""
    curate: CurateSpec
    """What is not learned from, though the judge accepted it."""

    def identity(self, trajectory_ids: Sequence[str]) -> object:
        """The trajectories, whether the judge and the step critic are trusted, and what is curated."""
        return [list(trajectory_ids), self.trust_judge, self.trust_step_critic, self.curate.identity()]

    def __call__(self, shard: str, trajectory_ids: Sequence[str]) -> WrittenFiles:
        """Write the examples of the trajectories."""
        episodes = read_episodes(
            self.warehouse,
            self.at.run_id,
            trajectory_ids,
            rounds=self.rounds,
            with_verdicts=True,
            with_guidance=True,
        )
        screens = WarehouseScreens(self.warehouse)
        rows: list[Example] = []
        dropped: Counter[str] = Counter()
        for episode in ShardTally(self.at.staging(self.warehouse), shard).counted(episodes):
            trusted = as_trusted(episode, self.trust_judge, self.trust_step_critic)
            curated = curated_episode(trusted, self.curate, screens)
            dropped.update(one.reason for one in curated.dropped)
            if curated.episode is not None:
                made = end_to_end_examples(curated.episode, screens.size, self.origin)
                rows.extend(made.examples)
                dropped.update(one.reason for one in made.dropped)
        return WrittenFiles(write_tables(self.warehouse, self.at, {"examples": rows}, shard), dropped)


@dataclass(frozen=True)
class DeriveRLSteps:
    """Derives the RL rows of all unguided attempts of a round in one shard: rewards are compared over the round."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    spec: RLSpec
    rounds: tuple[int, ...]
    """The rounds of the trajectories."""
    remembered: Mapping[str, str]
    """By query id, the trajectory of a success of an earlier round."""
    remembered_in: Mapping[str, int]
    """By trajectory id, the round of these successes."""
    may_be_judged: frozenset[str]
    """Trajectories that a later round judges if they have no judgement yet."""
    stale: frozenset[str]
    """Policy versions that lie too far behind the trained one."""
    seed: int
    family: Family = ANY
    """The policy's family."""
    with_tokens: bool = False
    """Whether the policy was asked for the tokens of its replies."""
    temperature: float = 1.0
    """At which its replies were sampled."""

    def identity(self, trajectory_ids: Sequence[str]) -> object:
        """The trajectories, the successes that may replace failed attempts, and how rows are made."""
        return [
            list(trajectory_ids),
            dict(self.remembered),
            sorted(self.stale),
            self.seed,
            self.spec.identity(),
            self.family.name,
            self.with_tokens,
            self.temperature,
        ]

    def __call__(self, shard: str, trajectory_ids: Sequence[str]) -> WrittenFiles:
        """Write the RL rows of the trajectories."""
        episodes = read_episodes(self.warehouse, self.at.run_id, trajectory_ids, rounds=self.rounds, with_verdicts=True)
        made = rl_steps(
            RLBatch(episodes, self._successes(episodes), self._earlier(trajectory_ids), self.may_be_judged, self.stale),
            self.spec,
            PolicyWords(self.family, WarehouseScreens(self.warehouse).size, self.with_tokens, self.temperature),
            self.seed,
            self.origin,
        )
        return WrittenFiles(
            write_tables(self.warehouse, self.at, {"rl_steps": made.rows}, shard),
            Counter(dropped.reason for dropped in made.dropped),
        )

    def _successes(self, episodes: Sequence[Episode]) -> dict[str, Episode]:
        failed = replayable(episodes, self.may_be_judged) if self.spec.replay else ()
        wanted = {self.remembered[query] for query in failed if query in self.remembered}
        rounds_of = {name: self.remembered_in[name] for name in wanted}
        found = read_episodes_of_rounds(
            self.warehouse, self.at.run_id, rounds_of, with_verdicts=True, with_guidance=True
        )
        return {episode.query.query_id: episode for episode in found}

    def _earlier(self, trajectory_ids: Sequence[str]) -> list[list[float]]:
        if self.spec.normalise != "batch":
            return []
        return attempt_rewards(self.warehouse, self.at.run_id, range(self.at.round), frozenset(trajectory_ids))
