"""The description of a training for the process that does it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from trajmill.schemas.dialects.families import family_named
from trajmill.stages.models.kinds import MODELS
from trajmill.stages.models.spec import ModelSpec
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
    variables: Mapping[str, str] = MappingProxyType({})
    """Environment variables, from which models of servers read their keys; they are never written down."""

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
                "frozen": {
                    role: {**model.model_dump(mode="json"), "kind": model.kind} for role, model in parent.frozen.items()
                },
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
        frozen = {role: _model_spec(model) for role, model in read["frozen"].items()}
        parent = ParentPolicy(Path(read["model"]), adapter, family, frozen)
        return cls(recipe, parent, Path(read["release"]), read["seed"], Path(read["folder"]))


def _model_spec(values: Mapping[str, Any]) -> ModelSpec:
    spec = MODELS.spec_class(values["kind"]).model_validate(values)
    assert isinstance(spec, ModelSpec)
    return spec
