"""An episode read against the annotations of its query: what the agent set, pressed and saw on annotated pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, groupby, pairwise

import networkx as nx

from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.tables.query import Slot
from trajmill.stages.critics.app_graph.annotations import (
    PRESSED_ALONE,
    REPEATABLE,
    SWITCH_WORDS,
    AnnotatedTask,
    PressedItem,
    TaskPart,
    app_of,
    holds,
    is_said,
    mentions,
    same_value,
    shared_names,
    unanswered,
    wanted,
)
from trajmill.stages.critics.app_graph.reading import Left, Problem, Ways
from trajmill.stages.critics.replay import INTERRUPTIONS, Control, ScreenState, SeenStep

_LAUNCHER = "launcher"


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
    looks: dict[str, list[ScreenState]] = field(default_factory=lambda: defaultdict(list))
    """By page, its screens since it was opened."""
    pages: set[str] = field(default_factory=set)
    forms: set[str] = field(default_factory=set)
    found: list[str] = field(default_factory=list)
    chosen: list[str] = field(default_factory=list)
    """Choices among items that replace one another: only the last one counts, and none may be made before giving up."""
    unseen: list[str] = field(default_factory=list)
    """Items of the last page whose press had no visible effect: maybe choices out of sight."""
    submitted: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parts = self.task.parts()

    def enter(self, state: ScreenState) -> None:
        self.pages.add(state.page)
        if state.is_form:
            self.forms.add(state.page)
        self.shown[state.page].update(state.values)
        self.looks[state.page].append(state)
        for key, control in state.controls.items():
            if control.kind != "choice" or control.value:
                self.first.setdefault((state.page, key), control.value)
                self.controls[state.page, key] = control

    def observe(self, step: SeenStep) -> None:
        element, outcome, page = step.action.element, step.outcome, step.outcome.before.page
        if step.action.presses and element is not None and (element.role == "list_item" or not outcome.same):
            _, *widget = element.element_id.split("/", 2)
            group, name = widget if len(widget) == 2 else (element.role, "")
            astray = outcome.opened and outcome.after.page not in self.task.pages
            self.picks[page].append(PressedItem(group, (element.text, name), astray))
            self.unseen += [element.text] * (outcome.same and page == self.task.pages[-1])
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
                slots, asked = self.task.slots_on(page), page == part.open_page and self.task.is_about(element.text)
                if any(same_value(element.text, slot.value) for slot in slots):
                    continue
                if asked or self._submits_typed_text(page, part):
                    self._submit(part, element.text)
                else:
                    swaps = element.role == "list_item" and 0 < len(outcome.vanished) == len(outcome.appeared)
                    (self.chosen if swaps and slots else self.found).append(f'"{element.text}" was pressed')

    def evidence(self, slot: Slot) -> bool | None:
        """Whether a constraint is met on its page; None if the episode shows nothing about it.

        A press that meets another constraint of the page does not contradict this one.
        """
        if meant := self._meant(slot):
            return any(holds(control, slot) for control in meant)
        picks = self.picks[slot.page]
        last = max((index for index, pick in enumerate(picks) if pick.answers(slot.value)), default=None)
        if last is None:
            return None
        others = [other.value for other in self.task.slots_on(slot.page) if other != slot]
        later = (pick for pick in picks[last + 1 :] if pick.group == picks[last].group)
        return all(any(pick.answers(other) for other in others) for pick in later)

    def _meant(self, slot: Slot) -> list[Control]:
        """The controls of a constraint: those with its name, or else those that it fits by value or kind."""
        own = self.task.slots_on(slot.page)
        on_page = (control for (page, _), control in self.controls.items() if page == slot.page)
        meant = [control for control in on_page if wanted(control, own) == slot]
        return [control for control in meant if shared_names(control, slot)] or meant

    def problems(self, gives_up: bool) -> list[str]:
        """Return what is wrong if the episode ends now, with the report that it is done or cannot be done."""
        found = list(self.found)
        if gives_up:
            found += [*self.chosen, *(["something was done before"] if any(self.submitted.values()) else [])]
            found += ["nothing shows that it cannot be done"] if self.absent() is None else []
            return found + [_standing(each) for part in (*self.parts, None) for _, each in self.unasked(part)]
        for part in self.parts:
            if self.submitted.get(part.pages[-1]):
                continue
            if part.receipt is not None and part.receipt not in self.pages:
                found.append(f"this page never came up: {self.task.described(part.receipt)}")
            else:
                found += self._unmet(part)
            if part.open_page is not None and not any(page == part.open_page for page, _ in self._changed()):
                found.append(f"nothing was done on this page: {self.task.described(part.open_page)}")
        return found + [_standing(control) for _, control in self.unasked(None)]

    def unasked(self, part: TaskPart | None) -> list[tuple[str, Control]]:
        """Return page and control of changed values that are not as asked; without a part, those on no part's pages.

        What was left behind in a form outside the task does no harm.
        """
        if part is None:
            known = {page for each in self.parts for page in each.pages} | self.forms
            return [(page, control) for page, control in self._changed() if page not in known]
        own = ((page, control) for page, control in self._changed() if page in part.pages)
        return [(page, control) for page, control in own if not self._is_asked(page, control, part)]

    def _is_asked(self, page: str, control: Control, part: TaskPart) -> bool:
        slot = wanted(control, self.task.slots_on(page))
        return self.task.is_asked(page, control, part) and (slot is None or control in self._meant(slot))

    def _changed(self) -> Iterator[tuple[str, Control]]:
        """Yield page and control of each control whose value differs from its first one, search fields excepted."""
        for (page, key), control in self.controls.items():
            if control.value != self.first[page, key] and control.kind != "search":
                yield page, control

    def absent(self) -> Slot | None:
        """Return a constraint that cannot be met: its list was seen from the top to the end, and lacks the value."""
        pages = self.task.pages
        for slot in (each for each in self.task.slots if each.page in pages):
            is_there = all(map(self._picked_as_asked, pages[: pages.index(slot.page)]))
            if is_there and not self._is_control(slot) and self._lacks(slot):
                return slot
        return None

    def _picked_as_asked(self, page: str) -> bool:
        """Whether what was picked last in the lists of a page is asked for, and all that is asked for was picked."""
        slots = self.task.slots_on(page)
        picks = (pick for pick in self.picks[page] if not pick.astray)
        last = {pick.group: pick for pick in picks if pick.group not in PRESSED_ALONE}
        asked = (any(pick.answers(slot.value) for slot in slots) for pick in last.values())
        return all(asked) and all(self._is_control(slot) or self.evidence(slot) is True for slot in slots)

    def _is_control(self, slot: Slot) -> bool:
        return any(page == slot.page and wanted(each, (slot,)) for (page, _), each in self.controls.items())

    def _lacks(self, slot: Slot) -> bool:
        """Whether a whole list was seen, without the wanted value, on a page on which no text can be entered."""
        screens = self.looks[slot.page]
        states = [{state for element in screen.elements for state in element.states} for screen in screens]
        controls = [control for screen in screens for control in screen.controls.values()]
        texts = {text for screen in screens for text in screen.texts}
        return (
            slot.value.casefold() not in SWITCH_WORDS
            and (any(screen.items for screen in screens) or "nothing here yet" in texts)
            and not any(each.kind == "field" or (each.kind == "search" and each.value) for each in controls)
            and all(any(f"scrollable_{way}" not in each for each in states) for way in ("up", "down"))
            and not any(same_value(text, slot.value) for text in texts)
        )

    def _submit(self, part: TaskPart, what: str) -> None:
        """Check a submission: everything must be as asked now, and nothing may be submitted twice."""
        before = self.submitted.setdefault(part.pages[-1], [])
        if before and (what not in before or not REPEATABLE.search(what)):
            self.found.append(f'"{what}" was done after "{before[-1]}"')
        before.append(what)
        self.found += self._unmet(part)

    def _unmet(self, part: TaskPart) -> list[str]:
        wrong = [control for _, control in self.unasked(part)]
        for (page, key), control in self.controls.items():
            # The annotations say nothing about a switch that the instruction names, so it may ask to flip it.
            is_named = control.kind == "toggle" and is_said(control.label, self.task.instruction)
            if is_named and page in part.pages and control.value == self.first[page, key]:
                free = wanted(control, self.task.slots_on(page)) is None
                wrong += [control] * (free and not self.task.asks_in_words(control, page, part))
        missing = [f'no "{slot.value}" for {slot.name}' for slot in part.slots if not self._is_met(slot, part)]
        return missing + list(map(_standing, wrong))

    def _submits_typed_text(self, page: str, part: TaskPart) -> bool:
        """Whether a press on a page submits typed text: it is the last page of its part, and no receipt follows."""
        return part.receipt is None and page == part.pages[-1] and bool(self.typed[page])

    def _is_met(self, slot: Slot, part: TaskPart) -> bool:
        if not (self._submits_typed_text(slot.page, part) and slot.value in self.typed[slot.page]):
            found = False if self.picked_otherwise(slot) else self.evidence(slot)
            if found is not None:
                return found
        # Look at its page and later ones, or at all pages of its app if the path does not visit its page.
        pages = tuple(page for page in self.task.pages if app_of(page) == app_of(slot.page))
        pages = pages[pages.index(slot.page) :] if slot.page in pages else pages
        return any(mentions(text, slot.value) for page in pages for text in self.shown[page])

    def is_done(self, part: TaskPart) -> bool:
        last = part.pages[-1]
        if self.submitted.get(last):
            return True
        if part.open_page is not None:
            return any(page == last and self.task.is_asked(page, each, part) for page, each in self._changed())
        must_be_sent = part.receipt is not None or self._submits_typed_text(last, part)
        return not must_be_sent and last in self.pages and all(self.evidence(each) is True for each in part.slots)

    def values_left(self, part: TaskPart) -> int:
        """Return about how many actions the values of a part need; fewer without a value than with a wrong one."""
        if self.submitted.get(part.pages[-1]):
            return 0
        free = (page for page, each in self.unasked(part) if wanted(each, self.task.slots_on(page)) is None)
        unmet = () if self.is_done(part) else (slot for slot in part.slots if self.evidence(slot) is not True)
        return sum(1 for _ in free) + sum(map(self._cost_of, unmet))

    def _cost_of(self, slot: Slot) -> int:
        for control in self._meant(slot):
            if control.kind == "stepper":
                return abs(int(slot.value) - int(control.value))
            is_changed = control.value != self.first[slot.page, control.key]
            return 1 + (is_changed and not slot.value.startswith(control.value))
        return 1 + self.picked_otherwise(slot)

    def picked_otherwise(self, slot: Slot) -> bool:
        """Whether something else was picked in the lists of a constraint's page, and never what is asked for."""
        values = [each.value for each in self.task.slots]
        lists = (pick for pick in self.picks[slot.page] if pick.group not in PRESSED_ALONE)
        return self.evidence(slot) is None and any(not any(map(pick.answers, values)) for pick in lists)


