"""The state of one episode: what the agent has set, pressed and read, and where it is on the annotated path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trajmill.schemas.tables.query import Slot
from trajmill.stages.critics.annotated.task import (
    FALSE_WORDS,
    REPEATABLE,
    TRUE_WORDS,
    AnnotatedTask,
    TaskPart,
    app_of,
    holds,
    is_said,
    mentions,
    same_value,
    says_no,
    wanted,
)
from trajmill.stages.critics.trees.replay import INTERRUPTIONS, OFF, ON, Control, ElementAction, ScreenState, SeenStep

_PRESSED_ALONE = frozenset({"button", "menu", "menu_item", "icon", "tab", "link"})
"""Roles of elements that are in no list; groups of pressed items have them as names."""


class PressedItem(NamedTuple):
    """A pressed element that is no control: an item, a tab, a button."""

    group: str
    """Its list, or its role if it is in none; items of one group are alternatives."""
    names: tuple[str, str]

    def answers(self, value: str) -> bool:
        return any(same_value(name, value) for name in self.names)


@dataclass(slots=True)
class Look:
    """What an agent has seen of a page since it came there."""

    texts: set[str] = field(default_factory=set)
    states: list[set[str]] = field(default_factory=list)
    """Of each screen, the states of its elements."""
    is_list: bool = False
    is_open: bool = False
    """Whether a text is or can be entered there, so that a value need not be on the page."""

    def see(self, screen: ScreenState) -> None:
        self.texts.update(element.text for element in screen.elements if element.text)
        self.states.append({state for element in screen.elements for state in element.states})
        self.is_list |= bool(screen.items) or "nothing here yet" in screen.texts
        self.is_open |= any(it.kind == "field" or (it.kind == "search" and it.value) for it in screen.controls.values())

    def lacks(self, slot: Slot) -> bool:
        """Whether it was a look at a whole list without the wanted value."""
        ends = (any(f"scrollable_{way}" not in states for states in self.states) for way in ("up", "down"))
        is_value = slot.value.casefold() not in TRUE_WORDS | FALSE_WORDS
        is_whole = is_value and self.is_list and not self.is_open and all(ends)
        return is_whole and not any(same_value(text, slot.value) for text in self.texts)


class Problem(NamedTuple):
    """Something that is wrong for certain."""

    text: str
    step: int | None = None


@dataclass
class EpisodeState:
    """What the agent has done so far, and what it submitted or pressed wrongly."""

    task: AnnotatedTask
    controls: dict[tuple[str, str], Control] = field(default_factory=dict)
    """By page and key, as last seen."""
    first: dict[tuple[str, str], str] = field(default_factory=dict)
    picks: dict[str, list[PressedItem]] = field(default_factory=lambda: defaultdict(list))
    """By page, the pressed items, and the other elements whose press had an effect, oldest first."""
    typed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By page, the texts that were typed into fields; search fields do not count."""
    shown: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    forms: set[str] = field(default_factory=set)
    pages: list[str] = field(default_factory=list)
    """Pages in the order in which they were shown; a page that is shown again is listed again."""
    found: list[str] = field(default_factory=list)
    submitted: dict[str, list[str]] = field(default_factory=dict)
    looks: dict[str, Look] = field(default_factory=lambda: defaultdict(Look))
    """By page, what was seen there since it was opened."""

    def __post_init__(self) -> None:
        self.parts = self.task.parts()

    def enter(self, state: ScreenState) -> None:
        if not self.pages or self.pages[-1] != state.page:
            self.pages.append(state.page)
        if state.is_form:
            self.forms.add(state.page)
        self.shown[state.page].update(state.values)
        self.looks[state.page].see(state)
        for key, control in state.controls.items():
            if control.kind != "choice" or control.value:
                self.first.setdefault((state.page, key), control.value)
                self.controls[state.page, key] = control

    def observe(self, step: SeenStep) -> None:
        element, outcome, page = step.action.element, step.outcome, step.outcome.before.page
        if step.action.presses and element is not None and (element.role == "list_item" or not outcome.same):
            _, *widget = element.element_id.split("/", 2)
            group, name = widget if len(widget) == 2 else (element.role, "")
            self.picks[page].append(PressedItem(group, (element.text, name)))
        if step.action.kind == "type" and element is not None and element.role == "text_field":
            self.typed[page].append(step.action.words)
        for change in outcome.changes:
            self.first.setdefault((page, change.control.key), change.old)
            self.controls.setdefault((page, change.control.key), change.control)
        if outcome.opened and step.presses_forward:
            self.looks.pop(outcome.after.page, None)
        self.enter(outcome.after)
        if self.task.is_left_by(step):
            self.found.append(f'something else was done: "{outcome.after.title}"')
        for part in self.parts:
            if part.is_submitted_by(step):
                self._submit(part, outcome.after.title)
            elif step.changes_page_in_place and page in part.pages and element is not None:
                slots = self.task.slots_on(page)
                if any(same_value(element.text, slot.value) for slot in slots):
                    continue
                # Of items that replace one another, only the last choice counts.
                swaps = bool(outcome.vanished) and len(outcome.vanished) == len(outcome.appeared)
                asked = page == part.open_page and self.task.is_about(element.text)
                if asked or self._submits_typed_text(page, part):
                    self._submit(part, element.text)
                elif not (swaps and element.role == "list_item" and slots):
                    self.found.append(f'"{element.text}" was pressed')

    def changed_controls(self) -> list[tuple[str, Control]]:
        """Return page and control of each control whose value differs from its first one, search fields excepted."""
        changed = (key for key, control in self.controls.items() if control.value != self.first[key])
        return [(key[0], self.controls[key]) for key in changed if self.controls[key].kind != "search"]

    def evidence(self, slot: Slot) -> bool | None:
        """Whether a constraint is met on its page; None if the episode shows nothing about it.

        A press that meets another constraint of the page does not contradict this one.
        """
        own = self.task.slots_on(slot.page)
        on_page = (control for (page, _), control in self.controls.items() if page == slot.page)
        meant = [control for control in on_page if wanted(control, own) == slot]
        if meant:
            return any(holds(control, slot) for control in meant)
        picks = self.picks[slot.page]
        last = max((index for index, pick in enumerate(picks) if pick.answers(slot.value)), default=None)
        if last is None:
            return None
        others = [other.value for other in own if other != slot]
        later = (pick for pick in picks[last + 1 :] if pick.group == picks[last].group)
        return all(any(pick.answers(other) for other in others) for pick in later)

    def problems_at(self, end: ElementAction) -> list[Problem]:
        """Return what is wrong if the episode ends now with an action."""
        return self._problems_of_giving_up() if end.gives_up else self.problems()

    def absent(self) -> Slot | None:
        """Return a constraint that cannot be met: its list was seen from the top to the end, and lacks the value."""
        pages = self.task.pages
        for slot in (each for each in self.task.slots if each.page in pages):
            is_there = all(map(self._picked_as_asked, pages[: pages.index(slot.page)]))
            if is_there and not self._is_control(slot) and self.looks[slot.page].lacks(slot):
                return slot
        return None

    def _picked_as_asked(self, page: str) -> bool:
        """Whether what was picked last in the lists of a page is asked for, and all that is asked for was picked."""
        slots = self.task.slots_on(page)
        last = {pick.group: pick for pick in self.picks[page] if pick.group not in _PRESSED_ALONE}
        asked = (any(pick.answers(slot.value) for slot in slots) for pick in last.values())
        return all(asked) and all(self._is_control(slot) or self.evidence(slot) is True for slot in slots)

    def _is_control(self, slot: Slot) -> bool:
        controls = (control for (page, _), control in self.controls.items() if page == slot.page)
        return any(wanted(control, (slot,)) for control in controls)

    def _problems_of_giving_up(self) -> list[Problem]:
        found = [*self.found, *(["something was done before"] if any(self.submitted.values()) else [])]
        if self.absent() is None:
            found.append("nothing shows that it cannot be done")
        for page, control in self.changed_controls():
            part = next((part for part in self.parts if page in part.pages), None)
            if part is None or not self.task.is_asked(page, control, part):
                found.append(f'"{control.label}" stands at "{control.value}" on {page}')
        return list(map(Problem, found))

    def problems(self) -> list[Problem]:
        """Return what is wrong if the episode ends now with the report that it is done."""
        found, changed = list(self.found), self.changed_controls()
        for part in self.parts:
            if self.submitted.get(part.pages[-1]):
                continue
            if part.receipt is not None and part.receipt not in self.pages:
                found.append(f"{part.receipt} was never reached")
            else:
                found += self._unmet(part)
            if part.open_page is not None and part.open_page not in {page for page, _ in changed}:
                found.append(f"nothing was done on {part.open_page}")
        known = {page for part in self.parts for page in part.pages} | self.forms
        found += [f'"{each.label}" stands at "{each.value}" on {page}' for page, each in changed if page not in known]
        return list(map(Problem, found))

    def _submit(self, part: TaskPart, what: str) -> None:
        """Check a submission: everything must be as asked now, and nothing may be submitted twice."""
        before = self.submitted.setdefault(part.pages[-1], [])
        if before and (what not in before or not REPEATABLE.search(what)):
            self.found.append(f'"{what}" was done after "{before[-1]}"')
        before.append(what)
        self.found += self._unmet(part)

    def _unmet(self, part: TaskPart) -> list[str]:
        changed = ((page, each) for page, each in self.changed_controls() if page in part.pages)
        wrong = [control for page, control in changed if not self.task.is_asked(page, control, part)]
        unchanged = ((key[0], each) for key, each in self.controls.items() if each.value == self.first[key])
        for page, control in unchanged:
            if page in part.pages and control.kind == "toggle" and wanted(control, self.task.slots_on(page)) is None:
                # The instruction names a switch without a constraint, and may ask for its other position.
                off = says_no(control.label, self.task.instruction)
                if is_said(control.label, self.task.instruction) and control.value == (ON if off else OFF):
                    wrong.append(control)
        missing = [f'no "{slot.value}" for {slot.name}' for slot in part.slots if not self._is_met(slot, part)]
        return missing + [f'"{control.label}" stands at "{control.value}"' for control in wrong]

    def _submits_typed_text(self, page: str, part: TaskPart) -> bool:
        """Whether a press on a page submits typed text: it is the last page of its part, and no receipt follows."""
        return part.receipt is None and page == part.pages[-1] and bool(self.typed[page])

    def _is_met(self, slot: Slot, part: TaskPart) -> bool:
        if not (self._submits_typed_text(slot.page, part) and slot.value in self.typed[slot.page]):
            found = self.evidence(slot)
            if found is not None:
                return found
            if not slot.said and slot.page not in self.pages:
                return True
        # From its page on, or all pages of its app if it is off the path.
        pages = tuple(page for page in self.task.pages if app_of(page) == app_of(slot.page))
        pages = pages[pages.index(slot.page) :] if slot.page in pages else pages
        return any(mentions(text, slot.value) for page in pages for text in self.shown[page])


