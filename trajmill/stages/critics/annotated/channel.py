"""What the two annotated channels share: they find problems, and a problem makes the vote Incorrect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.annotated.task import AnnotatedTask, annotated_task
from trajmill.stages.critics.base import StepResult, Vote, vote_of
from trajmill.stages.critics.rule import FULL


class AnnotatedChannel(ABC):
    """Votes Correct if it finds no problem; asks no model."""

    channel: ClassVar[Channel]
    version: ClassVar[str]
    resolution: ClassVar[str] = FULL
    reason_if_correct: ClassVar[str]
    """The reason of a Correct vote."""

    @abstractmethod
    def problems(self, task: AnnotatedTask, episode: Episode, screens: ScreenReader) -> list[str]:
        """The reasons why the episode does not do what the task asks; empty if it does.

        Raises:
            JudgeFailure: a screen is missing.
        """

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote on a finished episode.

        In a correct trajectory, the steps that did not help are redundant. In an incorrect one, the first harmful step
        is the error. If no step was harmful, the error is the last step, because it ended an unfinished task.

        Raises:
            JudgeFailure: a screen is missing, or the annotations of the task are not known.
        """
        problems = self.problems(annotated_task(episode.query), episode, screens)
        harmful = [step.index for step in steps if step.label is StepLabel.HARMFUL]
        neutral = [step.index for step in steps if step.label is StepLabel.NEUTRAL]
        if not problems:
            return vote_of(self, True, self.reason_if_correct, tuple(sorted(harmful + neutral)))
        last = steps[-1].index if steps else None
        return vote_of(self, False, "; ".join(problems), tuple(neutral), harmful[0] if harmful else last)
