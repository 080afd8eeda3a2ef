"""How far a pathway is done (the Workflow Manager of paper NaturalGAIA, 4.1).

It travels in the role outputs of the decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.light_manus.pathway import PathwayTask, read_pathway
from trajmill.stages.agents.roles.sections import one_line


class Workflow(NamedTuple):
    """A pathway, and the task that is being done."""

    tasks: tuple[PathwayTask, ...]
    device: Platform
    """The device in use."""
    current: int = 0
    """Index of the task that is being done."""
    begun: int = 0
    """Index of the first step of that task."""
    answers: tuple[tuple[str, str], ...] = ()
    """The answers so far, by name."""

    @property
    def task(self) -> PathwayTask:
        """The task that is being done."""
        return self.tasks[self.current]

    @property
    def instruction(self) -> str:
        """Its instruction with the answers that it needs."""
        return self.task.filled(dict(self.answers))

    @property
    def at_last(self) -> bool:
        """Whether no task comes after it."""
        return self.current == len(self.tasks) - 1

    def done(self, answer: str, step: int) -> Workflow:
        """The workflow after the task: the next one begins at `step`."""
        answers = (*self.answers, (self.task.answer, one_line(answer))) if self.task.answer else self.answers
        return self._replace(current=self.current + 1, begun=step, answers=answers)

    def outputs(self) -> dict[str, str]:
        """The workflow as role outputs of a step; what is empty is left out."""
        texts = {
            "atomic_tasks": "\n".join(task.line() for task in self.tasks),
            "device": str(self.device),
            "current": str(self.current),
            "begun": str(self.begun),
            "answers": "\n".join(f"{name} = {text}" for name, text in self.answers),
            "instruction": self.instruction,
        }
        return {name: text for name, text in texts.items() if text}


def read_workflow(outputs: Mapping[str, str]) -> Workflow:
    """The workflow in the role outputs of a step."""
    answers = [line.partition(" = ") for line in outputs.get("answers", "").splitlines()]
    return Workflow(
        read_pathway(outputs["atomic_tasks"].splitlines(), tuple(Platform)),
        Platform(outputs["device"]),
        int(outputs["current"]),
        int(outputs["begun"]),
        tuple((name, text) for name, _, text in answers),
    )
