"""Writes two files into the folder of a policy version: its sources, and the figures of its training."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from trajmill.schemas.record import content_id
from trajmill.schemas.spec import content_of
from trajmill.stages.training.spec import ParentPolicy, RecipeSpec, TrainingReport

MADE_FROM: Final = "made_from.json"
METRICS: Final = "metrics.json"
_WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth"})


def made_from(recipe: RecipeSpec, parent: ParentPolicy, files: Sequence[Path], seed: int) -> dict[str, Any]:
    """Return everything that decides the weights of a policy version: files, those it reads included, by content."""
    frozen = {role: model.identity() for role, model in parent.frozen.items()}
    return {
        **({"frozen": frozen} if frozen else {}),
        "kind": recipe.kind,
        "recipe": recipe.identity(),
        "model": content_of(parent.folder),
        "adapter": None if parent.adapter is None else content_of(parent.adapter),
        "family": parent.family.name,
        "max_pixels": parent.family.budget.max_pixels,
        "rows": [content_of(file) for file in files],
        "seed": seed,
    }


def version_of(source: Mapping[str, Any]) -> str:
    return f"{source['kind']}-{content_id(source)[:16]}"


def begin(folder: Path, source: Mapping[str, Any], left: Path) -> None:
    """Note the sources of a training in its folder, without what another training has left there."""
    with suppress(OSError, ValueError):
        if json.loads((folder / MADE_FROM).read_text()) == source:
            return
    shutil.rmtree(left, ignore_errors=True)
    write_source(folder, source)


def write_source(folder: Path, source: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MADE_FROM).write_text(json.dumps(source, indent=1) + "\n")


def write_metrics(folder: Path, report: TrainingReport, history: Sequence[Mapping[str, float]]) -> None:
    metrics = {**report._asdict(), "history": history}
    (folder / METRICS).write_text(json.dumps(metrics, indent=1) + "\n")


def tail_mean(losses: Sequence[float]) -> float:
    tail = losses[-max(1, len(losses) // 10) :]
    return sum(tail) / len(tail) if tail else 0.0


def copy_settings(parent: Path, folder: Path, keep: bool = False) -> None:
    """Copy a model's other files (vocabulary, chat template) beside new weights; `keep` overwrites none."""
    for file in parent.iterdir():
        weights = file.suffix in _WEIGHTS or file.name.endswith(".index.json")
        if not file.is_file() or weights or file.name in {MADE_FROM, METRICS}:
            continue
        if not (keep and (folder / file.name).exists()):
            shutil.copyfile(file, folder / file.name)
