"""Plans the RL rows of a round: the groups of attempts that are compared, and the advantage of each member.

A group is the attempts at one query, in one round, by one policy version. The branches from a screen are compared with
each other: their mean reward is the value of the screen, and gives the steps around it advantages of their own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.trajectory import Purpose, StopReason
from trajmill.stages.derive.collected import LEARNED_FROM, LeftOut, unfit_attempt
from trajmill.stages.derive.spec import RLSpec

MALFORMED_PENALTY = -0.5
"""Format reward of a trajectory without any well-formed action (paper 3.1.2)."""
_DECAY = 0.5
"""Weight of the earlier batches in the running moments when a new batch arrives; the policy changes between rounds."""
_EPSILON = 1e-6


class TrajectoryReward(NamedTuple):
    accuracy: float
    """1 if the trajectory was judged correct, else 0."""
    format: float
    """-0.5 times the share of replies that could not be parsed."""

    @property
    def total(self) -> float:
        return self.accuracy + self.format


def reward_of(correct: bool, malformed: int, steps: int) -> TrajectoryReward:
    return TrajectoryReward(float(correct), MALFORMED_PENALTY * malformed / steps if malformed else 0.0)


class RewardMoments(NamedTuple):
    mean: float
    mean_square: float

    @property
    def deviation(self) -> float:
        return math.sqrt(max(0.0, self.mean_square - self.mean**2))

    @property
    def have_spread(self) -> bool:
        return self.deviation >= _EPSILON

    def advantage(self, reward: float) -> float:
        """Return (R - mean) / (deviation + epsilon) of paper 3.1.2; 0 where no two rewards differ."""
        return (reward - self.mean) / (self.deviation + _EPSILON) if self.have_spread else 0.0


def moments(rewards: Sequence[float]) -> RewardMoments:
    return RewardMoments(math.fsum(rewards) / len(rewards), math.fsum(r * r for r in rewards) / len(rewards))


def running_moments(batches: Iterable[RewardMoments]) -> RewardMoments | None:
    """Return the running moments of batches, oldest first; each batch weighs half as much as the one after it."""
    running: RewardMoments | None = None
    for batch in batches:
        pairs = zip(running or batch, batch, strict=True)
        mixed = RewardMoments(*(_DECAY * old + (1 - _DECAY) * new for old, new in pairs))
        running = batch if running is None else mixed
    return running


ON_POLICY = frozenset({Purpose.TRAIN})
"""Purposes of attempts that RL uses. A guided attempt answered another prompt than the one that is trained on."""
_BRANCHED = frozenset({Purpose.BRANCH})


class RLAttempt(NamedTuple):
    """The columns of an attempt that decide its group and its reward."""

    trajectory_id: str
    query_id: str
    split: str
    round: int
    model_version: str
    purpose: str
    status: str
    stop_reason: str
    steps: int
    malformed: int
    """Number of replies that could not be parsed."""
    correct: bool | None
    parent_id: str | None = None
    """The attempt that a branch goes on from; None for all others."""
    branched_at: int | None = None
    """Number of the parent's steps that it begins with."""

    @property
    def reward(self) -> TrajectoryReward:
        return reward_of(bool(self.correct), self.malformed, self.steps)

    def unfit(self, purposes: frozenset[Purpose]) -> str | None:
        is_judged = self.correct is not None
        reason = unfit_attempt(self.split, self.purpose, self.status, is_judged, self.steps, purposes)
        # A slow machine is no fault of the policy.
        return reason or ("time_limit" if self.stop_reason == StopReason.TIME_LIMIT else None)


class Group(NamedTuple):
    query_id: str
    members: tuple[RLAttempt, ...]
    replayed: str = ""
    """The trajectory of a success of an earlier round that replaces a failed attempt; empty without one."""

    @property
    def moments(self) -> RewardMoments:
        return moments([member.reward.total for member in self.members])

    @property
    def wants_replay(self) -> bool:
        """Whether an earlier success would help: it has at least two attempts, and all of them failed."""
        return len(self.members) > 1 and all(member.reward.accuracy == 0.0 for member in self.members)


