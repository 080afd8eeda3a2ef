"""The record that every recipe returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Progress = Callable[[int, int], None]
"""Called after each update with the number of updates done and to do."""


class TrainingReport(NamedTuple):
    """The result of a training."""

    rows: int
    skipped: int
    """Rows of the release that could not be learned from."""
    updates: int
    loss: float
    """Mean loss of the last tenth of the updates, 0 without updates."""
    version: str = ""
    """The new policy version; empty where nothing was saved."""
