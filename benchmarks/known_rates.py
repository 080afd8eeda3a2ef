"""Critics with known error rates, so that the result of voting can be computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.voting import PASSED, Noise, StepResult, Vote, VotingCase, vote_of


class SilentStepCritic:
    """Labels every step as neutral."""

    version = "silent"

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        return [StepResult(step.index, "", "", StepLabel.NEUTRAL) for step in episode.steps]


@dataclass(frozen=True, slots=True)
class RatedCritic:
    """Votes as the environment's own check decided, with errors."""

    channel: Channel
    resolution: str
    version: str
    noise: Noise

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        truth = vote_of(self, episode.trajectory.reward == PASSED, "the environment's own check")
        return self.noise.on(truth, VotingCase(episode, screens, steps), draw)


@dataclass(frozen=True, slots=True)
class Rates:
    """The error rates of a critic, whose votes err independently."""

    false_positive: float
    false_negative: float

    def critic(self, channel: Channel, resolution: str = "full", version: str = "truth", seed: int = 0) -> RatedCritic:
        return RatedCritic(channel, resolution, version, Noise(self.false_positive, self.false_negative, seed))


def repeated(episodes: Sequence[Episode], count: int) -> Iterator[Episode]:
    """Trajectories with these outcomes, each with its own id, from which its noise is drawn."""
    for number, episode in enumerate(islice(cycle(episodes), count)):
        name = content_id("copy", number, episode.trajectory.trajectory_id)
        trajectory = episode.trajectory.model_copy(update={"trajectory_id": name})
        yield episode.model_copy(update={"trajectory": trajectory})
