"""Makes trajectory-level RL rows (TRPO, paper 3.1.2): a trajectory has one reward; its steps share the advantage.

Each step is one row. The loss of a row is weighted by one over the length of its trajectory, or by a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.dialects.base import NotExpressible
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.rl_step import RLStep
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.derive.base import LeftOut
from trajmill.stages.derive.conversation import prompt_messages, unfit_text
from trajmill.stages.derive.family_conversation import family_conversation
from trajmill.stages.derive.rewards import RewardMoments, moments, running_moments
from trajmill.stages.derive.rl_groups import Group, GroupMember, grouped, with_replay
from trajmill.stages.derive.spec import RLSpec
from trajmill.stages.guidance.strip import quotes_guidance

MADE_BY = "derive.rl_steps/2"


class RLBatch(NamedTuple):
    """The attempts that the RL rows of one round are made from."""

    episodes: Sequence[Episode]
    """The round's attempts, and the groups of earlier rounds that waited for a judgement."""
    remembered: Mapping[str, Episode] = {}
    """By query id, a success of an earlier round; only `replayable` queries need one."""
    earlier: Sequence[Sequence[float]] = ()
    """The rewards of each earlier round, oldest first; used only by normalisation over the batch."""
    may_be_judged: Collection[str] = ()
    """Trajectories that a later round judges if they have no judgement yet."""
    stale: Collection[str] = ()
    """Policy versions that lie too far behind the trained one; their groups give no rows."""


class PolicyWords(NamedTuple):
    """How the policy was asked: its family, the sizes of the stored screens, and how replies were sampled."""

    family: Family
    size_of: Callable[[str], Size]
    with_tokens: bool = False
    """Whether it was asked for the tokens of its replies."""
    temperature: float = 1.0
    """At which its replies were sampled."""


class RLRows(NamedTuple):
    """The RL rows of a batch, and what gave none."""

    rows: tuple[RLStep, ...]
    dropped: tuple[LeftOut, ...]


def rl_steps(batch: RLBatch, spec: RLSpec, words: PolicyWords, seed: int, origin: Origin) -> RLRows:
    """The RL rows of one batch of attempts.

    Args:
        batch: judged attempts, and the earlier rewards that theirs are compared with.
        spec: how rewards are normalised and what is replayed, kept and weighted.
        words: how the policy was asked; the responses are the policy's own.
        seed: decides which failed attempts are replaced.
        origin: common columns of the rows.
    """
    fresh = grouped(batch.episodes, batch.may_be_judged)
    running = running_moments([*batch.earlier, [one.reward.total for group in fresh.groups for one in group.members]])
    rows: list[RLStep] = []
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
        for member in group.members:
            made = _instances(member, group, scale, spec, words, origin)
            rows.extend(made.rows)
            dropped.extend(made.dropped)
    return RLRows(tuple(rows), tuple(dropped))


def replayable(episodes: Iterable[Episode], may_be_judged: Collection[str] = ()) -> tuple[str, ...]:
    """Ids of the queries whose group has only failures, in order of id; an earlier success can replace one of them."""
    return tuple(group.query_id for group in grouped(episodes, may_be_judged).groups if group.wants_replay)


def compares_members(rl_steps: pa.Table) -> bool:
    """Whether any group has two or more trajectories; groups of one have nothing to compare.

    Args:
        rl_steps: rows of one round; only the columns `group` and `trajectory_id` are read.
    """
    sizes = rl_steps.group_by("group").aggregate([("trajectory_id", "count_distinct")])
    return bool(pc.any(pc.greater(sizes["trajectory_id_count_distinct"], 1)).as_py())


def _left_out(members: Iterable[GroupMember], reason: str) -> list[LeftOut]:
    return [LeftOut(member.trajectory_id, None, reason) for member in members]


def _instances(
    member: GroupMember, group: Group, scale: RewardMoments, spec: RLSpec, words: PolicyWords, origin: Origin
) -> RLRows:
    episode, reward, trajectory = member.episode, member.reward, member.episode.trajectory
    weight = 1.0 / len(episode.steps) if spec.step_weight == "inverse_length" else 1.0
    rows, dropped = [], []
    for position, step in enumerate(episode.steps):
        asked = _asked(episode, position, words)
        if isinstance(asked, str):
            dropped.append(LeftOut(trajectory.trajectory_id, step.index, asked))
            continue
        rows.append(
            RLStep(
                rl_step_id=content_id("rl_step", origin.run_id, origin.round, trajectory.trajectory_id, step.index),
                group=group.query_id,
                group_size=len(group.members),
                trajectory_id=trajectory.trajectory_id,
                step_index=step.index,
                prompt=asked.messages,
                response=step.raw_response,
                screens=asked.screens,
                accuracy_reward=reward.accuracy,
                format_reward=reward.format,
                reward=reward.total,
                advantage=scale.advantage(reward.total),
                step_weight=weight,
                replayed=member.replayed,
                guided=trajectory.purpose is Purpose.GUIDED,
                policy_version=trajectory.model_version,
                response_token_ids=step.reply_token_ids,
                old_logprobs=step.reply_logprobs,
                temperature=words.temperature,
                **origin.common(MADE_BY),
            )
        )
    return RLRows(tuple(rows), tuple(dropped))


class _Asked(NamedTuple):
    """The prompt of a step, and the screens that it shows."""

    messages: tuple[Message, ...]
    screens: tuple[str, ...]


def _asked(episode: Episode, position: int, words: PolicyWords) -> _Asked | str:
    """The request of a step, without guidance; or the reason why it cannot become a row."""
    step, family = episode.steps[position], words.family
    reason = unfit_text(step, step.raw_response, episode.guidance)
    if reason is not None:
        return reason
    if words.with_tokens and (step.reply_token_ids is None or step.reply_logprobs is None):
        return "no_log_probabilities"
    if len(step.reply_token_ids or ()) != len(step.reply_logprobs or ()):
        return "log_probabilities_of_another_length"
    if not (family.past_screens or family.keeps_replies):
        frame = family.frame(words.size_of(step.screen_before))
        return _Asked(prompt_messages(family.dialect(episode.query.platform), step, frame), (step.screen_before,))
    try:
        said = family_conversation(family, episode, position, words.size_of)
    except NotExpressible:
        return "not_expressible"
    prompt = said.messages[:-1]
    if sum(message.content.count(IMAGE_PLACEHOLDER) for message in prompt) != len(said.screens):
        return "placeholder_in_text"
    if any(quotes_guidance(message.content, episode.guidance) for message in prompt):
        return "quotes_guidance"
    return _Asked(prompt, said.screens)
