"""Critics with known error rates, so that the result of voting can be computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.voting import PASSED, StepResult, Vote, VotingCase, vote_of


class SilentStepCritic:
    """Labels every step as neutral."""

    version = "silent"

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        return [StepResult(step.index, "", "", StepLabel.NEUTRAL) for step in episode.steps]


class Noise(NamedTuple):
    """Flips votes at random, independently for each trajectory, critic, vote and seed."""

    false_positive: float
    """Probability that Incorrect becomes Correct."""
    false_negative: float
    """Probability that Correct becomes Incorrect."""
    seed: int

    def on(self, vote: Vote, case: VotingCase, draw: int) -> Vote:
        trajectory_id = case.episode.trajectory.trajectory_id
        digest = content_id("noise", self.seed, vote.channel, vote.resolution, vote.made_by, trajectory_id, draw)
        if Random(int(digest, 16)).random() >= (self.false_negative if vote.correct else self.false_positive):
            return vote
        error = case.steps[-1].index if vote.correct and case.steps else None
        return vote._replace(correct=not vote.correct, reason="noise", first_error_step=error)


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
