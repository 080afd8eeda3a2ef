"""Finds what is wrong with an episode when it counts: as something is sent off, and at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod

from trajmill.stages.critics.annotated.slots import same_value, slots_on
from trajmill.stages.critics.annotated.task import AnnotatedTask, TaskPart, is_about, parts_of
from trajmill.stages.critics.annotated.wording import repeats_harmlessly


class ProblemFinder(ABC):
    """Follows one episode. What is known of it so far is kept by the subclasses."""

    def __init__(self, task: AnnotatedTask) -> None:
        """Start before the first step of an episode."""
        self.problems: list[str] = []
        """What was wrong so far, in words."""
        self._task = task
        self._parts = parts_of(task)
        self._sent: dict[str, list[str]] = {}
        """By last page of a part: what was sent off, oldest first."""

    def at_the_end(self) -> list[str]:
        """What is wrong once the agent has said that it is done, beside what was wrong before."""
        found: list[str] = []
        for part in self._parts:
            if self._sent.get(part.pages[-1]):
                continue
            if part.receipt is not None and not self._came_up(part.receipt):
                found.append(f"{part.receipt} was never reached")
            else:
                found += self._wrong(part)
            if part.open_page is not None and not self._is_changed(part.open_page):
                found.append(f"nothing was done on {part.open_page}")
        return found + self._changed_elsewhere()

    def _press(self, page: str, label: str, part: TaskPart | None, swaps_item: bool) -> None:
        """Take note of a press that changed what its page shows.

        Args:
            page: the page.
            label: the words of what was pressed.
            part: the part of the task that the page belongs to; None where it belongs to none.
            swaps_item: whether a list item took the place of another.
        """
        slots = slots_on(page, self._task.slots)
        if any(same_value(label, slot.value) for slot in slots):
            return
        if part is not None and (self._is_entered(page, part) or self._is_meant(page, label, part)):
            self._send(part, label)
        elif not (swaps_item and slots):
            self.problems.append(f'"{label}" was pressed')

    def _send(self, part: TaskPart, what: str) -> None:
        """Something was sent off: everything must stand as asked now, and it must be the first time."""
        before = self._sent.setdefault(part.pages[-1], [])
        if before and (what not in before or not repeats_harmlessly(what)):
            self.problems.append(f'"{what}" was done after "{before[-1]}"')
        before.append(what)
        self.problems += self._wrong(part)

    def _is_meant(self, page: str, label: str, part: TaskPart) -> bool:
        return page == part.open_page and is_about(label, self._task)

    def _is_entered(self, page: str, part: TaskPart) -> bool:
        """Whether what is typed on a page has to be sent off on the spot, as nothing comes after it."""
        return part.receipt is None and page == part.pages[-1] and self._is_typed_on(page)

    @abstractmethod
    def _wrong(self, part: TaskPart) -> list[str]:
        """What is missing and what is too much on the pages of a part, as they stand now."""

    @abstractmethod
    def _came_up(self, receipt: str) -> bool:
        """Whether a receipt has come up although nothing led to it."""

    @abstractmethod
    def _is_changed(self, page: str) -> bool:
        """Whether something on a page stands otherwise than at first."""

    @abstractmethod
    def _is_typed_on(self, page: str) -> bool:
        """Whether text was typed on a page."""

    @abstractmethod
    def _changed_elsewhere(self) -> list[str]:
        """What was changed on pages that are not part of the task, in words."""
