"""The decision on a trajectory: Correct only if every channel says so (paper 6.3, eq. 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from statistics import median_low
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure, ModelFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.verdict import Judgement, TrajectoryVerdict
from trajmill.stages.critics.base import StepCritic, StepResult
from trajmill.stages.critics.cascade import ChannelPlan, ChannelResult, ask_channel
from trajmill.stages.critics.rule import Rule, all_of
from trajmill.stages.critics.voting import Case, CastVote, side_by_side


class Ask(StrEnum):
    """How much is asked for; the decision is the same."""

    NEEDED = "needed"
    """Nothing more once the decision stands: a channel that says Incorrect makes the later ones superfluous."""
    CHANNELS = "channels"
    """Every channel, so that each can be calibrated; within one, nothing more once its opinion stands."""
    ALL = "all"
    """Every vote of every pass, so that each ingredient can be calibrated."""


class Judge(NamedTuple):
    """The critics that judge together."""

    step_critic: StepCritic
    channels: tuple[ChannelPlan, ...]
    """At least one; two, text and multimodal, in the paper."""
    ask: Ask = Ask.CHANNELS

    @property
    def rule(self) -> Rule:
        """How the votes are combined."""
        return Rule(tuple(plan.rule for plan in self.channels))

    @property
    def version(self) -> str:
        """The versions of all critics, step critic first."""
        return "+".join([self.step_critic.version, *(plan.version for plan in self.channels)])


class Decision(NamedTuple):
    """The valid votes on one trajectory, and what follows from them."""

    verdicts: tuple[TrajectoryVerdict, ...]
    judgement: Judgement


async def decide(
    episode: Episode, steps: Sequence[StepResult], judge: Judge, screens: ScreenReader, origin: Origin
) -> Decision:
    """Ask the channels and combine their votes.

    Raises:
        JudgeFailure: votes are missing that could turn the decision. There is then none: a missing vote
            neither counts as one nor lowers the number that is needed.
        ModelFailure: so it is, and the last of them is missing because a model did not answer.
    """
    results = await _ask_channels(Case(episode, screens, steps), judge)
    correct = all_of(result.outcome for result in results)
    if correct is None:
        raise _undecided(results)
    cast = [one.vote for result in results for one in result.cast]
    judgement = Judgement(
        trajectory_id=episode.trajectory.trajectory_id,
        correct=correct,
        rule=str(judge.rule),
        agreed=len({vote.correct for vote in cast}) == 1,
        redundant_steps=tuple(sorted({index for result in results for index in _redundant(result)})),
        first_error_step=None if correct else min(_first_errors(results), default=None),
        **origin.common(made_by=judge.version),
    )
    verdicts = (_verdict(episode, one, origin) for result in results for one in result.cast)
    return Decision(tuple(verdicts), judgement)


async def _ask_channels(case: Case, judge: Judge) -> Sequence[ChannelResult]:
    if judge.ask is not Ask.NEEDED:
        ask_all = judge.ask is Ask.ALL
        return await side_by_side(ask_channel(case, plan, ask_all) for plan in judge.channels)
    results: list[ChannelResult] = []
    for plan in judge.channels:
        results.append(await ask_channel(case, plan, ask_all=False))
        if results[-1].outcome is False:
            break
    return results


def _redundant(result: ChannelResult) -> list[int]:
    """The steps that at least half of a channel's votes find redundant."""
    named = Counter(index for one in result.cast for index in set(one.vote.redundant_steps))
    return [index for index, votes in named.items() if 2 * votes >= len(result.cast)]


def _first_errors(results: Iterable[ChannelResult]) -> list[int]:
    """For each channel that says Incorrect the first error step, as the middle one of its votes has it."""
    named = [[one.vote.first_error_step for one in result.cast] for result in results if result.outcome is False]
    errors = [[index for index in indices if index is not None] for indices in named]
    return [median_low(indices) for indices in errors if indices]


def _undecided(results: Iterable[ChannelResult]) -> JudgeFailure | ModelFailure:
    """Names the channel that is open, its votes, and why others are missing."""
    for result in results:
        if result.outcome is None and result.missing is not None:
            correct = sum(one.vote.correct for one in result.cast)
            text = f"{result.channel}: {correct} Correct, {len(result.cast) - correct} Incorrect, too few to decide"
            kind = ModelFailure if isinstance(result.missing, ModelFailure) else JudgeFailure
            return kind(f"{text}; the last that is missing: {result.missing}")
    raise AssertionError("votes are open, and none is missing")


def _verdict(episode: Episode, one: CastVote, origin: Origin) -> TrajectoryVerdict:
    return TrajectoryVerdict(
        trajectory_id=episode.trajectory.trajectory_id,
        channel=one.critic.channel,
        resolution=one.critic.resolution,
        vote=one.number,
        correct=one.vote.correct,
        reason=one.vote.reason,
        redundant_steps=one.vote.redundant_steps,
        first_error_step=one.vote.first_error_step,
        **origin.common(made_by=one.critic.version),
    )
