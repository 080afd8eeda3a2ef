"""What the specs of all recipes have in common."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import NonNegativeInt, PositiveInt

from trajmill.schemas.spec import Spec
from trajmill.stages.training.base import Progress, TrainingReport


class RecipeSpec(Spec):
    """How the policy is trained on a release."""

    learns_from: ClassVar[Literal["examples", "rl_steps"]] = "examples"
    """The table whose rows of the release it takes."""
    keep_per_query: PositiveInt = 2
    """Most trajectories that are kept for one query, the shortest first."""
    reweight: bool = True
    """Whether every query weighs the same, however many trajectories it has."""
    frozen_explorer_updates: NonNegativeInt = 0
    """For a control run: all rounds collect with the untrained policy, and the last trains once with this many updates.
    0 trains in every round."""

    @abstractmethod
    def train(
        self, parent: Path, release: Path, seed: int, folder: Path, progress: Progress | None = None
    ) -> TrainingReport:
        """Train a policy on a release and save the new version; equal arguments give equal weights.

        Args:
            parent: folder of the policy to begin with.
            release: folder of the release.
            seed: decides the order of the rows and everything else that is random.
            folder: where the new version is saved.
            progress: is called after each update.

        Raises:
            BadInputError: `parent` holds no policy that this recipe can train, or the release is not complete.
        """
