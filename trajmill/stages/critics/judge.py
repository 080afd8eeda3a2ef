"""Judges finished episodes: a trajectory is Correct only if every channel says so (paper 6.3, equation 4)."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure, ModelFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.critics.base import Ask, StepCritic, StepResult, Vote
from trajmill.stages.critics.trees.replay import seen
from trajmill.stages.critics.voting import ChannelCritics, Rule, VotingCase, VotingResult, all_of, ask_channel


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


STAGE = "judge"
"""Name of the stage on failures."""
_AHEAD = 4
"""While one episode takes long, at most this multiple of `concurrency` later episodes may be judged before it."""


class OneJudged(NamedTuple):
    """The result of judging one episode."""

    episode: Episode
    """With its verdicts; unchanged if it was not judged."""
    failure: Failure | None
    """Why it could not be judged."""


@dataclass(frozen=True, slots=True, repr=False)
class Judged:
    """The result of judging several episodes.

    It has no long `repr`, because `asyncio.run` makes the one of its result, which would take longer than the judging.
    """

    episodes: list[Episode]
    """All episodes, in order, with their verdicts; those that were not judged are unchanged."""
    failures: list[Failure]
    """One failure for each episode on which a critic gave no usable answer."""

    def add(self, one: OneJudged) -> None:
        """Take the result of one more episode."""
        self.episodes.append(one.episode)
        if one.failure is not None:
            self.failures.append(one.failure)


async def judge_episodes(
    episodes: Iterable[Episode], judge: Judge, screens: ScreenReader, origin: Origin, concurrency: int = 1
) -> Judged:
    """Judge every finished episode, `concurrency` at a time; see `judge_each`."""
    judged = Judged([], [])
    async for one in judge_each(episodes, judge, screens, origin, concurrency):
        judged.add(one)
    return judged


async def judge_each(
    episodes: Iterable[Episode], judge: Judge, screens: ScreenReader, origin: Origin, concurrency: int
) -> AsyncIterator[OneJudged]:
    """Judge every finished episode; yields the results in the order of the episodes.

    An episode that did not finish says nothing about the agent and is not judged. An episode on which a critic fails
    stays unjudged: it gets a failure and no verdict.

    Args:
        episodes: read when they are needed; memory holds only a few times `concurrency` of them.
        judge: the judge.
        screens: where the screens are read.
        origin: the common columns of the verdicts.
        concurrency: number of episodes that are judged at the same time, so that served models have enough requests.
    """
    reader, free = seen(screens), asyncio.Semaphore(concurrency)

    async def judge_next(episode: Episode) -> OneJudged:
        async with free:
            return await _judge_one(episode, judge, reader, origin)

    window: deque[asyncio.Task[OneJudged]] = deque()
    try:
        for episode in episodes:
            window.append(asyncio.create_task(judge_next(episode)))
            if len(window) >= _AHEAD * concurrency:
                yield await window.popleft()
        while window:
            yield await window.popleft()
    finally:
        for task in window:
            task.cancel()
        await asyncio.gather(*window, return_exceptions=True)


async def _judge_one(episode: Episode, judge: Judge, screens: ScreenReader, origin: Origin) -> OneJudged:
    if episode.trajectory.status != "finished":
        return OneJudged(episode, None)
    try:
        return OneJudged(await judge_episode(episode, judge, screens, origin), None)
    except (JudgeFailure, ModelFailure) as error:
        return OneJudged(episode, _failure(episode, error, judge, origin))


async def judge_episode(episode: Episode, judge: Judge, screens: ScreenReader, origin: Origin) -> Episode:
    """Judge one finished episode: add the verdicts on its steps, the votes on the trajectory and the decision.

    Raises:
        JudgeFailure: a critic gave no usable answer.
        ModelFailure: the model of a critic did not answer.
    """
    results = await judge.step_critic.judge(episode, screens)
    if [result.index for result in results] != [step.index for step in episode.steps]:
        raise JudgeFailure(f"{episode.trajectory.trajectory_id}: the step critic did not answer for every step once")
    decision = await decide(episode, results, judge, screens, origin)
    common = origin.common(made_by=judge.step_critic.version)
    return episode.model_copy(
        update={
            "step_verdicts": tuple(_step_verdict(episode, result, common) for result in results),
            "trajectory_verdicts": decision.verdicts,
            "judgement": decision.judgement,
        }
    )


def _step_verdict(episode: Episode, result: StepResult, common: dict[str, object]) -> StepVerdict:
    return StepVerdict.model_validate(
        {
            "trajectory_id": episode.trajectory.trajectory_id,
            "index": result.index,
            "analysis": result.analysis,
            "summary": result.summary,
            "label": result.label,
        }
        | common
    )


def _failure(episode: Episode, error: JudgeFailure | ModelFailure, judge: Judge, origin: Origin) -> Failure:
    return Failure(
        stage=STAGE,
        input_id=episode.trajectory.trajectory_id,
        failure_class=error.failure_class,
        message=str(error),
        attempts=1,
        **origin.common(made_by=judge.version),
    )


TRIED_AT_MOST = 3
"""Tries after which a trajectory is given up."""


class Unjudged(NamedTuple):
    """A trajectory of an earlier round that is to be judged again."""

    round: int
    """The round of its attempt."""
    trajectory_id: str
    tried: int
    """Number of tries that failed."""


def still_to_judge(
    trajectory_ids: Iterable[str], failed_tries: Mapping[str, int], judged: Collection[str]
) -> dict[str, int]:
    """The trajectories that have no judgement and are not given up, in their order, with the number of failed tries."""
    return {
        trajectory_id: failed_tries.get(trajectory_id, 0)
        for trajectory_id in trajectory_ids
        if trajectory_id not in judged and failed_tries.get(trajectory_id, 0) < TRIED_AT_MOST
    }


def to_judge_again(
    rounds: Mapping[str, int], failed_tries: Mapping[str, int], judged: Collection[str]
) -> list[Unjudged]:
    """The trajectories that failed to be judged and are to be judged again, sorted by round and id.

    Args:
        rounds: by trajectory id, the round of the attempt.
        failed_tries: by trajectory id, how often judging failed.
        judged: ids of the trajectories that have a judgement.
    """
    failed = [trajectory_id for trajectory_id in rounds if failed_tries.get(trajectory_id, 0)]
    return sorted(
        Unjudged(rounds[trajectory_id], trajectory_id, tries)
        for trajectory_id, tries in still_to_judge(failed, failed_tries, judged).items()
    )
