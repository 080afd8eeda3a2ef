"""The description of a training for the process that does it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple

from trajmill.schemas.dialects.families import family_named
from trajmill.stages.training.base import ParentPolicy
from trajmill.stages.training.hugging_face.spec import HuggingFaceRecipe
from trajmill.stages.training.kinds import RECIPES
from trajmill.stages.training.lineage import kind_of

PROGRESS: Final = "trajmill update "
"""Start of a line in which a process reports its progress: updates done and to do."""


class TrainingJob(NamedTuple):
    """The arguments of `RecipeSpec.train`."""

    recipe: HuggingFaceRecipe
    parent: ParentPolicy
    release: Path
    seed: int
    folder: Path

    def to_json(self) -> str:
        """The job as text."""
        parent = self.parent
        return json.dumps(
            {
                "kind": kind_of(self.recipe),
                "recipe": self.recipe.model_dump(mode="json"),
                "model": str(parent.folder.resolve()),
                "adapter": None if parent.adapter is None else str(parent.adapter.resolve()),
                "family": parent.family.name,
                "max_pixels": parent.family.budget.max_pixels,
                "release": str(self.release.resolve()),
                "seed": self.seed,
                "folder": str(self.folder.resolve()),
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> TrainingJob:
        """The job that `to_json` wrote."""
        read = json.loads(text)
        recipe = RECIPES.spec_class(read["kind"]).model_validate(read["recipe"])
        assert isinstance(recipe, HuggingFaceRecipe)
        adapter = None if read["adapter"] is None else Path(read["adapter"])
        family = family_named(read["family"]).within(read["max_pixels"])
        parent = ParentPolicy(Path(read["model"]), adapter, family)
        return cls(recipe, parent, Path(read["release"]), read["seed"], Path(read["folder"]))
