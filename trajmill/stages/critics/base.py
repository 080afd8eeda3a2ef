"""The protocols of critics, and the records that they return (paper 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure, ModelFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel, StepLabel

SUMMARY_WORDS = 30
PASSED = 1.0
"""The programmatic reward of a task that was done."""


class Ask(StrEnum):
    """How many votes are cast; the decision is the same."""

    NEEDED = "needed"
    """Stop when the decision is certain: no channel follows one that says Incorrect."""
    CHANNELS = "channels"
    """Every channel votes, for its calibration; stop within a channel when its result is certain."""
    ALL = "all"
    """Every vote of every pass, for the calibration of each ingredient."""


@dataclass(frozen=True, slots=True)
class StepResult:
    index: int
    analysis: str
    summary: str
    """At most `SUMMARY_WORDS` words."""
    label: StepLabel


class Vote(NamedTuple):
    """One critic's vote on one trajectory, with CODA's two other signals (its 3.4) and the reason."""

    channel: Channel
    resolution: str
    made_by: str
    correct: bool
    reason: str = ""
    redundant_steps: tuple[int, ...] = ()
    first_error_step: int | None = None
    number: int = 0
    """Its number among the votes of its channel; `voting` sets it."""


VoteFailure = JudgeFailure | ModelFailure


class StepCritic(Protocol):
    """Judges every action of a trajectory by the screens before and after it."""

    @property
    def version(self) -> str:
        """Identifies prompt and model; stored on every verdict."""

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step of an episode, in order. Raises JudgeFailure if no usable verdict."""


class TrajectoryCritic(Protocol):
    """One channel: decides whether a trajectory did what its query asks."""

    @property
    def channel(self) -> Channel: ...

    @property
    def resolution(self) -> str:
        """`full`, or the scale of the screenshots that it reads."""

    @property
    def version(self) -> str:
        """Identifies prompt and model; stored on every vote."""

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Cast one vote on a finished episode.

        Equal draws give equal votes; a critic that does not sample ignores the draw.

        Raises:
            JudgeFailure: no usable vote, which is no verdict; it is repeated with a new draw.
            ModelFailure: its model did not answer; this is no verdict either.
        """


@runtime_checkable
class SeveralVotesCritic(Protocol):
    """A `TrajectoryCritic` that can cast several votes for about the cost of one."""

    @property
    def votes_together(self) -> bool: ...

    async def judge_together(
        self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draws: Sequence[int]
    ) -> list[Vote | VoteFailure]:
        """Cast a vote for each draw, or give its failure. Raises JudgeFailure or ModelFailure if there is no vote."""


def vote_of(
    critic: TrajectoryCritic,
    correct: bool,
    reason: str,
    redundant_steps: tuple[int, ...] = (),
    first_error_step: int | None = None,
) -> Vote:
    return Vote(critic.channel, critic.resolution, critic.version, correct, reason, redundant_steps, first_error_step)


def at_most_words(text: str, words: int = SUMMARY_WORDS) -> str:
    """Cut a text to a number of words; an ellipsis marks the cut."""
    parts = text.split()
    return text if len(parts) <= words else " ".join(parts[: words - 1]) + " ..."