def grouped(attempts: Iterable[RLAttempt], may_be_judged: Collection[str]) -> tuple[list[Group], list[LeftOut]]:
    """Divide attempts into groups in order of query; also return the attempts that are in none.

    Groups with an unjudged trajectory of `may_be_judged` wait for the round that judges it.
    """
    by_group: dict[tuple[str, int, str], list[RLAttempt]] = {}
    for attempt in sorted(attempts, key=lambda each: (each.query_id, each.trajectory_id)):
        by_group.setdefault((attempt.query_id, attempt.round, attempt.model_version), []).append(attempt)
    groups: list[Group] = []
    left_out: list[LeftOut] = []
    for (query_id, _, _), compared in sorted(by_group.items()):
        reasons = {attempt.trajectory_id: attempt.unfit(ON_POLICY) for attempt in compared}
        waits = any(reason == "not_judged" and name in may_be_judged for name, reason in reasons.items())
        members = tuple(attempt for attempt in compared if not waits and reasons[attempt.trajectory_id] is None)
        groups += [Group(query_id, members)] if members else []
        for name, reason in reasons.items():
            if waits or reason is not None:
                left_out.append(LeftOut(name, None, reason or "group_waits_for_judgement"))
    return groups, left_out


def with_replay(group: Group, remembered: Mapping[str, RLAttempt], spec: RLSpec, seed: int) -> Group:
    """Return the group; if all its attempts failed, an earlier success at its query replaces one of them."""
    success = remembered.get(group.query_id)
    if success is None or not spec.replay or not group.wants_replay or success.unfit(LEARNED_FROM) is not None:
        return group
    if success.query_id != group.query_id or not success.correct or success.purpose == Purpose.GUIDED:
        return group
    members = list(group.members)
    draw = random.Random(int(content_id("replay", seed, group.query_id), 16))
    members[draw.randrange(len(members))] = success
    return Group(group.query_id, tuple(members), success.trajectory_id)


class RLBatch(NamedTuple):
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
    """A trajectory whose steps become RL rows, with the results of its comparison; JSON values alone."""

    trajectory_id: str
    round: int
    group: str
    """The query of its group."""
    group_size: int
    accuracy: float
    format: float
    """The two parts of its reward."""
    advantage: float
    replayed: bool
    from_step: int = 0
    until_step: int | None = None
    """The steps that become rows, up to the last one if None."""
    branch: str = ""
    """The branch point that the advantage comes from; empty for that of the whole trajectory."""


class RLPlan(NamedTuple):
    trajectories: tuple[ComparedTrajectory, ...]
    """In the order of their rows."""
    dropped: tuple[LeftOut, ...]


def plan_rl(batch: RLBatch, spec: RLSpec, seed: int) -> RLPlan:
    """Decide which trajectories of a batch give RL rows, and their advantages; `seed` draws the replaced failures."""
    whole = [attempt for attempt in batch.attempts if attempt.parent_id is None]
    groups, dropped = grouped(whole, batch.may_be_judged)
    rewards = [member.reward.total for group in groups for member in group.members]
    running = running_moments([*batch.earlier, *([moments(rewards)] if rewards else [])])
    planned: list[ComparedTrajectory] = []
    for fresh in groups:
        # One version acted in all fresh attempts.
        if fresh.members[0].model_version in batch.stale:
            dropped += (LeftOut(member.trajectory_id, None, "stale_policy") for member in fresh.members)
            continue
        group = with_replay(fresh, batch.remembered, spec, seed)
        kept = {member.trajectory_id for member in group.members}
        replaced = (member.trajectory_id for member in fresh.members if member.trajectory_id not in kept)
        dropped += (LeftOut(name, None, "replaced_by_success") for name in replaced)
        if not (spec.keep_without_spread or group.moments.have_spread):
            dropped += (LeftOut(member.trajectory_id, None, "no_spread") for member in group.members)
            continue
        scale = running if spec.normalise == "batch" and running is not None else group.moments
        planned += (
            ComparedTrajectory(
                member.trajectory_id,
                member.round,
                group.query_id,
                len(group.members),
                member.reward.accuracy,
                member.reward.format,
                scale.advantage(member.reward.total),
                member.trajectory_id == group.replayed,
            )
            for member in group.members
        )
    branched = plan_branched(batch, groups)
    parents = {one.trajectory_id for one in branched.trajectories}
    own = [one for one in planned if one.trajectory_id not in parents]
    others = [one for one in dropped if one.trajectory_id not in parents]
    return RLPlan((*own, *branched.trajectories), (*others, *branched.dropped))


