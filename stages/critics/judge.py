"""The judge stage: finished episodes in, the same episodes with their verdicts out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from schemas.episode import Episode
from schemas.errors import JudgeFailure, ModelFailure
from schemas.failure import Failure
from schemas.observation import ScreenReader
from schemas.record import Origin
from schemas.verdict import StepVerdict
from stages.critics.base import StepResult
from stages.critics.consensus import Judge, decide
from stages.critics.multimodal_channel import StateChannel
from stages.critics.replay import seen
from stages.critics.step_critic import StateStepCritic
from stages.critics.text_channel import CaptionChannel

STAGE = "judge"
"""Name of the stage as it stands on failures."""


@dataclass(frozen=True, slots=True, repr=False)
class Judged:
    """What came of judging.

    It has no long `repr`: `asyncio.run` takes that of its result, which would cost more than the judging.
    """

    episodes: list[Episode]
    """All episodes, in order: with their verdicts, or as they came where they could not, or were not to, be judged."""
    failures: list[Failure]
    """One for each episode on which a critic gave no usable answer."""


def state_judge() -> Judge:
    """The embedded judge: two channels that read trees; needs no model."""
    return Judge(StateStepCritic(), (CaptionChannel(), StateChannel()))


async def judge_episodes(episodes: Iterable[Episode], judge: Judge, screens: ScreenReader, origin: Origin) -> Judged:
    """Judge every finished episode.

    An episode that did not finish is no evidence about the agent and stays as it is. An episode on which a critic
    fails stays unjudged: it gets a failure and never a verdict.
    """
    reader = seen(screens)
    judged = Judged([], [])
    for episode in episodes:
        if episode.trajectory.status != "finished":
            judged.episodes.append(episode)
            continue
        try:
            judged.episodes.append(await judge_episode(episode, judge, reader, origin))
        except (JudgeFailure, ModelFailure) as error:
            judged.episodes.append(episode)
            judged.failures.append(_failure(episode, error, judge, origin))
    return judged


async def judge_episode(episode: Episode, judge: Judge, screens: ScreenReader, origin: Origin) -> Episode:
    """One finished episode with the verdicts on its steps, the votes on the whole and the decision.

    Raises:
        schemas.errors.JudgeFailure: a critic gave no usable answer.
        schemas.errors.ModelFailure: the model behind a critic did not answer.
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
