"""The records that every recipe takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from trajmill.schemas.dialects.families import ANY, Family
from trajmill.stages.models.spec import ModelSpec

Progress = Callable[[int, int], None]
"""Called before the first update and after each with the number of updates done and to do."""


class ParentPolicy(NamedTuple):
    """The policy that a training begins with."""

    folder: Path
    """Folder of its weights: of the embedded policy, or of a model in Hugging Face's layout."""
    adapter: Path | None = None
    """Folder of its LoRA adapter, which the training continues; None without one."""
    family: Family = ANY
    """Its family, with the pixel budget that it is served with."""
    frozen: Mapping[str, ModelSpec] = MappingProxyType({})
    """The frozen models that give the reward, by role; a recipe whose rows have their rewards needs none."""


class TrainingReport(NamedTuple):
    """The result of a training."""

    rows: int
    skipped: int
    """Rows of the release that gave no training data."""
    updates: int
    loss: float
    """Mean loss of the last tenth of the updates, 0 without updates."""
    version: str = ""
    """The new policy version, a hash of its sources or of its weights; empty if nothing was saved."""
