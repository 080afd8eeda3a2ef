"""Derives training rows from judged trajectories: supervised examples, and trajectory-level RL rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.schemas.coordinates import CoordinateFrame, native_frame
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Origin
from trajmill.stages.derive.base import as_trusted
from trajmill.stages.derive.end_to_end import end_to_end_examples
from trajmill.stages.derive.rl_steps import failed_groups, rl_steps, stored_rewards
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.shards import write_tables


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

    def identity(self, trajectory_ids: Sequence[str]) -> object:
        """The trajectories, and whether the judge and the step critic are trusted."""
        return [list(trajectory_ids), self.trust_judge, self.trust_step_critic]

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
        size_of = WarehouseScreens(self.warehouse).size
        made = [
            end_to_end_examples(as_trusted(episode, self.trust_judge, self.trust_step_critic), size_of, self.origin)
            for episode in episodes
        ]
        rows = [example for one in made for example in one.examples]
        return WrittenFiles(
            write_tables(self.warehouse, self.at, {"examples": rows}, shard),
            Counter(dropped.reason for one in made for dropped in one.dropped),
        )


@dataclass(frozen=True)
class DeriveRLSteps:
    """Derives the RL rows of all unguided attempts of a round in one shard: rewards are normalised over the round."""

    warehouse: Warehouse
    at: StageRun
    origin: Origin
    remembered: Mapping[str, str]
    """By query id, the trajectory that is its remembered success of an earlier round."""
    seed: int
    policy_frame: Callable[[Size], CoordinateFrame] = native_frame
    """The coordinate frame of the policy for a screen size."""

    def identity(self, trajectory_ids: Sequence[str]) -> object:
        """The trajectories, and the remembered successes that may stand in for failed groups."""
        return [list(trajectory_ids), dict(self.remembered), self.seed]

    def __call__(self, shard: str, trajectory_ids: Sequence[str]) -> WrittenFiles:
        """Write the RL rows of the trajectories."""
        episodes = read_episodes(
            self.warehouse,
            self.at.run_id,
            trajectory_ids,
            rounds=[self.at.round],
            with_verdicts=True,
        )
        wanted = {self.remembered[query] for query in failed_groups(episodes) if query in self.remembered}
        successes = (
            read_episodes(self.warehouse, self.at.run_id, wanted, with_verdicts=True, with_guidance=True)
            if wanted
            else []
        )
        earlier = read_table(
            self.warehouse,
            "rl_steps",
            ["round", "trajectory_id", "reward"],
            rounds=range(self.at.round),
            run_id=self.at.run_id,
        )
        size_of = WarehouseScreens(self.warehouse).size
        made = rl_steps(
            episodes,
            {episode.query.query_id: episode for episode in successes},
            stored_rewards(earlier),
            lambda screen_id: self.policy_frame(size_of(screen_id)),
            self.seed,
            self.origin,
        )
        return WrittenFiles(
            write_tables(self.warehouse, self.at, {"rl_steps": made.rows}, shard),
            Counter(dropped.reason for dropped in made.dropped),
        )
