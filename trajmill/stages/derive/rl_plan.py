"""Plans the RL rows of a round from the columns of its attempts: which give rows, and with what advantage.

Rewards are compared over groups, or over the round, so this is decided for all attempts at once. The rows themselves
are then made from one trajectory at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from trajmill.stages.derive.base import LeftOut
from trajmill.stages.derive.rewards import RewardMoments, moments, running_moments
from trajmill.stages.derive.rl_groups import Group, GroupMember, RLAttempt, grouped, with_replay
from trajmill.stages.derive.spec import RLSpec


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
