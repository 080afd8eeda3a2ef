"""Critics of known error rates on the simulated world's true outcomes: what voting should do can then be computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from benchmarks.judge_populations import Seen, walk
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.base import StepResult, Vote, vote_of
from trajmill.stages.critics.calibration.noisy import NoisyChannel
from trajmill.stages.environments.simulated.spec import FaultRates
from trajmill.stages.environments.simulated.world import World

PASSED = 1.0
"""Programmatic reward of a task that is done."""
_KINDS = ("", "many_stray_presses", "too_early", "wrong_control")
"""Right walks, and walks with a mistake that often or nearly always spoils them."""


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


def true_outcomes(queries: Sequence[Query], world: World) -> list[Episode]:
    """Every query walked in the simulated world, rightly and in three other ways: episodes with the world's verdict."""
    seen = Seen()
    return [
        episode.model_copy(update={"steps": ()})
        for kind in _KINDS
        for episode in walk(queries, kind, world, seen, FaultRates()).episodes
    ]


def repeated(episodes: Sequence[Episode], count: int) -> Iterator[Episode]:
    """So many trajectories with these outcomes, each with an id of its own, so that noise on each is its own."""
    for number, episode in enumerate(islice(cycle(episodes), count)):
        name = content_id("copy", number, episode.trajectory.trajectory_id)
        trajectory = episode.trajectory.model_copy(update={"trajectory_id": name})
        yield episode.model_copy(update={"trajectory": trajectory})
