"""The data that the embedded policy learns from, as tensors."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from trajmill.stages.models.embedded.network.batch import Bags, Batch
from trajmill.stages.training.embedded.lesson_apps import App


@dataclass(frozen=True, slots=True)
class Lessons:
    """Situations with the action to learn in each."""

    situations: Batch
    labels: Tensor
    """(rows,) index of the candidate that was chosen."""
    weights: Tensor
    """(rows,) loss weight; in RL it is the advantage times the step weight."""
    bags: Bags
    """The words of all situations."""
    apps: tuple[App, ...]
    """The apps on the launchers of all situations."""
    left_apps: Tensor
    """(rows,) code of the icon of the app that a detour leaves; 0 for every other lesson."""
    detours: int
    """Number of lessons, the last ones, that are detours and no row of the release."""
    skipped: int
    """Rows whose action is none of the candidates."""

    def __len__(self) -> int:
        return len(self.labels)
