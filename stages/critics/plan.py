"""What a task demands, page by page: in which part of it a constraint is set, and where its receipt is."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from schemas.query import Slot
from stages.critics.replay import SeenStep, TaskView

COMMITTING_ROLES = frozenset({"button", "menu_item", "link"})


class Part(NamedTuple):
    """The pages of a task that belong to one app, one after the other."""

    app: str
    pages: tuple[str, ...]
    slots: tuple[Slot, ...]
    receipt: str | None
    """The last page, where it asks for nothing more: reaching it is what the part is for. None for a part that ends on
    the page on which something is set."""


def parts_of(task: TaskView) -> tuple[Part, ...]:
    """The parts of a task in order; an errand has one per app."""
    return tuple(_part(app, tuple(pages), task) for app, pages in groupby(task.pages, key=app_of))


def app_of(page: str) -> str:
    """The app of a page."""
    return page.partition(".")[0]


def commits(step: SeenStep, receipt: str | None) -> bool:
    """Whether a step sends something off: a button that leads to the receipt."""
    element = step.deed.element
    return (
        receipt is not None
        and step.deed.presses
        and element is not None
        and element.role in COMMITTING_ROLES
        and step.outcome.before.page != receipt
        and step.outcome.after.page == receipt
    )


def _part(app: str, pages: tuple[str, ...], task: TaskView) -> Part:
    slots = tuple(slot for slot in task.slots if slot.page in pages)
    bare = len(pages) > 1 and not any(slot.page == pages[-1] for slot in slots)
    return Part(app, pages, slots, pages[-1] if bare else None)
