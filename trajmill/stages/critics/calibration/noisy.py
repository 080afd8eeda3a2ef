"""A channel with random errors, to measure what a noisy judge costs and how much consensus helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import (
    SeveralVotesCritic,
    StepResult,
    TrajectoryCritic,
    Vote,
    VoteFailure,
    vote_of,
    votes_together,
)


@dataclass(frozen=True, slots=True)
class NoisyChannel:
    """Flips votes of another critic at random, independently for each trajectory, critic, vote and seed."""

    inner: TrajectoryCritic
    false_positive: float
    """Probability that Incorrect becomes Correct."""
    false_negative: float
    """Probability that Correct becomes Incorrect."""
    seed: int

    @property
    def channel(self) -> Channel:
        """The channel of the other critic."""
        return self.inner.channel

    @property
    def resolution(self) -> str:
        """The resolution of the other critic."""
        return self.inner.resolution

    @property
    def version(self) -> str:
        """The version of the other critic, and the error rates."""
        return f"{self.inner.version}~fp{self.false_positive:g}/fn{self.false_negative:g}/{self.seed}"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """The vote of the other critic, sometimes flipped.

        Raises:
            JudgeFailure: the critic that is disturbed gave no usable vote.
        """
        return self._with_noise(await self.inner.judge(episode, screens, steps, draw), episode, steps, draw)

    @property
    def votes_together(self) -> bool:
        """Whether the other critic casts several votes together."""
        return votes_together(self.inner)

    async def judge_together(
        self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draws: Sequence[int]
    ) -> list[Vote | VoteFailure]:
        """The votes of the other critic, some of them flipped.

        Raises:
            JudgeFailure: the critic that is disturbed gave no usable vote.
        """
        assert isinstance(self.inner, SeveralVotesCritic)
        votes = await self.inner.judge_together(episode, screens, steps, draws)
        return [
            self._with_noise(vote, episode, steps, draw) if isinstance(vote, Vote) else vote
            for draw, vote in zip(draws, votes, strict=True)
        ]

    def _with_noise(self, vote: Vote, episode: Episode, steps: Sequence[StepResult], draw: int) -> Vote:
        if self._chance(episode.trajectory.trajectory_id, draw) >= (
            self.false_negative if vote.correct else self.false_positive
        ):
            return vote._replace(made_by=self.version)
        error = steps[-1].index if vote.correct and steps else None
        return vote_of(self, not vote.correct, "noise", vote.redundant_steps, error)

    def _chance(self, trajectory_id: str, draw: int) -> float:
        what = (self.seed, self.channel, self.resolution, self.inner.version, trajectory_id, draw)
        return Random(int(content_id("noise", *what), 16)).random()
