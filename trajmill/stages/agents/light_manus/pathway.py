"""Atomic tasks that depend on each other's answers, a causal pathway, and the progress on them (NaturalGAIA, 4.1)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.replies import Malformed, one_line, read_atomic_tasks

_LINE = re.compile(r"\[(?P<device>\w+)\]\s*(?P<said>.+?)(?:\s*->\s*\{?(?P<answer>[a-z][a-z0-9_]{0,30})\}?)?\s*")
_NEEDED = re.compile(r"\{([a-z][a-z0-9_]{0,30})\}")


class PathwayTask(NamedTuple):
    """One atomic task, a node of the pathway."""

    device: Platform
    instruction: str
    """With the names of answers in braces."""
    answer: str = ""
    """Name of the answer that it gives; empty if nothing needs it."""

    def needs(self) -> frozenset[str]:
        return frozenset(_NEEDED.findall(self.instruction))

    def filled(self, answers: Mapping[str, str]) -> str:
        """The instruction with the answers in place of their names; other braces stay."""
        return _NEEDED.sub(lambda name: answers.get(name[1], name[0]), self.instruction)

    def line(self) -> str:
        return f"[{self.device}] {self.instruction}" + (f" -> {self.answer}" if self.answer else "")


def read_pathway(lines: Collection[str], devices: Collection[Platform]) -> tuple[PathwayTask, ...]:
    """Read the lines of a parser; none if a line has another form or names a device that is not there.

    A pathway is causal: each answer that a task needs is that of an earlier task, and has one name. Else it is none.
    """
    tasks: list[PathwayTask] = []
    known: set[str] = set()
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None or match["device"].casefold() not in devices:
            return ()
        task = PathwayTask(Platform(match["device"].casefold()), one_line(match["said"]), match["answer"] or "")
        if task.answer in known or not task.needs() <= known:
            return ()
        known |= {task.answer} if task.answer else set()
        tasks.append(task)
    return tuple(tasks)


def read_division(text: str, devices: Collection[Platform]) -> tuple[PathwayTask, ...] | Malformed:
    """Read the reply of a parser: the atomic tasks of a causal pathway."""
    lines = read_atomic_tasks(text)
    if isinstance(lines, Malformed):
        return lines
    return read_pathway(lines, devices) or Malformed("its lines are no causal pathway")


class Workflow(NamedTuple):
    tasks: tuple[PathwayTask, ...]
    device: Platform
    """The device in use."""
    current: int = 0
    begun: int = 0
    answers: tuple[tuple[str, str], ...] = ()
    """The answers so far, by name."""

    @property
    def task(self) -> PathwayTask:
        return self.tasks[self.current]

    @property
    def instruction(self) -> str:
        """Its instruction with the answers that it needs."""
        return self.task.filled(dict(self.answers))

    @property
    def at_last(self) -> bool:
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


def read_workflow(outputs: Mapping[str, str]) -> Workflow | None:
    """The workflow in the role outputs of a step; None if the task is not divided yet."""
    if "atomic_tasks" not in outputs:
        return None
    answers = [line.partition(" = ") for line in outputs.get("answers", "").splitlines()]
    return Workflow(
        read_pathway(outputs["atomic_tasks"].splitlines(), tuple(Platform)),
        Platform(outputs["device"]),
        int(outputs["current"]),
        int(outputs["begun"]),
        tuple((name, text) for name, _, text in answers),
    )
