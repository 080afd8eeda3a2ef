"""Reads the annotations of a task: its pages, the constraints on each page, and the page that confirms it."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.tables.query import Query, Slot, Source
from trajmill.stages.critics.annotated.wording import (
    description_says_done,
    holds,
    is_said,
    mentions,
    says_no,
    shared_stems,
    title_says_done,
    wanted,
)
from trajmill.stages.critics.trees.replay import SeenStep
from trajmill.stages.critics.trees.screen_state import OFF, ON, Control


class TaskPart(NamedTuple):
    """Successive pages of a task that belong to one app."""

    app: str
    pages: tuple[str, ...]
    slots: tuple[Slot, ...]
    receipt: str | None
    """The last page if it confirms something; reaching it then finishes the part. Else None."""
    open_page: str | None
    """The last page of the task if it neither confirms anything nor has constraints: only the instruction says what to
    do there. Else None."""

    def is_submitted_by(self, step: SeenStep) -> bool:
        """Whether a step submits the part: a press that leads from another page to the receipt."""
        before, after = step.outcome.before.page, step.outcome.after.page
        return self.receipt is not None and step.presses_forward and after == self.receipt != before


class AnnotatedTask(NamedTuple):
    """All that a critic may read of a query: not its reference path, start state or goal check."""

    instruction: str
    slots: tuple[Slot, ...]
    pages: tuple[str, ...]
    """The pages of its path, as `app.screen`."""
    page_descriptions: tuple[str, ...]

    def parts(self) -> tuple[TaskPart, ...]:
        """Return the parts of the task, in order, one for each app."""
        found: list[TaskPart] = []
        descriptions = dict(zip(self.pages, self.page_descriptions, strict=True))
        for app, group in groupby(self.pages, key=app_of):
            pages = tuple(group)
            bare = not self.slots_on(pages[-1])
            confirms = bare and len(pages) > 1 and description_says_done(descriptions[pages[-1]])
            slots = tuple(slot for slot in self.slots if app_of(slot.page) == app)
            receipt, open_page = (pages[-1], None) if confirms else (None, pages[-1] if bare else None)
            found.append(TaskPart(app, pages, slots, receipt, open_page))
        return (*(part._replace(open_page=None) for part in found[:-1]), *found[-1:])

    def slots_on(self, page: str) -> tuple[Slot, ...]:
        return tuple(slot for slot in self.slots if slot.page == page)

    def pages_from(self, slot: Slot) -> tuple[str, ...]:
        """Return the pages of a slot's app that may show its value: from its page on, or all if it is off the path."""
        own = tuple(page for page in self.pages if app_of(page) == app_of(slot.page))
        return own[own.index(slot.page) :] if slot.page in own else own

    def is_about(self, label: str) -> bool:
        """Whether the instruction has a word of a label."""
        return bool(shared_stems(label, self.instruction))

    def is_asked(self, page: str, control: Control, part: TaskPart) -> bool:
        """Whether a control has a value that a constraint or the instruction asks for."""
        slot = wanted(control, self.slots_on(page))
        return holds(control, slot) if slot is not None else self.asks_in_words(control, page, part)

    def asks_in_words(self, control: Control, page: str, part: TaskPart) -> bool:
        """Whether the instruction itself asks for the value of a control that has no constraint.

        On the open page of a part, one shared word is enough; elsewhere the instruction must have all words of the
        control's label. A switch must be on, or off if the instruction negates it; any other control must have a value
        that the instruction mentions.
        """
        label = control.label
        named = self.is_about(label) if page == part.open_page else is_said(label, self.instruction)
        if control.kind == "toggle":
            return named and control.value == (OFF if says_no(label, self.instruction) else ON)
        return named and mentions(self.instruction, control.value)

    def is_left_by(self, step: SeenStep) -> bool:
        """Whether a press has done something that is not part of the task.

        Either it opens a page outside the task whose title says that something is done, or the content of such a page
        changes.
        """
        before, after = step.outcome.before, step.outcome.after
        if not step.presses_forward or after.page in self.pages:
            return False
        if after.page != before.page:
            return title_says_done(after.title)
        searching = any(control.kind == "search" for control in after.controls.values())
        return not searching and not step.outcome.opened and bool(step.outcome.appeared or step.outcome.items_changed)


def app_of(page: str) -> str:
    return page.partition(".")[0]


def is_annotated(query: Query) -> bool:
    """Whether a query was sampled from a navigation graph with annotated pages, whose names are in the screens' trees.

    Other queries may name pages too, such as the windows of a program; these have no annotations.
    """
    pages = zip(query.pages, query.page_descriptions, strict=True)
    described = all("." in page and description for page, description in pages)
    return query.source is Source.DAG and bool(query.pages) and described


def annotated_task(query: Query) -> AnnotatedTask:
    """Return what a critic without a model may read of a query.

    Raises:
        JudgeFailure: the query has no annotations; only a model or the environment's own check can judge it.
    """
    if not is_annotated(query):
        raise JudgeFailure(
            f"{query.task}: its pages are not those of an annotated app; judge it by a model or by its own check"
        )
    return AnnotatedTask(query.instruction, query.slots, query.pages, query.page_descriptions)
