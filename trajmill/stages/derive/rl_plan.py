"""Plans the RL rows of a round: the groups of attempts that are compared, and the advantage of each member.

A group is the attempts at one query, in one round, by one policy version. Rewards are compared over groups, or over the
round, so this is decided for all attempts at once, from their columns. The rows come from one trajectory at a time.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.derive.base import LeftOut, unfit_attempt
from trajmill.stages.derive.end_to_end import LEARNED_FROM
from trajmill.stages.derive.rewards import RewardMoments, TrajectoryReward, moments, reward_of, running_moments
from trajmill.stages.derive.spec import RLSpec

ON_POLICY = frozenset({Purpose.TRAIN})
"""Purposes of attempts that RL uses. A guided attempt answered another prompt than the one that is trained on."""


class RLAttempt(NamedTuple):
    """An attempt without its texts: what decides its group and its reward."""

    trajectory_id: str
    query_id: str
    split: str
    """The split of the query."""
    round: int
    """The round in which it was made."""
    model_version: str
    """The policy version that acted."""
    purpose: str
    """Why it was made."""
    status: str
    """`finished`, or `failed`."""
    steps: int
    malformed: int
    """How many of its replies could not be parsed."""
    correct: bool | None
    """What it was judged; None without a judgement."""

    @property
    def reward(self) -> TrajectoryReward:
        """Its reward; that of a failure without a judgement."""
        return reward_of(bool(self.correct), self.malformed, self.steps)

    def unfit(self, purposes: frozenset[Purpose]) -> str | None:
        """Why it may give no row; None if it may."""
        is_judged = self.correct is not None
        return unfit_attempt(self.split, self.purpose, self.status, is_judged, self.steps, purposes)


class GroupMember(NamedTuple):
    """One attempt of a group and its reward."""

    attempt: RLAttempt
    reward: TrajectoryReward
    replayed: bool = False
    """Whether it is a success of an earlier round that replaces a failed attempt."""

    @property
    def trajectory_id(self) -> str:
        """Id of its trajectory."""
        return self.attempt.trajectory_id


class Group(NamedTuple):
    """The attempts at one query whose rewards are compared."""

    query_id: str
    members: tuple[GroupMember, ...]

    @property
    def policy_version(self) -> str:
        """The version that acted in all fresh attempts."""
        return self.members[0].attempt.model_version

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


def grouped(attempts: Iterable[RLAttempt], may_be_judged: Collection[str]) -> Grouped:
    """Divide attempts into groups.

    Args:
        attempts: those that say nothing about the policy are left out.
        may_be_judged: trajectories that a later round judges if they have no judgement yet; their groups wait until
            then.
    """
    by_group: dict[tuple[str, int, str], list[RLAttempt]] = {}
    for attempt in sorted(attempts, key=lambda each: (each.query_id, each.trajectory_id)):
        by_group.setdefault((attempt.query_id, attempt.round, attempt.model_version), []).append(attempt)
    groups: list[Group] = []
    left_out: list[LeftOut] = []
    for (query_id, _, _), compared in sorted(by_group.items()):
        reasons = [attempt.unfit(ON_POLICY) for attempt in compared]
        if any(
            reason == "not_judged" and attempt.trajectory_id in may_be_judged
            for attempt, reason in zip(compared, reasons, strict=True)
        ):
            reasons = [reason or "group_waits_for_judgement" for reason in reasons]
        members = []
        for attempt, reason in zip(compared, reasons, strict=True):
            if reason is None:
                members.append(GroupMember(attempt, attempt.reward))
            else:
                left_out.append(LeftOut(attempt.trajectory_id, None, reason))
        if members:
            groups.append(Group(query_id, tuple(members)))
    return Grouped(tuple(groups), tuple(left_out))


def with_replay(group: Group, remembered: Mapping[str, RLAttempt], spec: RLSpec, seed: int) -> Group:
    """The group; if all its attempts failed, an earlier success at its query replaces one of them."""
    success = remembered.get(group.query_id)
    if success is None or not spec.replay or not group.wants_replay or success.unfit(LEARNED_FROM) is not None:
        return group
    is_guided = success.purpose == Purpose.GUIDED
    if success.query_id != group.query_id or not success.correct or is_guided > spec.replay_guided:
        return group
    member = GroupMember(success, success.reward, replayed=True)
    members: Sequence[GroupMember] = group.members
    replaced = random.Random(int(content_id("replay", seed, group.query_id), 16)).randrange(len(members))
    return group._replace(members=(*members[:replaced], member, *members[replaced + 1 :]))


class RLBatch(NamedTuple):
    """The attempts that the RL rows of one round are made from."""

    attempts: Sequence[RLAttempt]
    """The round's attempts, and the groups of earlier rounds that waited for a judgement."""
    remembered: Mapping[str, RLAttempt] = {}
    """By query id, a success of an earlier round; only `replayable` queries need one."""
    earlier: Sequence[RewardMoments] = ()
    """Of the rewards of each earlier round, oldest first; used only by normalisation over the batch."""
    may_be_judged: Collection[str] = ()
    """Trajectories that a later round judges if they have no judgement yet."""
    stale: Collection[str] = ()
    """Policy versions that lie too far behind the trained one; their groups give no rows."""