@dataclass(slots=True)
class Visit:
    page: str
    right: bool
    off_path: bool = False
    """Only the page makes it wrong; then it is right if it leads on to a right one."""


class Place(NamedTuple):
    app: str
    """The app on the screen; `launcher` on the launcher."""
    stacks: Mapping[str, tuple[Visit, ...]]
    """By app, its pages, the shown one last; an app that was left keeps them."""

    def pages_of(self, app: str) -> tuple[Visit, ...]:
        return self.stacks.get(app, ())

    @property
    def is_wrong(self) -> bool:
        stack = self.pages_of(self.app)
        return bool(stack) and not stack[-1].right

    def actions_left(self, part: TaskPart, unmet: Sequence[str]) -> int:
        """Estimate the actions to the last page of a part, within its app: back from wrong pages, then forward.

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


def places_of(steps: Sequence[SeenStep], task: AnnotatedTask, absent: Slot | None = None) -> list[Place]:
    """Return where the agent is before the first step and after each one, as known at the end of the episode.

    A page is wrong if it is not on the path, if the pick that led to it is not the asked one, if its list lacks the
    asked item (unless it is `absent` on this device), or if the page under it is wrong. The pages between two right
    ones are right, too: another way to the
    same place.
    """
    place, first = Place(app_of(steps[0].outcome.before.page), {}), steps[0].outcome.before
    places = []
    for step, screen in ((None, first), *((step, step.outcome.after) for step in steps)):
        app = app_of(screen.page)
        stack = place.pages_of(app)
        names = [visit.page for visit in stack]
        if step is not None and screen.page in INTERRUPTIONS:
            pass
        elif "." not in screen.page:
            place = place._replace(app=app)
        elif screen.page in names:
            place = Place(app, {**place.stacks, app: stack[: names.index(screen.page) + 1]})
        else:
            below = () if app != place.app and stack else stack
            place = Place(app, {**place.stacks, app: (*below, _visit(below, step, screen, task, absent))})
        places.append(place)
    return places


def _visit(
    below: tuple[Visit, ...], step: SeenStep | None, screen: ScreenState, task: AnnotatedTask, absent: Slot | None
) -> Visit:
    on_path, other_pick = screen.page in task.pages, False
    element = step.action.element if step is not None else None
    if step is not None and element is not None and element.role == "list_item":
        asked = task.slots_on(step.outcome.before.page)
        given = (*asked, *task.slots)
        other_pick = bool(asked) and not any(same_value(element.text, slot.value) for slot in given)

    def may_have(slot: Slot) -> bool:
        """Whether the page may have the asked item: not if it shows all of a list without it."""
        if not screen.items or screen.scrolls or slot == absent:
            return True
        if any(wanted(control, (slot,)) or control.kind == "search" for control in screen.controls.values()):
            return True
        return any(same_value(text, slot.value) for text in screen.texts)

    if not on_path or other_pick or not all(map(may_have, task.slots_on(screen.page))):
        return Visit(screen.page, False, not on_path and not other_pick)
    if not below or below[-1].right:
        return Visit(screen.page, True)
    wrong = [visit for visit in below if not visit.right]
    right = [visit.page for visit in below if visit.right and visit.page in task.pages]
    forward = not right or task.pages.index(screen.page) > task.pages.index(right[-1])
    if not forward or not all(visit.off_path for visit in wrong):
        return Visit(screen.page, False)
    for visit in wrong:
        visit.right = True
    return Visit(screen.page, True)