def _standing(control: Control) -> str:
    return f'"{control.label}" stands at "{control.value}"'


class AnnotatedReading:
    """An episode on pages that its query annotates, and whose names are in the trees of the screens."""

    def __init__(self, task: AnnotatedTask, steps: Sequence[SeenStep]) -> None:
        self.steps, self._task, self._parts = steps, task, task.parts()
        self._gives_up = bool(steps) and steps[-1].action.gives_up

    def problems(self) -> list[Problem]:
        if not self.steps or not (self.steps[-1].action.ends or self._gives_up):
            return [Problem("the agent did not say that it was done")]
        found = self._end.problems(self._gives_up)
        if not self._gives_up and (asked := self._task.question):
            # Any page of the item may show the value, not only that of the path.
            items, looks = {slot.value.casefold() for slot in self._task.slots}, chain(*self._end.looks.values())
            shown = (look for look in looks if look.page == asked.page or look.title.casefold() in items)
            found += unanswered(self.steps[-1].action, asked, (text for look in shown for text in look.texts))
        if self._gives_up and not found and self._end.unseen:
            raise JudgeFailure(f'no screen shows whether "{self._end.unseen[0]}" was chosen')
        return list(map(Problem, found))

    def left(self) -> list[Left]:
        places, found = self._places(), list[Left]()
        ways = self._ways(places)
        for at, state in enumerate(self._states()):
            # A press without effect was probably lost; on the last page it may be a choice that no screen shows.
            outcome = self.steps[at - 1].outcome
            lost = at > 0 and outcome.same and outcome.after.page != self._task.pages[-1]
            found.append(found[-1] if lost else self._left(state, ways, places[: at + 1]))
        return found

    def use_of(self, at: int) -> str:
        step = self.steps[at]
        before, after, element = step.outcome.before, step.outcome.after, step.action.element
        asked = self._task.slots_on(after.page)
        for control, _ in step.outcome.changes:
            if control.kind == "search" and any(same_value(control.value, slot.value) for slot in self._task.slots):
                return "It searched for what was asked."
            if any(after.page in part.pages and self._task.is_asked(after.page, control, part) for part in self._parts):
                return f'The user speaks of "{control.label}".'
        if step.outcome.opened or step.outcome.changes:
            return ""
        if self._absent in asked and step.action.kind in ("swipe", "scroll"):
            return "It looked for what is not there."
        if any(slot.value.casefold() in after.texts - before.texts for slot in asked):
            return "It brought what was asked for into view."
        label = element.text if element is not None and "editable" in element.states else None
        fields = [one for one in after.controls.values() if one.label == label and after.page in self._task.pages]
        is_asked = any(one.kind == "search" or wanted(one, asked) or self._task.is_about(one.label) for one in fields)
        return "It opened or closed an input that the task needs." if is_asked else ""

    @cached_property
    def _end(self) -> EpisodeState:
        *_, end = self._states()
        return end

    @cached_property
    def _absent(self) -> Slot | None:
        """The constraint that cannot be met, if the agent rightly says so."""
        return self._end.absent() if self._gives_up and not self.problems() else None

    def _states(self) -> Iterator[EpisodeState]:
        """Yield a state that grows: before the first step, and after each one."""
        state = EpisodeState(self._task)
        state.enter(self.steps[0].outcome.before)
        yield state
        for step in self.steps:
            state.observe(step)
            yield state
        self._end = state

    def _left(self, state: EpisodeState, ways: Ways, places: Sequence[str]) -> Left:
        """Return what is left: parts that are not done, the way past all pages with something wrong, and values.

        The way is as `GoalDistance` measures it: within each app from the page on which it was left, and between apps.
        """
        parts = [part for part in self._parts if not state.is_done(part)]
        again = {slot.page for part in parts for slot in part.slots if self._must_return(slot, state, places)}
        again |= {page for part in parts for page, _ in state.unasked(part)}
        stops = [page for part in parts for page in part.pages if page in again or page == part.pages[-1]]
        shown, here = {app_of(place): place for place in places}, app_of(places[-1])
        by_app = [(app, list(own)) for app, own in groupby(stops, key=app_of)]
        first = {part.app: part.pages[0] for part in reversed(self._parts)}
        away = sum(app != here for app, _ in by_app)
        way = sum(ways.past([shown.get(app, first[app]), *own]) for app, own in by_app)
        way += 2 * away - (here == _LAUNCHER and away > 0)
        values = sum(map(state.values_left, self._parts)) + len(state.unasked(None))
        return Left(len(state.found), len(parts), way, values)

    def _must_return(self, slot: Slot, state: EpisodeState, places: Sequence[str]) -> bool:
        """Whether something on a constraint's page is wrong, or it was only seen without what is asked for."""
        found, page = state.evidence(slot), slot.page
        lacking = page not in places and any(place.startswith(f"{page}/") for place in places)
        return found is False or (found is None and (lacking or state.picked_otherwise(slot)))

    def _place(self, screen: ScreenState) -> str:
        """Return the page of a screen, with its title if it is off the path or shows a whole list without its item."""

        def may_have(slot: Slot) -> bool:
            if not screen.items or screen.scrolls or slot == self._absent:
                return True
            if any(wanted(control, (slot,)) or control.kind == "search" for control in screen.controls.values()):
                return True
            return any(same_value(text, slot.value) for text in screen.texts)

        if "." not in screen.page:
            return _LAUNCHER
        is_right = screen.page in self._task.pages and all(map(may_have, self._task.slots_on(screen.page)))
        return screen.page if is_right else f"{screen.page}/{screen.title}"

    def _places(self) -> list[str]:
        screens = (self.steps[0].outcome.before, *(step.outcome.after for step in self.steps))
        places: list[str] = []
        for screen in screens:
            passing = places and screen.page in INTERRUPTIONS
            places.append(places[-1] if passing else self._place(screen))
        return places

    def _ways(self, places: Sequence[str]) -> Ways:
        """Return the ways within apps: those of the path, those of the episode, and back from what was opened."""
        ways: nx.DiGraph[str] = nx.DiGraph()
        ways.add_edges_from(leg for part in self._parts for leg in pairwise(part.pages))
        receipts = {part.receipt for part in self._parts}
        for step, here, there in zip(self.steps, places, places[1:], strict=False):
            if app_of(here) == app_of(there):
                ways.add_edge(here, there)
                if step.presses_forward and here not in receipts:
                    ways.add_edge(there, here)
        return Ways(ways)
