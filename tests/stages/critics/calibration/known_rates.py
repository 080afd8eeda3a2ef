"""Critics that err at known rates: what voting on their votes gives can then be computed."""

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
from trajmill.stages.critics.calibration.noisy import NoisyChannel

PASSED = 1.0
"""Programmatic reward of a task that is done."""


class SilentStepCritic:
    """Has nothing to say of any step."""

    version = "silent"

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Neutral, step by step."""
        return [StepResult(step.index, "", "", StepLabel.NEUTRAL) for step in episode.steps]


@dataclass(frozen=True, slots=True)
class TruthCritic:
    """Votes what the environment's own check found, in the name of a channel."""

    channel: Channel
    resolution: str = "full"
    version: str = "truth"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """The truth.

        Raises:
            JudgeFailure: the environment has no check.
        """
        if episode.trajectory.reward is None:
            raise JudgeFailure(f"{episode.trajectory.trajectory_id}: the environment has no programmatic check")
        return vote_of(self, episode.trajectory.reward >= PASSED, "the environment's own check")


@dataclass(frozen=True, slots=True)
class Rates:
    """How often a critic is wrong, independently in each vote."""

    false_positive: float
    false_negative: float

    def critic(self, channel: Channel, resolution: str = "full", version: str = "truth", seed: int = 0) -> NoisyChannel:
        """A critic that is wrong that often."""
        truth = TruthCritic(channel, resolution, version)
        return NoisyChannel(truth, self.false_positive, self.false_negative, seed)


def repeated(episodes: Sequence[Episode], count: int) -> Iterator[Episode]:
    """So many trajectories with these outcomes, each with an id of its own, so that noise on each is its own."""
    for number, episode in enumerate(islice(cycle(episodes), count)):
        name = content_id("copy", number, episode.trajectory.trajectory_id)
        trajectory = episode.trajectory.model_copy(update={"trajectory_id": name})
        yield episode.model_copy(update={"trajectory": trajectory})
