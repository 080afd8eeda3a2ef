"""Judges finished episodes: a trajectory is Correct only if every channel says so (paper 6.3, equation 4)."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import median_low
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure, ModelFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.critics.replay import seen
from trajmill.stages.critics.voting import (
    Ask,
    ChannelCritics,
    Rule,
    StepCritic,
    Vote,
    VotingCase,
    VotingResult,
    all_of,
    ask_channel,
)

STAGE = "judge"
TRIED_AT_MOST = 3
"""Tries after which a trajectory is given up."""
_AHEAD = 4
"""Most episodes in progress or finished early, as a multiple of `concurrency`."""


class Judge(NamedTuple):
    step_critic: StepCritic
    channels: tuple[ChannelCritics, ...]
    """At least one channel; the paper has two, text and multimodal."""
    ask: Ask = Ask.CHANNELS

    @property
    def rule(self) -> Rule:
        return Rule(tuple(channel.rule for channel in self.channels))

    @property
    def version(self) -> str:
        return "+".join([self.step_critic.version, *(channel.version for channel in self.channels)])


class OneJudged(NamedTuple):
    episode: Episode
    failure: Failure | None


@dataclass(frozen=True, slots=True, repr=False)  # `asyncio.run` makes the repr of its result, which takes long
class Judged:
    episodes: list[Episode]
    """All episodes, in order, with their verdicts; those that were not judged are unchanged."""
    failures: list[Failure]


async def judge_episodes(
    episodes: Iterable[Episode], judge: Judge, screens: ScreenReader, origin: Origin, concurrency: int = 1
) -> Judged:
    found = [one async for one in judge_each(episodes, judge, screens, origin, concurrency)]
    return Judged([one.episode for one in found], [one.failure for one in found if one.failure is not None])


async def judge_each(
    episodes: Iterable[Episode], judge: Judge, screens: ScreenReader, origin: Origin, concurrency: int
) -> AsyncIterator[OneJudged]:
    """Judge every finished episode, `concurrency` at a time, and yield the results in order.

    Episodes are read when they are needed; memory holds a few times `concurrency` of them. An unfinished episode is no
    evidence about the agent and is not judged. An episode on which a critic fails gets a failure and no verdict.
    """
    reader, free = seen(screens), asyncio.Semaphore(concurrency)

    async def judge_next(episode: Episode) -> OneJudged:
        async with free:
            if episode.trajectory.status != "finished":
                return OneJudged(episode, None)
            try:
                return OneJudged(await judge_episode(episode, judge, reader, origin), None)
            except (JudgeFailure, ModelFailure) as error:
                failure = Failure(
                    stage=STAGE,
                    input_id=episode.trajectory.trajectory_id,
                    failure_class=error.failure_class,
                    message=str(error),
                    **origin.common(made_by=judge.version),
                )
                return OneJudged(episode, failure)

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


async def judge_episode(episode: Episode, judge: Judge, screens: ScreenReader, origin: Origin) -> Episode:
    """Judge one finished episode: add the verdicts on its steps, the votes on the trajectory and the decision.

    Raises JudgeFailure if a critic gave no usable answer, or missing votes could change the decision; ModelFailure if
    the model of a critic did not answer.
    """
    trajectory_id = episode.trajectory.trajectory_id
    steps = await judge.step_critic.judge(episode, screens)
    if [result.index for result in steps] != [step.index for step in episode.steps]:
        raise JudgeFailure(f"{trajectory_id}: the step critic did not answer for every step once")
    case, results = VotingCase(episode, screens, steps), list[VotingResult]()
    if judge.ask is Ask.NEEDED:
        for channel in judge.channels:
            results.append(await ask_channel(case, channel, ask_all=False))
            if results[-1].outcome is False:
                break
    else:
        results += await side_by_side(ask_channel(case, channel, judge.ask is Ask.ALL) for channel in judge.channels)
    correct = all_of(result.outcome for result in results)
    if correct is None:
        open_ones = (each for each in zip(judge.channels, results, strict=False) if each[1].outcome is None)
        channel, result = next(each for each in open_ones if each[1].missing is not None)
        yes = sum(vote.correct for vote in result.votes)
        text = f"{channel.rule.channel}: {yes} Correct, {len(result.votes) - yes} Incorrect, too few to decide"
        kind = ModelFailure if isinstance(result.missing, ModelFailure) else JudgeFailure
        raise kind(f"{text}; the last that is missing: {result.missing}")
    votes = [vote for result in results for vote in result.votes]
    errors, redundant = list[int](), set[int]()
    for result in results:
        called = Counter(index for vote in result.votes for index in set(vote.redundant_steps))
        redundant |= {index for index, number in called.items() if 2 * number >= len(result.votes)}
        named = [vote.first_error_step for vote in result.votes if vote.first_error_step is not None]
        if result.outcome is False and named:
            errors.append(median_low(named))
    judgement = Judgement(
        trajectory_id=trajectory_id,
        correct=correct,
        rule=str(judge.rule),
        agreed=len({vote.correct for vote in votes}) == 1,
        redundant_steps=tuple(sorted(redundant)),
        first_error_step=min(errors, default=None),
        **origin.common(made_by=judge.version),
    )
    verdicts = []
    for *values, number in votes:
        fields = dict(zip(Vote._fields, values, strict=False))
        verdicts.append(TrajectoryVerdict(**origin.common("") | fields, vote=number, trajectory_id=trajectory_id))
    common = {"trajectory_id": trajectory_id, **origin.common(made_by=judge.step_critic.version)}
    on_steps = tuple(StepVerdict(**asdict(result), **common) for result in steps)
    return episode.model_copy(
        update={"step_verdicts": on_steps, "trajectory_verdicts": tuple(verdicts), "judgement": judgement}
    )


class Unjudged(NamedTuple):
    round: int
    trajectory_id: str
    tried: int


def still_to_judge(
    trajectory_ids: Iterable[str], failed_tries: Mapping[str, int], judged: Collection[str]
) -> dict[str, int]:
    """Return the trajectories without a judgement that are not given up, in order, with their failed tries."""
    open_ones = ((each, failed_tries.get(each, 0)) for each in trajectory_ids if each not in judged)
    return {trajectory_id: tries for trajectory_id, tries in open_ones if tries < TRIED_AT_MOST}


def to_judge_again(
    rounds: Mapping[str, int], failed_tries: Mapping[str, int], judged: Collection[str]
) -> list[Unjudged]:
    """Return the trajectories that failed to be judged and are to be judged again, sorted by round and id."""
    failed = [trajectory_id for trajectory_id in rounds if failed_tries.get(trajectory_id, 0)]
    again = still_to_judge(failed, failed_tries, judged)
    return sorted(Unjudged(rounds[trajectory_id], trajectory_id, tries) for trajectory_id, tries in again.items())
