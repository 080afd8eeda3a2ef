"""The decision on a trajectory: Correct only if every channel says so (paper 6.3, eq. 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from schemas.episode import Episode
from schemas.observation import ScreenReader
from schemas.record import Origin
from schemas.verdict import Judgement, TrajectoryVerdict
from stages.critics.base import StepCritic, StepResult, TrajectoryCritic, Vote


class Judge(NamedTuple):
    """The critics that judge together."""

    step_critic: StepCritic
    channels: tuple[TrajectoryCritic, ...]
    """At least one; two, text and multimodal, in the paper."""

    @property
    def rule(self) -> str:
        """How the votes are combined, e.g. `consensus(text,multimodal)`."""
        return f"consensus({','.join(critic.channel for critic in self.channels)})"

    @property
    def version(self) -> str:
        """The versions of all critics, step critic first."""
        return "+".join([self.step_critic.version, *(critic.version for critic in self.channels)])


class Decision(NamedTuple):
    """The votes of all channels on one trajectory, and what follows from them."""

    verdicts: tuple[TrajectoryVerdict, ...]
    judgement: Judgement


async def decide(
    episode: Episode, steps: Sequence[StepResult], judge: Judge, screens: ScreenReader, origin: Origin
) -> Decision:
    """Ask every channel and combine the votes.

    Every channel is asked whatever the others said, so that each can be calibrated.

    Raises:
        schemas.errors.JudgeFailure: a channel gave no usable vote. There is then no decision: a missing vote neither
            counts as one nor lowers the number that is needed.
    """
    votes = [await critic.judge(episode, screens, steps) for critic in judge.channels]
    verdicts = tuple(
        _verdict(episode, critic, vote, origin) for critic, vote in zip(judge.channels, votes, strict=True)
    )
    correct = all(vote.correct for vote in votes)
    errors = [vote.first_error_step for vote in votes if vote.first_error_step is not None]
    judgement = Judgement(
        trajectory_id=episode.trajectory.trajectory_id,
        correct=correct,
        rule=judge.rule,
        agreed=len({vote.correct for vote in votes}) == 1,
        redundant_steps=tuple(sorted({index for vote in votes for index in vote.redundant_steps})),
        first_error_step=min(errors) if errors and not correct else None,
        **origin.common(made_by=judge.version),
    )
    return Decision(verdicts, judgement)


def _verdict(episode: Episode, critic: TrajectoryCritic, vote: Vote, origin: Origin) -> TrajectoryVerdict:
    return TrajectoryVerdict(
        trajectory_id=episode.trajectory.trajectory_id,
        channel=critic.channel,
        resolution=critic.resolution,
        vote=0,
        correct=vote.correct,
        reason=vote.reason,
        redundant_steps=vote.redundant_steps,
        first_error_step=vote.first_error_step,
        **origin.common(made_by=critic.version),
    )
