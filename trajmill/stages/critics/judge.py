"""Judges finished episodes and adds the verdicts to them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure, ModelFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.verdict import StepVerdict
from trajmill.stages.critics.base import StepResult
from trajmill.stages.critics.consensus import Judge, decide
from trajmill.stages.critics.trees.replay import seen

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
