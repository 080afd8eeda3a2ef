"""The spec of planning data."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import PositiveInt

from trajmill.stages.derive.kind_spec import KindSpec, Tools

if TYPE_CHECKING:
    from trajmill.stages.derive.base import Deriver


class PlanningSpec(KindSpec):
    """Manuals of tasks, from the correct trajectories of a round: `trajmill derive planning`."""

    name: ClassVar[str] = "planning"
    once_per_task: ClassVar[bool] = True
    roles: ClassVar[tuple[str, ...]] = ("writer",)
    prompts: ClassVar[tuple[str, ...]] = ("manual",)

    successes: PositiveInt = 3
    """Most successes of a task that a manual is written from: those without guidance first, the shortest first."""
    least_steps: PositiveInt = 2
    """A manual with fewer steps is refused."""

    def open(self, tools: Tools) -> Deriver:
        """What derives manuals."""
        from trajmill.stages.derive.planning.deriver import Planning

        return Planning(self, tools)
