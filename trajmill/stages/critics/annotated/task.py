"""Reads the annotations of a task: its pages, the constraints on each page, and the page that confirms it."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.tables.query import Query, Slot, Source
from trajmill.stages.critics.annotated.wording import (
    description_says_done,
    is_said,
    mentions,
    says_no,
    shared_stems,
    title_says_done,
)
from trajmill.stages.critics.trees.replay import INTERRUPTIONS, SeenStep
from trajmill.stages.critics.trees.screen_state import OFF, ON, WAYS_BACK, Control


class AnnotatedTask(NamedTuple):
    """All that a critic may know about a query: not its reference path, start state or goal check."""

    instruction: str
    slots: tuple[Slot, ...]
    pages: tuple[str, ...]
    """The pages of its path, as `app.screen`."""
    page_descriptions: tuple[str, ...]


class TaskPart(NamedTuple):
    """Successive pages of a task that belong to one app."""

    app: str
    pages: tuple[str, ...]
    slots: tuple[Slot, ...]
    receipt: str | None
    """The last page if it confirms something, so that reaching it finishes the part; else None."""
    open_page: str | None
    """The last page of the task if it neither confirms anything nor has constraints: only the instruction says what to
    do there. Else None."""


def is_annotated(query: Query) -> bool:
    """Whether a query was sampled from a navigation graph with annotated pages, whose names are in the screens' trees.

    Other queries may name pages too, such as the windows of a program; these have no annotations.
    """
    pages = zip(query.pages, query.page_descriptions, strict=True)
    return (
        query.source is Source.DAG
        and bool(query.pages)
        and all("." in page and description for page, description in pages)
    )


def annotated_task(query: Query) -> AnnotatedTask:
    """What a critic without a model may know about a query.

    Raises:
        JudgeFailure: the query has no annotations, so only a model or the environment's own check can judge it.
    """
    if not is_annotated(query):
        raise JudgeFailure(
            f"{query.task}: its pages are not those of an annotated app; judge it by a model or by its own check"
        )
    return AnnotatedTask(query.instruction, query.slots, query.pages, query.page_descriptions)


def parts_of(task: AnnotatedTask) -> tuple[TaskPart, ...]:
    """The parts of a task, in order, one for each app."""
    groups = [tuple(pages) for _, pages in groupby(task.pages, key=app_of)]
    return tuple(_part(pages, task, last=number == len(groups) - 1) for number, pages in enumerate(groups))


def app_of(page: str) -> str:
    """The app of a page."""
    return page.partition(".")[0]


def pages_from(slot: Slot, task: AnnotatedTask) -> tuple[str, ...]:
    """The pages of the slot's app that may show its value: from the slot's page on, or all if it is not on the path."""
    own = tuple(page for page in task.pages if app_of(page) == app_of(slot.page))
    return own[own.index(slot.page) :] if slot.page in own else own


def submits(step: SeenStep, receipt: str | None) -> bool:
    """Whether a step submits something: a press that leads from another page to the receipt."""
    before, after = step.outcome.before.page, step.outcome.after.page
    return receipt is not None and _presses_forward(step) and after == receipt != before


def does_something_else(step: SeenStep, task: AnnotatedTask) -> bool:
    """Whether a press has done something that is not part of the task.

    Either it opens a page outside the task whose title says that something is done, or the content of such a page
    changes.
    """
    before, after = step.outcome.before, step.outcome.after
    if not _presses_forward(step) or after.page in task.pages:
        return False
    if after.page != before.page:
        return title_says_done(after.title)
    searching = any(control.kind == "search" for control in after.controls.values())
    return not searching and not step.outcome.opened and bool(step.outcome.appeared or step.outcome.items_changed)


def replaces_value(step: SeenStep) -> bool:
    """Whether a value has replaced another one, so that only the last choice counts."""
    return bool(step.outcome.vanished) and len(step.outcome.vanished) == len(step.outcome.appeared)


def changes_page_in_place(step: SeenStep) -> bool:
    """Whether a press on a button or an item changes the content of its page."""
    element = step.action.element
    return (
        _presses_forward(step)
        and step.outcome.before.page == step.outcome.after.page
        and element is not None
        and element.role in ("button", "menu_item", "list_item")
        and bool(step.outcome.appeared or step.outcome.items_changed)
    )


def is_about(label: str, task: AnnotatedTask) -> bool:
    """Whether the instruction has a word of a label."""
    return bool(shared_stems(label, task.instruction))


def asked_in_words(control: Control, page: str, task: AnnotatedTask, part: TaskPart) -> bool:
    """Whether the instruction itself asks for the value of a control that has no constraint.

    On the open page of a part, one shared word is enough; elsewhere the instruction must have all words of the
    control's label. A switch must be on, or off if the instruction negates it; any other control must have a value that
    the instruction mentions.
    """
    label = control.label
    named = is_about(label, task) if page == part.open_page else is_said(label, task.instruction)
    if control.kind == "toggle":
        return named and control.value == (OFF if says_no(label, task.instruction) else ON)
    return named and mentions(task.instruction, control.value)


def _presses_forward(step: SeenStep) -> bool:
    """Whether a step presses an element that does not lead back."""
    element = step.action.element
    return (
        step.action.presses
        and step.outcome.before.page not in INTERRUPTIONS
        and not (element is not None and element.text in WAYS_BACK)
    )


def _part(pages: tuple[str, ...], task: AnnotatedTask, last: bool) -> TaskPart:
    slots = tuple(slot for slot in task.slots if app_of(slot.page) == app_of(pages[0]))
    bare = not any(slot.page == pages[-1] for slot in slots)
    descriptions = dict(zip(task.pages, task.page_descriptions, strict=True))
    confirms = bare and len(pages) > 1 and description_says_done(descriptions[pages[-1]])
    return TaskPart(
        app=app_of(pages[0]),
        pages=pages,
        slots=slots,
        receipt=pages[-1] if confirms else None,
        open_page=pages[-1] if last and bare and not confirms else None,
    )
