"""Atomic tasks that depend on each other's answers: a causal pathway (paper NaturalGAIA, 3 and 4.1)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.roles.sections import one_line

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
        """The names of the answers in its instruction."""
        return frozenset(_NEEDED.findall(self.instruction))

    def filled(self, answers: Mapping[str, str]) -> str:
        """The instruction with the answers in place of their names; other braces stay."""
        return _NEEDED.sub(lambda name: answers.get(name[1], name[0]), self.instruction)

    def line(self) -> str:
        """The task as the parser writes it."""
        return f"[{self.device}] {self.instruction}" + (f" -> {self.answer}" if self.answer else "")


def read_pathway(lines: Collection[str], devices: Collection[Platform]) -> tuple[PathwayTask, ...]:
    """The atomic tasks of a parser's lines; none if a line has another form or names a device that is not there.

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
