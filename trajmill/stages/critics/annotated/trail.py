"""Follows where an agent is on the annotated path: the back stack of each app, and which of its pages are right.

A page is wrong if it is not on the path, if the pick that led to it is not the asked one, if its list lacks the asked
item, or if the page under it is wrong. The pages between two right ones are right, too: another way to the same place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trajmill.schemas.tables.query import Slot
from trajmill.stages.critics.annotated.task import AnnotatedTask, TaskPart, app_of
from trajmill.stages.critics.annotated.wording import same_value, slots_on, wanted
from trajmill.stages.critics.trees.replay import INTERRUPTIONS, SeenStep
from trajmill.stages.critics.trees.screen_state import ScreenState


@dataclass(slots=True)
class Visit:
    """A page on the back stack of its app."""

    page: str
    right: bool
    off_path: bool = False
    """Whether only the page makes it wrong, so that it is right if it leads on to a right one."""


class Place(NamedTuple):
    """Where an agent is."""

    app: str
    """The app on the screen; `launcher` on the launcher."""
    stacks: Mapping[str, tuple[Visit, ...]]
    """By app, its pages, the shown one last; an app that was left keeps them."""

    def pages_of(self, app: str) -> tuple[Visit, ...]:
        """The back stack of an app."""
        return self.stacks.get(app, ())

    @property
    def is_wrong(self) -> bool:
        """Whether the page on the screen is wrong."""
        stack = self.pages_of(self.app)
        return bool(stack) and not stack[-1].right

    def actions_left(self, part: TaskPart, unmet: Sequence[str]) -> int:
        """An estimate of the actions to the last page of a part, within its app: back from wrong pages, then forward.

        `unmet` are the pages of the part to which the agent must return, because something there is not as asked.
        """
        stack = self.pages_of(part.app)
        right = [visit.page for visit in stack if visit.right and visit.page in part.pages]
        ways_back = sum(not visit.right for visit in stack)
        if not right:
            return ways_back + len(part.pages)
        by_another_way = sum(visit.right for visit in stack) - 1 - [visit.page for visit in stack].index(right[-1])
        at = min(part.pages.index(right[-1]) + max(by_another_way, 0), len(part.pages) - 1)
        for page in unmet:
            if page in right and part.pages.index(page) < at:
                ways_back += len(right) - 1 - right.index(page)
                at = part.pages.index(page)
        return ways_back + len(part.pages) - 1 - at


def places_of(steps: Sequence[SeenStep], task: AnnotatedTask) -> list[Place]:
    """Where the agent is before the first step and after each one, as seen at the end of the episode."""
    first = steps[0].outcome.before
    places = [_opened(Place(app_of(first.page), {}), None, first, task)]
    for step in steps:
        after = step.outcome.after
        places.append(places[-1] if after.page in INTERRUPTIONS else _opened(places[-1], step, after, task))
    return places


def _opened(place: Place, step: SeenStep | None, screen: ScreenState, task: AnnotatedTask) -> Place:
    app = app_of(screen.page)
    stack = place.pages_of(app)
    names = [visit.page for visit in stack]
    if "." not in screen.page:
        return place._replace(app=app)
    if screen.page in names:
        stack = stack[: names.index(screen.page) + 1]
    elif app != place.app and stack:
        stack = (_visit((), step, screen, task),)
    else:
        stack = (*stack, _visit(stack, step, screen, task))
    return Place(app, {**place.stacks, app: stack})


def _visit(below: tuple[Visit, ...], step: SeenStep | None, screen: ScreenState, task: AnnotatedTask) -> Visit:
    under = below[-1] if below else None
    right = screen.page in task.pages and not _is_other_pick(step, task) and not _lacks_item(screen, task)
    if not right:
        return Visit(screen.page, False, screen.page not in task.pages and not _is_other_pick(step, task))
    if under is None or under.right:
        return Visit(screen.page, True)
    others = [visit for visit in below if not visit.right]
    on_path = [visit.page for visit in below if visit.right]
    forward = not on_path or task.pages.index(screen.page) > task.pages.index(on_path[-1])
    if not forward or not all(visit.off_path for visit in others):
        return Visit(screen.page, False)
    for visit in others:
        visit.right = True
    return Visit(screen.page, True)


def _is_other_pick(step: SeenStep | None, task: AnnotatedTask) -> bool:
    """Whether a step picks another item of a list than the asked one."""
    if step is None or step.action.element is None or step.action.element.role != "list_item":
        return False
    asked = slots_on(step.outcome.before.page, task.slots)
    text = step.action.element.text
    return bool(asked) and not any(same_value(text, slot.value) for slot in (*asked, *task.slots))


def _lacks_item(screen: ScreenState, task: AnnotatedTask) -> bool:
    """Whether a page shows all items of its list, and an item that is asked for on it is not among them."""
    return any(not _may_have(screen, slot) for slot in slots_on(screen.page, task.slots))


def _may_have(screen: ScreenState, slot: Slot) -> bool:
    if not screen.items or any(
        "scrollable_down" in element.states or "scrollable_up" in element.states for element in screen.elements
    ):
        return True
    if any(wanted(control, (slot,)) or control.kind == "search" for control in screen.controls.values()):
        return True
    return any(same_value(text, slot.value) for text in screen.texts)
