"""Finds the problems of an episode at the moments that matter: whenever something is submitted, and at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod

from trajmill.stages.critics.annotated.slots import same_value, slots_on
from trajmill.stages.critics.annotated.task import AnnotatedTask, TaskPart, is_about, parts_of
from trajmill.stages.critics.annotated.wording import repeats_harmlessly


class ProblemFinder(ABC):
    """Follows one episode; subclasses keep its state."""

    def __init__(self, task: AnnotatedTask) -> None:
        """Start before the first step of an episode."""
        self.problems: list[str] = []
        """The problems so far, as sentences."""
        self._task = task
        self._parts = parts_of(task)
        self._submitted: dict[str, list[str]] = {}
        """By the last page of a part, the things that were submitted, oldest first."""

    def problems_at_end(self) -> list[str]:
        """The further problems when the agent has said that it is done."""
        found: list[str] = []
        for part in self._parts:
            if self._submitted.get(part.pages[-1]):
                continue
            if part.receipt is not None and not self._was_reached(part.receipt):
                found.append(f"{part.receipt} was never reached")
            else:
                found += self._problems_of(part)
            if part.open_page is not None and not self._is_changed(part.open_page):
                found.append(f"nothing was done on {part.open_page}")
        return found + self._changed_elsewhere()

    def _press(self, page: str, label: str, part: TaskPart | None, swaps_item: bool) -> None:
        """Handle a press that changed the content of its page.

        Args:
            page: the page.
            label: text of the pressed element.
            part: the part of the task that the page belongs to; None if it belongs to none.
            swaps_item: whether a list item has replaced another one.
        """
        slots = slots_on(page, self._task.slots)
        if any(same_value(label, slot.value) for slot in slots):
            return
        if part is not None and (self._submits_typed_text(page, part) or self._is_asked_for(page, label, part)):
            self._submit(part, label)
        elif not (swaps_item and slots):
            self.problems.append(f'"{label}" was pressed')

    def _submit(self, part: TaskPart, what: str) -> None:
        """Handle a submission: everything must be as asked now, and nothing may be submitted twice."""
        before = self._submitted.setdefault(part.pages[-1], [])
        if before and (what not in before or not repeats_harmlessly(what)):
            self.problems.append(f'"{what}" was done after "{before[-1]}"')
        before.append(what)
        self.problems += self._problems_of(part)

    def _is_asked_for(self, page: str, label: str, part: TaskPart) -> bool:
        return page == part.open_page and is_about(label, self._task)

    def _submits_typed_text(self, page: str, part: TaskPart) -> bool:
        """Whether a press on a page submits typed text: it is the last page of its part, and no receipt follows."""
        return part.receipt is None and page == part.pages[-1] and self._is_typed_on(page)

    @abstractmethod
    def _problems_of(self, part: TaskPart) -> list[str]:
        """The constraints that are not met on the pages of a part, and the changes there that nobody asked for."""

    @abstractmethod
    def _was_reached(self, receipt: str) -> bool:
        """Whether a receipt was shown without a submission."""

    @abstractmethod
    def _is_changed(self, page: str) -> bool:
        """Whether the value of a control on a page differs from its first one."""

    @abstractmethod
    def _is_typed_on(self, page: str) -> bool:
        """Whether text was typed on a page."""

    @abstractmethod
    def _changed_elsewhere(self) -> list[str]:
        """The changes on pages that are not part of the task, as sentences."""
