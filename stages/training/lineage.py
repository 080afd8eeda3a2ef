"""What a policy version was made from, and what its training measured: two files in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trajmill.schemas.record import content_id
from trajmill.schemas.spec import content_of
from trajmill.stages.training.base import ParentPolicy, TrainingReport
from trajmill.stages.training.spec import RecipeSpec

MADE_FROM: Final = "made_from.json"
METRICS: Final = "metrics.json"


def made_from(recipe: RecipeSpec, parent: ParentPolicy, files: Sequence[Path], seed: int) -> dict[str, Any]:
    """All that decides the weights, files and folders by their contents.

    Args:
        recipe: with what it is trained.
        parent: the policy that the training begins with.
        files: those of the release that are learned from.
        seed: of the training.
    """
    return {
        "kind": kind_of(recipe),
        "recipe": recipe.identity(),
        "model": content_of(parent.folder),
        "adapter": None if parent.adapter is None else content_of(parent.adapter),
        "family": parent.family.name,
        "max_pixels": parent.family.budget.max_pixels,
        "rows": [content_of(file) for file in files],
        "seed": seed,
    }


def version_of(source: Mapping[str, Any]) -> str:
    """The version of a policy that is made from this."""
    return f"{source['kind']}-{content_id(source)[:16]}"


def kind_of(recipe: RecipeSpec) -> str:
    """The kind by which a configuration names a recipe."""
    return str(type(recipe).model_fields["kind"].default)


def is_begun(folder: Path, source: Mapping[str, Any]) -> bool:
    """Whether a folder holds what a training from this very source has begun."""
    record = folder / MADE_FROM
    return record.is_file() and json.loads(record.read_text()) == source


def write_source(folder: Path, source: Mapping[str, Any]) -> None:
    """Say in a folder what its weights are made from; makes the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MADE_FROM).write_text(json.dumps(source, indent=1) + "\n")


def write_metrics(folder: Path, report: TrainingReport, history: Sequence[Mapping[str, float]]) -> None:
    """Say in a folder how its training went."""
    metrics = {**report._asdict(), "history": history}
    (folder / METRICS).write_text(json.dumps(metrics, indent=1) + "\n")


def tail_mean(losses: Sequence[float]) -> float:
    """The mean of the last tenth, 0 without any."""
    tail = losses[-max(1, len(losses) // 10) :]
    return sum(tail) / len(tail) if tail else 0.0
