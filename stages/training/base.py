"""The records that every recipe takes and returns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.dialects.families import ANY, Family

Progress = Callable[[int, int], None]
"""Called after each update with the number of updates done and to do."""


class ParentPolicy(NamedTuple):
    """The policy that a training begins with."""

    folder: Path
    """Of its weights: the embedded policy's, or a model's in Hugging Face's layout."""
    adapter: Path | None = None
    """Folder of the LoRA adapter that it is served with, None without one; training goes on with it."""
    family: Family = ANY
    """How it is spoken to and read, with the pixel budget that it is served with."""


class TrainingReport(NamedTuple):
    """The result of a training."""

    rows: int
    skipped: int
    """Rows of the release that could not be learned from."""
    updates: int
    loss: float
    """Mean loss of the last tenth of the updates, 0 without updates."""
    version: str = ""
    """The new policy version, a hash of what it was made from or of its weights; empty where nothing was saved."""
