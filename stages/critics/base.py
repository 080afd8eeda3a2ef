"""The protocols of the critics and what they answer (paper 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel, StepLabel

SUMMARY_WORDS = 30
"""Longest summary of a step, in words."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step critic says of one step."""

    index: int
    analysis: str
    summary: str
    """At most `SUMMARY_WORDS` words."""
    label: StepLabel


class Vote(NamedTuple):
    """What one channel says of one trajectory: CODA's three signals (its 3.4) and the reason."""

    correct: bool
    reason: str
    redundant_steps: tuple[int, ...]
    first_error_step: int | None


class StepCritic(Protocol):
    """Judges every action of a trajectory by the screens before and after it."""

    @property
    def version(self) -> str:
        """Identifies prompt and model; stands on every verdict."""
        ...

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step of an episode, in order.

        Raises:
            JudgeFailure: no usable verdict.
        """
        ...


class TrajectoryCritic(Protocol):
    """One channel: decides whether a trajectory did what its query asks."""

    @property
    def channel(self) -> Channel:
        """Which channel it is."""
        ...

    @property
    def resolution(self) -> str:
        """`full`, or the scale of the screenshots it looks at."""
        ...

    @property
    def version(self) -> str:
        """Identifies prompt and model; stands on every verdict."""
        ...

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Cast one vote on a finished episode.

        Args:
            episode: the episode.
            screens: where its screens are read.
            steps: what the step critic said of it.
            draw: seed of the vote. Equal numbers get equal votes; a critic that samples draws anew for every number,
                one that does not ignores it. A vote that failed is asked again under a number not used before.

        Raises:
            JudgeFailure: no usable vote; never to be read as a verdict.
            ModelFailure: the model behind it did not answer; neither is this a verdict.
        """
        ...


def at_most_words(text: str, words: int = SUMMARY_WORDS) -> str:
    """The text cut to a number of words, with an ellipsis where something is missing."""
    parts = text.split()
    return text if len(parts) <= words else " ".join(parts[: words - 1]) + " ..."
