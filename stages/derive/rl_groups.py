"""The groups within which RL compares attempts: those at one query, in one round, by one policy version."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.derive.base import LeftOut, unfit
from trajmill.stages.derive.end_to_end import LEARNED_FROM
from trajmill.stages.derive.rewards import TrajectoryReward, moments, trajectory_reward
from trajmill.stages.derive.spec import RLSpec

ON_POLICY = frozenset({Purpose.TRAIN})
"""Purposes of attempts that RL uses. A guided attempt answered another prompt than the one that is trained on."""


class GroupMember(NamedTuple):
    """One trajectory of a group and its reward."""

    episode: Episode
    reward: TrajectoryReward
    replayed: bool = False
    """Whether it is a success of an earlier round that replaces a failed attempt."""

    @property
    def trajectory_id(self) -> str:
        """Id of its trajectory."""
        return self.episode.trajectory.trajectory_id


class Group(NamedTuple):
    """The attempts at one query whose rewards are compared."""

    query_id: str
    members: tuple[GroupMember, ...]

    @property
    def policy_version(self) -> str:
        """The version that acted in all fresh attempts."""
        return self.members[0].episode.trajectory.model_version

    @property
    def failed_whole(self) -> bool:
        """Whether no attempt succeeded."""
        return all(member.reward.accuracy == 0.0 for member in self.members)

    @property
    def wants_replay(self) -> bool:
        """Whether a success of an earlier round would help: all of its attempts failed, and there are at least two."""
        return len(self.members) > 1 and self.failed_whole

    @property
    def has_spread(self) -> bool:
        """Whether any two of its rewards differ."""
        return moments([member.reward.total for member in self.members]).have_spread


class Grouped(NamedTuple):
    """The groups of a batch, in order of query, and the attempts that are in none."""

    groups: tuple[Group, ...]
    left_out: tuple[LeftOut, ...]


def grouped(episodes: Iterable[Episode], may_be_judged: Collection[str]) -> Grouped:
    """Divide attempts into groups.

    Args:
        episodes: attempts; those that say nothing about the policy are left out.
        may_be_judged: trajectories that a later round judges if they have no judgement yet; their groups wait until
            then.
    """
    by_group: dict[tuple[str, int, str], list[Episode]] = {}
    for episode in sorted(episodes, key=lambda e: (e.query.query_id, e.trajectory.trajectory_id)):
        trajectory = episode.trajectory
        key = episode.query.query_id, trajectory.round, trajectory.model_version
        by_group.setdefault(key, []).append(episode)
    groups: list[Group] = []
    left_out: list[LeftOut] = []
    for (query_id, _, _), attempts in sorted(by_group.items()):
        reasons = [unfit(episode, ON_POLICY) for episode in attempts]
        if any(
            reason == "not_judged" and episode.trajectory.trajectory_id in may_be_judged
            for episode, reason in zip(attempts, reasons, strict=True)
        ):
            reasons = [reason or "group_waits_for_judgement" for reason in reasons]
        members = []
        for episode, reason in zip(attempts, reasons, strict=True):
            if reason is None:
                members.append(GroupMember(episode, trajectory_reward(episode)))
            else:
                left_out.append(LeftOut(episode.trajectory.trajectory_id, None, reason))
        if members:
            groups.append(Group(query_id, tuple(members)))
    return Grouped(tuple(groups), tuple(left_out))


def with_replay(group: Group, remembered: Mapping[str, Episode], spec: RLSpec, seed: int) -> Group:
    """The group; if all its attempts failed, an earlier success at its query replaces one of them."""
    success = remembered.get(group.query_id)
    if success is None or not spec.replay or not group.wants_replay or unfit(success, LEARNED_FROM) is not None:
        return group
    member = GroupMember(success, trajectory_reward(success), replayed=True)
    guided = success.trajectory.purpose is Purpose.GUIDED
    if success.query.query_id != group.query_id or member.reward.accuracy == 0.0 or guided > spec.replay_guided:
        return group
    members: Sequence[GroupMember] = group.members
    replaced = random.Random(int(content_id("replay", seed, group.query_id), 16)).randrange(len(members))
    return group._replace(members=(*members[:replaced], member, *members[replaced + 1 :]))
