"""Critics with known error rates, so that the result of voting can be computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.base import StepResult, Vote, vote_of
from trajmill.stages.critics.construction import NoisyChannel

PASSED = 1.0
"""Programmatic reward of a task that is done."""


class SilentStepCritic:
    """Labels every step as neutral."""

    version = "silent"

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Label every step as neutral."""
        return [StepResult(step.index, "", "", StepLabel.NEUTRAL) for step in episode.steps]


@dataclass(frozen=True, slots=True)
class TruthCritic:
    """Votes as the environment's own check decided, for one channel."""

    channel: Channel
    resolution: str = "full"
    version: str = "truth"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote as the environment's own check decided.

        Raises:
            JudgeFailure: the environment has no check.
        """
        if episode.trajectory.reward is None:
            raise JudgeFailure(f"{episode.trajectory.trajectory_id}: the environment has no programmatic check")
        return vote_of(self, episode.trajectory.reward >= PASSED, "the environment's own check")


@dataclass(frozen=True, slots=True)
class Rates:
    """The error rates of a critic, whose votes err independently."""

    false_positive: float
    false_negative: float

    def critic(self, channel: Channel, resolution: str = "full", version: str = "truth", seed: int = 0) -> NoisyChannel:
        """A critic with these error rates."""
        truth = TruthCritic(channel, resolution, version)
        return NoisyChannel(truth, self.false_positive, self.false_negative, seed)


def repeated(episodes: Sequence[Episode], count: int) -> Iterator[Episode]:
    """Trajectories with these outcomes, each with its own id, from which its noise is drawn."""
    for number, episode in enumerate(islice(cycle(episodes), count)):
        name = content_id("copy", number, episode.trajectory.trajectory_id)
        trajectory = episode.trajectory.model_copy(update={"trajectory_id": name})
        yield episode.model_copy(update={"trajectory": trajectory})
