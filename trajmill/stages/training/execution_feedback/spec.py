"""The recipes that train a role by execution feedback, with the papers' settings as defaults."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from trajmill.schemas.spec import OPERATIONAL
from trajmill.stages.export.formats.base import TrainerFormat
from trajmill.stages.training.hugging_face.spec import ClippedRecipe


class FeedbackRecipe(ClippedRecipe):
    """GRPO on what a role says, rewarded by the action that a frozen Executor takes on it."""

    trainer: ClassVar[str] = "trajmill.stages.training.execution_feedback.train:train_by_feedback"
    role_names: ClassVar[tuple[str, ...]] = ("executor",)
    role: ClassVar[str]
    """The role that is trained, as the agent names it."""
    pool: ClassVar[str]
    """The derived kind whose rows it trains on."""

    executor: Annotated[str, Field(min_length=1), OPERATIONAL]
    """The frozen Executor: the NAME of an `[endpoints.NAME]` whose model reads images."""
    batch: PositiveInt = 32
    """Steps in one update, of all devices together; each has `samples` replies."""
    samples: Annotated[int, Field(ge=2)] = 4
    """Replies that are sampled for one step and compared with each other."""
    max_tokens: PositiveInt = 256
    """Longest reply that is sampled, in tokens."""
    temperature: PositiveFloat = 1.0
    """Sampling temperature of the replies."""
    divergence: NonNegativeFloat = 0.001
    """Beta, the weight of the divergence from the policy before the first update; 0 without it. The papers do not say
    how large theirs is."""
    executor_tokens: PositiveInt = 512
    """Longest reply of the Executor in tokens."""

    @property
    def learns_kind(self) -> str:
        return type(self).pool

    @property
    def takes(self) -> TrainerFormat:
        """Prompts of roles with the action that their words must lead to."""
        from trajmill.stages.export.formats.trainers import FeedbackFormat

        return FeedbackFormat()


class CesStage1Spec(FeedbackRecipe):
    """Stage 1 of CES: the Coordinator, given the ground-truth state, by the actions of the frozen Executor (A.1).

    It trains on the Coordinator's rows of the kind `ces`.
    """

    pool: ClassVar[str] = "ces"
    role: ClassVar[str] = "coordinator"
    kind: Literal["ces-stage1"] = "ces-stage1"
    """Execution feedback for the Coordinator of CES."""
    epochs: PositiveFloat = 10.0
    """Passes over the release."""


class CesStage2Spec(FeedbackRecipe):
    """Stage 2 of CES: the State Tracker, by what the frozen Coordinator and Executor make of its summary (A.1).

    It trains on the State Tracker's rows of the kind `ces`.
    """

    pool: ClassVar[str] = "ces"
    role_names: ClassVar[tuple[str, ...]] = ("executor", "coordinator")
    role: ClassVar[str] = "state_tracker"
    kind: Literal["ces-stage2"] = "ces-stage2"
    """Execution feedback for the State Tracker of CES."""
    coordinator: Annotated[str, Field(min_length=1), OPERATIONAL]
    """The frozen Coordinator of stage 1: the NAME of an `[endpoints.NAME]` whose model reads images."""
    epochs: PositiveFloat = 5.0
    """Passes over the release."""
    max_tokens: PositiveInt = 512
    """Longest reply that is sampled, in tokens."""
    coordinator_tokens: PositiveInt = 1024
    """Longest reply of the frozen Coordinator in tokens."""


class CodaSpecialistSpec(FeedbackRecipe):
    """A Planner for one app, by decoupled RL with a frozen Executor (CODA 3.3.1); the paper gives no settings.

    It trains on the kind `coda`.
    """

    pool: ClassVar[str] = "coda"
    role: ClassVar[str] = "planner"
    kind: Literal["coda-specialist"] = "coda-specialist"
    """Execution feedback for the Planner of CODA."""
    app: str = ""
    """The app whose screens it specialises in; all apps if empty."""
    samples: Annotated[int, Field(ge=2)] = 8
    """Plans that are sampled for one step and compared with each other."""
