"""What the two annotated channels share: how a vote follows from the problems that are found."""

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
    """Votes Correct where it finds no problem; needs no model."""

    channel: ClassVar[Channel]
    version: ClassVar[str]
    resolution: ClassVar[str] = FULL
    praise: ClassVar[str]
    """The reason of a vote for Correct."""

    @abstractmethod
    def problems(self, task: AnnotatedTask, episode: Episode, screens: ScreenReader) -> list[str]:
        """Why the episode does not do what the task asks, in words; empty if it does.

        Raises:
            JudgeFailure: a screen is missing.
        """

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote on a finished episode.

        Where a trajectory is correct, all its steps that did not help are redundant. Where it is not, the harmful steps
        are errors, and the last step is the error when none was harmful: it ended what was not done.

        Raises:
            JudgeFailure: a screen is missing, or the annotations of the task are not known.
        """
        problems = self.problems(annotated_task(episode.query), episode, screens)
        harmful = [step.index for step in steps if step.label is StepLabel.HARMFUL]
        neutral = [step.index for step in steps if step.label is StepLabel.NEUTRAL]
        if not problems:
            return vote_of(self, True, self.praise, tuple(sorted(harmful + neutral)))
        last = steps[-1].index if steps else None
        return vote_of(self, False, "; ".join(problems), tuple(neutral), harmful[0] if harmful else last)
