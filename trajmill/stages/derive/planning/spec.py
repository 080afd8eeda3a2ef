"""The spec of planning data."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import NonNegativeInt, PositiveInt

from trajmill.schemas.errors import BadInputError
from trajmill.stages.derive.kind_spec import KindSpec, Tools

if TYPE_CHECKING:
    from trajmill.stages.derive.base import Deriver


class PlanningSpec(KindSpec):
    """Manuals of tasks, from the correct trajectories of a round: `trajmill derive planning`."""

    name: ClassVar[str] = "planning"
    version: ClassVar[str] = "3"
    once_per_task: ClassVar[bool] = True
    roles: ClassVar[tuple[str, ...]] = ("writer",)
    prompts: ClassVar[tuple[str, ...]] = ("manual", "plan")

    successes: PositiveInt = 3
    """Most successes of a task that a manual is written from: of other queries first, then those without guidance, then
    the shortest. Without a writer they are compared, and one that holds for other values, too, is told."""
    distil: bool = False
    """Whether `derive.writer` also plans the tasks that were attempted in a round without a success, from the task
    alone; such a plan is of the sort `distilled` until a trial shows that it helps."""
    trials: NonNegativeInt = 8
    """Training queries of its task at which the policy of its round tries a manual, each with and without it at the
    same seed. A manual that does not raise success is refused. 0 tries none, and compares stored guided attempts."""
    least_steps: PositiveInt = 2
    """A manual with fewer steps is refused."""

    def refuse_without(self, models: dict[str, str], embedded: str) -> None:
        """Check that a writer is there where plans are distilled from it; raises BadInputError otherwise."""
        super().refuse_without(models, embedded)
        if self.distil and models["writer"] == embedded:
            raise BadInputError(
                "derive.planning.distil asks a model: set derive.writer to the NAME of an [endpoints.NAME]"
            )

    def open(self, tools: Tools) -> Deriver:
        """What derives manuals."""
        from trajmill.stages.derive.planning.deriver import Planning

        return Planning(self, tools)
