"""The protocols of guidance: describers of steps, and writers of hints (paper 6.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.stages.critics.trees.replay import SeenStep

OWN_SUCCESS = "own_success"
"""Guidance from a success of the policy itself."""
REFERENCE_PATH = "reference_path"
"""Guidance from the annotated path of the query."""


class StepOutcome(NamedTuple):
    """The result of a step."""

    text: str
    """One sentence on one line."""
    unmet: str = ""
    """Why the result differs from what the agent expected; empty if it does not, or if this is unknown."""


class StepDescription(NamedTuple):
    """One kept step and its result."""

    step: SeenStep
    outcome: str
    """The result, e.g. `Tapped radio "Large" in "Size": "Size" is now "Large" instead of "Medium"`."""


class StepDescriber(Protocol):
    """Describes the result of a step from its decision and the screens before and after it."""

    @property
    def version(self) -> str:
        """Name and version; stored with every guidance that is written from its descriptions."""
        ...

    async def describe(self, episode: Episode, step: SeenStep, screens: ScreenReader) -> StepOutcome:
        """Return the outcome of one step of an episode.

        Raises:
            JudgeFailure: a screen of the step is not stored.
            ModelFailure: the model behind it did not answer.
        """
        ...


class GuidanceWriter(Protocol):
    """Writes a short text from the outcomes of all steps."""

    @property
    def version(self) -> str:
        """Name and version; stored with every guidance that it writes."""
        ...

    async def synthesise(self, episode: Episode, steps: Sequence[StepDescription]) -> str:
        """Return the essential steps of the episode's query as numbered lines; empty if there are none.

        Raises:
            ModelFailure: the model behind it did not answer.
        """
        ...
