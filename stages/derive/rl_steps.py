"""Trajectory-level RL rows (TRPO, paper 3.1.2): one reward per trajectory, its advantage on each of its steps.

A group is the attempts at one query. A trajectory is cut into step instances whose loss is weighted by one over its
length, so that long trajectories do not outweigh short ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.gui_owl_v3 import dialect_for
from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.rl_step import RLStep
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.derive.base import LeftOut, unfit
from trajmill.stages.derive.conversation import prompt_messages, unfit_text
from trajmill.stages.derive.end_to_end import LEARNED_FROM
from trajmill.stages.derive.rewards import RunningReward, TrajectoryReward, running_reward, trajectory_reward

MADE_BY = "derive.rl_steps/1"
ON_POLICY = frozenset({Purpose.TRAIN})
"""A guided attempt answered another prompt than the one that is trained on."""


class RLRows(NamedTuple):
    """What a batch of episodes gave."""

    rows: tuple[RLStep, ...]
    dropped: tuple[LeftOut, ...]


class _Sample(NamedTuple):
    """One trajectory of the batch."""

    episode: Episode
    reward: TrajectoryReward
    replayed: bool

    @property
    def trajectory_id(self) -> str:
        """Id of its trajectory."""
        return self.episode.trajectory.trajectory_id


def rl_steps(
    episodes: Iterable[Episode],
    remembered: Mapping[str, Episode],
    earlier: Sequence[Sequence[float]],
    frame_of: Callable[[str], CoordinateFrame],
    seed: int,
    origin: Origin,
) -> RLRows:
    """The policy-update instances of one batch of attempts.

    Rewards are normalised by their running mean and deviation over the earlier batches and this one. In a group that
    failed whole one attempt, drawn by `seed`, is replaced by the remembered success of the same query. Groups whose
    advantages are all 0 give no rows.

    Args:
        episodes: judged attempts of one round; those that are no evidence about the policy are left out.
        remembered: a success of an earlier round by query id, needed for the queries of `failed_groups`.
        earlier: the trajectory rewards of each earlier batch, oldest first (`stored_rewards`).
        frame_of: in which the policy wrote positions on a stored screen, by the screen's id; the responses are its own.
        seed: of the draws.
        origin: common columns of the rows.
    """
    groups, dropped = _groups(episodes)
    batch = []
    for query_id, attempts in groups.items():
        group = _with_replay(query_id, attempts, remembered.get(query_id), seed)
        dropped.extend(_left_out([s for s in attempts if s not in group], "replaced_by_success"))
        batch.append(group)
    running = running_reward([*earlier, [sample.reward.total for group in batch for sample in group]])
    rows: list[RLStep] = []
    for group in batch:
        assert running is not None
        if all(running.advantage(sample.reward.total) == 0.0 for sample in group):
            dropped.extend(_left_out(group, "no_advantage"))
            continue
        for sample in group:
            made = _instances(sample, running, frame_of, origin)
            rows.extend(made.rows)
            dropped.extend(made.dropped)
    return RLRows(tuple(rows), tuple(dropped))


def failed_groups(episodes: Iterable[Episode]) -> tuple[str, ...]:
    """Ids of the queries whose attempts all failed, in order of id: a remembered success helps these."""
    groups, _ = _groups(episodes)
    return tuple(query for query, group in groups.items() if _failed_whole(group))


def stored_rewards(rl_steps: pa.Table) -> list[list[float]]:
    """The trajectory rewards of each stored round, oldest first.

    Args:
        rl_steps: rows of earlier rounds; only the columns `round`, `trajectory_id` and `reward` are read.
    """
    keys = ["round", "trajectory_id"]
    rewards = rl_steps.group_by(keys).aggregate([("reward", "max")]).sort_by([(key, "ascending") for key in keys])
    rounds: dict[int, list[float]] = {}
    for number, reward in zip(rewards["round"].to_pylist(), rewards["reward_max"].to_pylist(), strict=True):
        rounds.setdefault(number, []).append(reward)
    return list(rounds.values())


def _groups(episodes: Iterable[Episode]) -> tuple[dict[str, list[_Sample]], list[LeftOut]]:
    groups: dict[str, list[_Sample]] = {}
    dropped = []
    for episode in sorted(episodes, key=lambda e: (e.query.query_id, e.trajectory.trajectory_id)):
        reason = unfit(episode, ON_POLICY)
        if reason is None:
            sample = _Sample(episode, trajectory_reward(episode), replayed=False)
            groups.setdefault(episode.query.query_id, []).append(sample)
        else:
            dropped.append(LeftOut(episode.trajectory.trajectory_id, None, reason))
    return groups, dropped


def _failed_whole(group: Sequence[_Sample]) -> bool:
    return all(sample.reward.accuracy == 0.0 for sample in group)


def _with_replay(query_id: str, group: list[_Sample], success: Episode | None, seed: int) -> list[_Sample]:
    """The group, one failure replaced by the remembered success where all failed."""
    if success is None or not _failed_whole(group) or unfit(success, LEARNED_FROM) is not None:
        return group
    sample = _Sample(success, trajectory_reward(success), replayed=True)
    if success.query.query_id != query_id or sample.reward.accuracy == 0.0:
        return group
    victim = random.Random(int(content_id("replay", seed, query_id), 16)).randrange(len(group))
    return [*group[:victim], sample, *group[victim + 1 :]]


def _left_out(samples: Iterable[_Sample], reason: str) -> list[LeftOut]:
    return [LeftOut(sample.trajectory_id, None, reason) for sample in samples]


def _instances(
    sample: _Sample, running: RunningReward, frame_of: Callable[[str], CoordinateFrame], origin: Origin
) -> RLRows:
    episode, reward = sample.episode, sample.reward
    query_id, trajectory_id = episode.query.query_id, episode.trajectory.trajectory_id
    dialect = dialect_for(episode.query.platform)
    rows, dropped = [], []
    for step in episode.steps:
        reason = unfit_text(step, step.raw_response, episode.guidance)
        if reason is not None:
            dropped.append(LeftOut(trajectory_id, step.index, reason))
            continue
        rows.append(
            RLStep(
                rl_step_id=content_id("rl_step", origin.run_id, origin.round, trajectory_id, step.index),
                group=query_id,
                trajectory_id=trajectory_id,
                step_index=step.index,
                prompt=prompt_messages(dialect, step, frame_of(step.screen_before)),
                response=step.raw_response,
                screens=(step.screen_before,),
                accuracy_reward=reward.accuracy,
                format_reward=reward.format,
                reward=reward.total,
                advantage=running.advantage(reward.total),
                step_weight=1.0 / len(episode.steps),
                replayed=sample.replayed,
                **origin.common(MADE_BY),
            )
        )
    return RLRows(tuple(rows), tuple(dropped))