class ComparedTrajectory(NamedTuple):
    """A trajectory whose steps become RL rows, with what its comparison has decided; JSON values alone."""

    trajectory_id: str
    round: int
    """The round of its attempt."""
    group: str
    """The query of its group."""
    group_size: int
    accuracy: float
    """The first part of its reward."""
    format: float
    """The other part."""
    advantage: float
    replayed: bool
    """Whether it is a success of an earlier round that replaces a failed attempt."""


class RLPlan(NamedTuple):
    """The trajectories that give RL rows, in the order of their rows, and what gives none."""

    trajectories: tuple[ComparedTrajectory, ...]
    dropped: tuple[LeftOut, ...]


def plan_rl(batch: RLBatch, spec: RLSpec, seed: int) -> RLPlan:
    """Decide which trajectories of a batch give RL rows, and their advantages.

    Args:
        batch: judged attempts, and the moments of the earlier rewards that theirs are compared with.
        spec: how rewards are normalised and what is replayed and kept.
        seed: decides which failed attempts are replaced.
    """
    fresh = grouped(batch.attempts, batch.may_be_judged)
    rewards = [one.reward.total for group in fresh.groups for one in group.members]
    running = running_moments([*batch.earlier, *([moments(rewards)] if rewards else [])])
    planned: list[ComparedTrajectory] = []
    dropped = list(fresh.left_out)
    for attempts in fresh.groups:
        if attempts.policy_version in batch.stale:
            dropped.extend(_left_out(attempts.members, "stale_policy"))
            continue
        group = with_replay(attempts, batch.remembered, spec, seed)
        kept = {member.trajectory_id for member in group.members}
        replaced = [member for member in attempts.members if member.trajectory_id not in kept]
        dropped.extend(_left_out(replaced, "replaced_by_success"))
        if not (spec.keep_without_spread or group.has_spread):
            dropped.extend(_left_out(group.members, "no_spread"))
            continue
        own = moments([member.reward.total for member in group.members])
        scale = running if spec.normalise == "batch" and running is not None else own
        planned.extend(_compared(member, group, scale) for member in group.members)
    return RLPlan(tuple(planned), tuple(dropped))


def replayable(attempts: Iterable[RLAttempt], may_be_judged: Collection[str] = ()) -> tuple[str, ...]:
    """Ids of the queries whose group has only failures, in order of id; an earlier success can replace one of them."""
    return tuple(group.query_id for group in grouped(attempts, may_be_judged).groups if group.wants_replay)


def _compared(member: GroupMember, group: Group, scale: RewardMoments) -> ComparedTrajectory:
    reward = member.reward
    return ComparedTrajectory(
        member.trajectory_id,
        member.attempt.round,
        group.query_id,
        len(group.members),
        reward.accuracy,
        reward.format,
        scale.advantage(reward.total),
        member.replayed,
    )


def _left_out(members: Iterable[GroupMember], reason: str) -> list[LeftOut]:
    return [LeftOut(member.trajectory_id, None, reason) for member in members]