def plan_branched(batch: RLBatch, groups: Iterable[Group]) -> RLPlan:
    """Decide the advantages of branches, and of the steps of their parents.

    Values are Monte Carlo estimates as in VinePPO (2410.01679, section 4). An attempt with reward R reached a screen
    before its step k; branches went on from there with rewards R_1 ... R_N, of mean V and deviation S. V_0 is the mean
    reward of the attempt's group. With the epsilon of paper 3.1.2:

        steps k ... of branch i      (R_i - V) / (S + epsilon)
        steps k ... of the attempt   (R - V) / (S + epsilon)
        steps ... k - 1              (V - V_0) / (S + epsilon)
    """
    planned, dropped = list[ComparedTrajectory](), list[LeftOut]()
    parents = {member.trajectory_id: (member, group.moments.mean) for group in groups for member in group.members}
    by_point: dict[tuple[str, int], list[RLAttempt]] = {}
    for attempt in sorted(batch.attempts, key=lambda each: each.trajectory_id):
        if attempt.parent_id is not None:
            by_point.setdefault((attempt.parent_id, attempt.branched_at or 0), []).append(attempt)
    for (parent_id, at), branches in sorted(by_point.items()):
        reasons = {one.trajectory_id: one.unfit(_BRANCHED) for one in branches}
        if parent_id not in parents:
            reasons = dict.fromkeys(reasons, "no_parent")
        elif branches[0].model_version in batch.stale:
            reasons = dict.fromkeys(reasons, "stale_policy")
        fit = [one for one in branches if reasons[one.trajectory_id] is None]
        value = moments([one.reward.total for one in fit]) if fit else None
        if value is not None and not value.have_spread:
            reasons |= {one.trajectory_id: "no_spread" for one in fit}
        dropped += (LeftOut(name, None, reason) for name, reason in reasons.items() if reason is not None)
        if value is None or not value.have_spread:
            continue
        (parent, start), point = parents[parent_id], f"{parent_id}@{at}"
        # (V - V_0) / (S + epsilon), as the advantage of a reward of 2 V - V_0 over V.
        planned.append(_at_branch(parent, point, len(fit), value.advantage(2 * value.mean - start), (0, at)))
        planned += (
            _at_branch(one, point, len(fit), value.advantage(one.reward.total), (at, None)) for one in (parent, *fit)
        )
    return RLPlan(tuple(planned), tuple(dropped))


def _at_branch(
    one: RLAttempt, point: str, size: int, advantage: float, steps: tuple[int, int | None]
) -> ComparedTrajectory:
    about = (one.trajectory_id, one.round, one.query_id, size, one.reward.accuracy, one.reward.format)
    return ComparedTrajectory(*about, advantage, False, *steps, point)


def replayable(attempts: Iterable[RLAttempt], may_be_judged: Collection[str] = ()) -> tuple[str, ...]:
    """Return the ids of the queries whose group has only failures, in order; a success can replace one of them."""
    groups, _ = grouped(attempts, may_be_judged)
    return tuple(group.query_id for group in groups if group.wants_replay)
