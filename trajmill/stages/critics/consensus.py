"""Decides on a trajectory: it is Correct only if every channel says so (paper 6.3, equation 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median_low
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure, ModelFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.verdict import Judgement, TrajectoryVerdict
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.critics.base import Ask, StepCritic, StepResult, Vote
from trajmill.stages.critics.rule import Rule, all_of
from trajmill.stages.critics.voting import ChannelCritics, VotingCase, VotingResult, ask_channel


class Judge(NamedTuple):
    """The critics that judge together."""

    step_critic: StepCritic
    channels: tuple[ChannelCritics, ...]
    """At least one channel; the paper has two, text and multimodal."""
    ask: Ask = Ask.CHANNELS

    @property
    def rule(self) -> Rule:
        """How its votes are combined."""
        return Rule(tuple(channel.rule for channel in self.channels))

    @property
    def version(self) -> str:
        """The versions of all critics, step critic first."""
        return "+".join([self.step_critic.version, *(channel.version for channel in self.channels)])


class Consensus(NamedTuple):
    """The valid votes on one trajectory, and the decision."""

    verdicts: tuple[TrajectoryVerdict, ...]
    judgement: Judgement


async def decide(
    episode: Episode, steps: Sequence[StepResult], judge: Judge, screens: ScreenReader, origin: Origin
) -> Consensus:
    """Ask the channels and combine their votes.

    Raises:
        JudgeFailure: missing votes could change the decision, so there is none. A missing vote counts neither way and
            does not lower the quorum.
        ModelFailure: the same, if the last vote is missing because a model did not answer.
    """
    results = await _ask_channels(VotingCase(episode, screens, steps), judge)
    correct = all_of(result.outcome for result in results)
    if correct is None:
        raise _undecided(judge, results)
    votes = [vote for result in results for vote in result.votes]
    judgement = Judgement(
        trajectory_id=episode.trajectory.trajectory_id,
        correct=correct,
        rule=str(judge.rule),
        agreed=len({vote.correct for vote in votes}) == 1,
        redundant_steps=tuple(sorted({index for result in results for index in _redundant(result)})),
        first_error_step=None if correct else min(_first_errors(results), default=None),
        **origin.common(made_by=judge.version),
    )
    return Consensus(tuple(_verdict(episode, vote, origin) for vote in votes), judgement)


async def _ask_channels(case: VotingCase, judge: Judge) -> Sequence[VotingResult]:
    if judge.ask is not Ask.NEEDED:
        ask_all = judge.ask is Ask.ALL
        return await side_by_side(ask_channel(case, channel, ask_all) for channel in judge.channels)
    results: list[VotingResult] = []
    for channel in judge.channels:
        results.append(await ask_channel(case, channel, ask_all=False))
        if results[-1].outcome is False:
            break
    return results


def _redundant(result: VotingResult) -> list[int]:
    """The steps that at least half of a channel's votes call redundant."""
    named = Counter(index for vote in result.votes for index in set(vote.redundant_steps))
    return [index for index, votes in named.items() if 2 * votes >= len(result.votes)]


def _first_errors(results: Iterable[VotingResult]) -> list[int]:
    """For each channel that says Incorrect, the median of the first error steps of its votes."""
    named = [[vote.first_error_step for vote in result.votes] for result in results if result.outcome is False]
    errors = [[index for index in indices if index is not None] for indices in named]
    return [median_low(indices) for indices in errors if indices]


def _undecided(judge: Judge, results: Iterable[VotingResult]) -> JudgeFailure | ModelFailure:
    """The error of an open channel: it names the votes, and why others are missing."""
    for channel, result in zip(judge.channels, results, strict=False):
        if result.outcome is None and result.missing is not None:
            correct = sum(vote.correct for vote in result.votes)
            text = (
                f"{channel.rule.channel}: {correct} Correct, {len(result.votes) - correct} Incorrect, too few to decide"
            )
            kind = ModelFailure if isinstance(result.missing, ModelFailure) else JudgeFailure
            return kind(f"{text}; the last that is missing: {result.missing}")
    raise AssertionError("votes are open, and none is missing")


def _verdict(episode: Episode, vote: Vote, origin: Origin) -> TrajectoryVerdict:
    return TrajectoryVerdict(
        trajectory_id=episode.trajectory.trajectory_id,
        channel=vote.channel,
        resolution=vote.resolution,
        vote=vote.number,
        correct=vote.correct,
        reason=vote.reason,
        redundant_steps=vote.redundant_steps,
        first_error_step=vote.first_error_step,
        **origin.common(made_by=vote.made_by),
    )
