"""The base of the specs of recipes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, NamedTuple

from pydantic import Field, PositiveInt

from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.export.formats.base import TrainerFormat
from trajmill.stages.models.spec import ModelSpec
from trajmill.stages.parts import PartGroup

Progress = Callable[[int, int], None]
"""Called before the first update and after each with the number of updates done and to do."""


class ParentPolicy(NamedTuple):
    folder: Path
    adapter: Path | None = None
    """Folder of its LoRA adapter, which the training continues; None without one."""
    family: Family = ANY
    frozen: Mapping[str, ModelSpec] = {}
    """The frozen models that give the reward, by role; a recipe whose rows have their rewards needs none."""


class TrainingReport(NamedTuple):
    rows: int
    skipped: int
    updates: int
    loss: float
    """Mean loss of the last tenth of the updates, 0 without updates."""
    version: str = ""
    """The new policy version, a hash of its sources or of its weights; empty if nothing was saved."""


LearningRate = Annotated[float, Field(ge=1e-9, le=1.0)]


class RecipeSpec(Spec):
    kind: str
    """Name of the recipe."""

    model: Annotated[str, OPERATIONAL] = ""
    """Only in `[recipes.NAME]`: the NAME of the `[endpoints.NAME]` whose weights `trajmill train --recipe` trains."""
    learns_from: ClassVar[Literal["examples", "rl_steps"]] = "examples"
    """The table whose rows it trains on."""
    role_names: ClassVar[tuple[str, ...]] = ()
    """The fields that name the endpoints of frozen models, which give the reward. They are operational, because the
    name of an endpoint decides nothing; its model is part of a run's identity."""
    keep_per_query: PositiveInt = 2
    """Largest number of trajectories to keep per query, shortest first."""
    keep_per_reply: PositiveInt | None = None
    """Largest number of steps with the same reply; no limit by default. Some replies, e.g. that the task is done, end
    every trajectory and would otherwise be a large part of the training data."""
    reweight: bool = True
    """Whether queries that rarely succeed get more attempts and weigh more in training: from 1.15 (never) to 0.15
    (always)."""

    def roles(self) -> dict[str, str]:
        """By role, the name of the endpoint of its frozen model."""
        return {role: getattr(self, role) for role in self.role_names}

    @property
    def learns_kind(self) -> str:
        """The derived kind whose rows it trains on, made before each release; empty for judged attempts."""
        return ""

    @property
    def takes(self) -> TrainerFormat | None:
        """The export format that it needs, in the policy's family; None for the folder of the release itself."""
        return None

    @abstractmethod
    def trains(self, folder: Path) -> bool:
        """Whether the folder has a policy that this recipe can train."""

    @abstractmethod
    def train(
        self, parent: ParentPolicy, release: Path, seed: int, folder: Path, progress: Progress | None = None
    ) -> TrainingReport:
        """Train a policy on a release and save the new version; equal arguments give equal weights on a CPU.

        `release` is the folder of the release, or of its export in the format `takes`; `seed` decides all that is
        random. An interrupted training continues with its files in `folder`. Raises BadInputError if `parent` or the
        release is unusable for this recipe, TrainingFailedError if the training started and made no policy.
        """


RECIPES: Final = PartGroup(
    "trajmill.recipes",
    "training recipe",
    {
        "embedded-sft": "trajmill.stages.training.embedded.spec:EmbeddedSftSpec",
        "embedded-rl": "trajmill.stages.training.embedded.spec:EmbeddedRlSpec",
        "trl-sft": "trajmill.stages.training.hugging_face.spec:TrlSftSpec",
        "trpo": "trajmill.stages.training.hugging_face.spec:TrpoSpec",
        "ces-stage1": "trajmill.stages.training.hugging_face.spec:CesStage1Spec",
        "ces-stage2": "trajmill.stages.training.hugging_face.spec:CesStage2Spec",
        "coda-specialist": "trajmill.stages.training.hugging_face.spec:CodaSpecialistSpec",
        "command": "trajmill.stages.training.command:CommandSpec",
    },
    {
        kind: f"trajmill.stages.training:presets/{kind}.toml"
        for kind in ("rft", "coda-generalist", "online-rejection", "role-rejection", "judge-sft", "prm")
    },
)
