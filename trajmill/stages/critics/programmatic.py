"""The programmatic channel: it repeats the environment's own check."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import StepResult, Vote, vote_of

PASSED = 1.0
"""Reward of a finished task."""


class ProgrammaticChannel:
    """Votes Correct if the environment's own check passed."""

    channel = Channel.PROGRAMMATIC
    resolution = "full"
    version = "programmatic/1"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote by the programmatic reward.

        Raises:
            JudgeFailure: the environment has no check.
        """
        reward = episode.trajectory.reward
        if reward is None:
            raise JudgeFailure(f"{episode.trajectory.trajectory_id}: the environment has no programmatic check")
        return vote_of(self, reward >= PASSED, f"the environment's check gave {reward:g}")
