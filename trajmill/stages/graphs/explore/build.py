"""Makes the graph of an app from the pages and trials of an exploration."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import product
from typing import NamedTuple

from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import PathStep
from trajmill.stages.graphs.base import (
    OUTSIDE,
    AppGraph,
    GraphElement,
    GraphPage,
    GraphTransition,
    Mark,
    Recogniser,
    SlotKind,
    ValueType,
)
from trajmill.stages.graphs.check import sound
from trajmill.stages.graphs.explore.base import FIELDS, INPUTS, SETTING, Effect, Trial, TrialKind, WalkedScreen
from trajmill.stages.graphs.explore.deny_list import DenyList
from trajmill.stages.graphs.explore.features import recognisers, said, screen_change, sorts_by, visible_mark
from trajmill.stages.graphs.explore.forms import words_to_find
from trajmill.stages.graphs.explore.naming import element_names, name_of_address, slug, unique, word_of
from trajmill.stages.graphs.explore.pages import FoundPage, PageBook
from trajmill.stages.graphs.explore.plan import asks_for_password, is_denied
from trajmill.stages.graphs.explore.slots import FoundSlot, popup_options, slots_of, typed_texts
from trajmill.stages.graphs.operations import staying
from trajmill.stages.graphs.sentences import PLAIN_SENDING
from trajmill.stages.graphs.values import examples, notes_of_people, type_of_label

_NO_TRANSITIONS = SETTING | {TrialKind.SCROLL}
_SENT = re.compile(r"\b(?:enter|message|comment|reply|answer|chat)\b", re.IGNORECASE)
"""Labels of fields whose text somebody is to get."""
_CANCEL = re.compile("cancel|abbrechen|annuler|cancelar", re.IGNORECASE)
_SENDING = (TrialKind.SUBMIT, TrialKind.PLAIN)
_OPERATIONS = {TrialKind.DOUBLE: "double_tap", TrialKind.HOLD: "hold", TrialKind.ENTER: "key"}


class _PageParts(NamedTuple):
    name: str
    page: FoundPage
    slots: list[FoundSlot]
    elements: dict[str, str]
    """By target, the name of an element."""

    def slot_with(self, target: str) -> FoundSlot | None:
        return next((slot for slot in self.slots if target in slot.targets), None)

    def name_of(self, target: str) -> str:
        slot = self.slot_with(target)
        return slot.name if slot is not None else self.elements[target]


class GraphBuilder:
    def __init__(self, app: AppGraph, book: PageBook, trials: Sequence[Trial], deny_list: DenyList) -> None:
        self._app, self._book, self._deny_list = app, book, deny_list
        self._screens = {screen.screen_id: screen for page in book.pages for screen in page.every_screen}
        self._trials: dict[int, list[Trial]] = defaultdict(list)
        for trial in trials:
            if (known := book.page_of(trial.before)) is not None:
                self._trials[known.number].append(trial)
        on_pages = [trial for each in self._trials.values() for trial in each]
        self._origins = {trial.after: trial for trial in reversed(on_pages)}
        """By screen, the first trial that led there."""
        self._typed = typed_texts(on_pages, self._screens)
        self._popups = popup_options(on_pages, self._screens)
        self._leaving = {trial.target for trial in trials if trial.effect is Effect.LEFT}
        filled = [each for each in on_pages if each.kind is TrialKind.FILL and each.after]
        telling = {each.target for each in filled if self._said(each.before) != self._said(each.after)}
        self._idle = {each.target for each in filled} - telling
        """Fields of which no text changes anything else."""
        self.names: list[str] = []
        """Of the pages, by number."""
        for page in book.pages:
            self.names.append(unique(self._page_name(page), (*self.names, OUTSIDE)))

    @property
    def screens_by_page(self) -> dict[str, list[WalkedScreen]]:
        return {self.names[page.number]: page.screens for page in self._book.pages}

    def build(self, screenshots: Mapping[str, str]) -> AppGraph:
        """Build the graph; `screenshots` are the files of pictures by screen id."""
        parts = zip(map(self._parts, self._book.pages), recognisers(self._book.pages), strict=True)
        pages = {part.name: self._page(part, recogniser, screenshots) for part, recogniser in parts}
        return sound(self._app.model_copy(update={"start": self.names[0], "pages": pages}))

    def _parts(self, page: FoundPage) -> _PageParts:
        slots = slots_of(page, self._trials[page.number], self._typed, self._popups)
        in_slots = {target for slot in slots for target in slot.targets}
        below = self._book.below(page)
        elements = {
            target: found.element
            for target, found in page.elements.items()
            if target not in in_slots and self._belongs(page, target, found.element, target in below)
        }
        names = element_names(elements, [slot.name for slot in slots])
        marked = [self._marked(page, each) for each in slots]
        return _PageParts(self.names[page.number], page, marked, names)

    def _marked(self, page: FoundPage, slot: FoundSlot) -> FoundSlot:
        """Mark what is typed to be looked for or sent, if that changes nothing else wherever it was tried.

        A field without a label is for a search if what opened it says so, such as *Find*.
        """
        spec, (origin, before) = slot.slot, self._origin(page)
        opened_by = self._pressed_text(origin) if origin and spec.target not in before.elements else ""
        if spec.is_nameless and type_of_label(opened_by) is ValueType.SEARCH:
            values = words_to_find(page) or examples()[ValueType.SEARCH]
            spec = spec.model_copy(update={"type": ValueType.SEARCH, "values": values})
        elif spec.is_nameless:
            spec = spec.model_copy(update={"values": notes_of_people()})
        is_sent = spec.type is ValueType.SEARCH or _SENT.search(spec.name) is not None
        is_idle = is_sent and spec.kind is SlotKind.FIELD and spec.target in self._idle
        return slot._replace(slot=spec.model_copy(update={"marks": (Mark.IDLE,)}) if is_idle else spec)

    def _belongs(self, page: FoundPage, target: str, element: UIElement, is_below: bool) -> bool:
        """Whether an element is listed: it was tried, or can be operated and stands on no page below."""
        operable = not is_below and (element.clickable or element.role in FIELDS)
        return self._is_tried(page, target) or (operable and bool(element.text or element.element_id))

    def _is_tried(self, page: FoundPage, target: str) -> bool:
        """Whether an element was operated; scrolling it says nothing."""
        return any(each.target == target and each.kind is not TrialKind.SCROLL for each in self._trials[page.number])

    def _page(self, part: _PageParts, recogniser: Recogniser, screenshots: Mapping[str, str]) -> GraphPage:
        page = GraphPage(
            title=self._title(part.page),
            recognise=recogniser,
            marks=self._page_marks(part.page),
            screenshot=screenshots.get(part.page.first.screen_id, ""),
            scrolls=bool(part.page.scrolled),
            elements={name: self._element(part, target) for target, name in part.elements.items()},
            slots={slot.name: slot.slot for slot in part.slots},
            transitions=self._transitions(part),
        )
        known = staying(page, part.name).keys()
        later = {name for name, each in page.elements.items() if each.target not in part.page.first.by_target}
        alone = (e for e in page.transitions if known >= {*e.after} or e.by not in later)
        ways = (e if known >= {*e.after} else e.model_copy(update={"after": ()}) for e in alone)
        leading = {each.by for each in page.transitions if Mark.IDLE not in each.marks}
        # An element whose trial failed or led to a page beyond the bounds may still do something.
        stays, trials = (Effect.NOTHING, Effect.LEFT), self._trials[part.page.number]
        told = (each for each in trials if each.effect in stays or self._book.page_of(each.after))
        tried = {part.elements.get(each.target) for each in told} - leading
        vain = {name: each for name, each in page.elements.items() if name in tried and not each.marks}
        marked = {name: each.model_copy(update={"marks": (Mark.IDLE,)}) for name, each in vain.items()}
        return page.model_copy(update={"transitions": tuple(ways), "elements": page.elements | marked})

    def _page_marks(self, page: FoundPage) -> tuple[Mark, ...]:
        """Mark a page that asks for a password, and one that is another page with something opened on it."""
        origin, before = self._origin(page)
        is_window = not page.key.address and page.key.title != self._book.pages[0].key.title
        cancels = sum(_CANCEL.fullmatch(each.text) is not None for each in page.first.elements)
        awaits = cancels == 1 and (is_window or bool(page.key.dialogs))
        holds = {Mark.NEEDS_LOGIN: asks_for_password(page), Mark.AWAITS: awaits, Mark.OPENS: False}
        if origin is not None and page.key.address == before.key.address:
            mark = visible_mark(self._screens[origin.before], page.first, before.standing)
            holds[Mark.OPENS] = bool(page.key.menu - before.key.menu) or mark is not None
        return tuple(mark for mark, held in holds.items() if held)

    def _origin(self, page: FoundPage) -> tuple[Trial | None, FoundPage]:
        """The trial that first led to a page, and the page before; none and the page itself for the start."""
        origin = self._origins.get(page.first.screen_id) if page.number else None
        before = self._book.page_of(origin.before) if origin is not None else None
        return (origin, before) if before is not None else (None, page)

    def _element(self, part: _PageParts, target: str) -> GraphElement:
        element = part.page.elements[target].element
        tried = self._is_tried(part.page, target)
        denied = not tried and is_denied(part.page, element, self._deny_list, self._app.platform)
        holds = {Mark.DESTRUCTIVE: denied, Mark.LEAVES: target in self._leaving}
        marks = tuple(mark for mark, held in holds.items() if held)
        return GraphElement(target=target, role=element.role, name=element.text, marks=marks, box=element.bounds)

    def _transitions(self, part: _PageParts) -> tuple[GraphTransition, ...]:
        found: list[GraphTransition] = []
        for trial in self._trials[part.page.number]:
            transition = self._transition(part, trial)
            if transition is not None and not any(_adds_nothing(transition, other) for other in found):
                found.append(transition)
        return (*found, *self._shared_ways(part, {each.by for each in found}))

    def _shared_ways(self, part: _PageParts, known: set[str]) -> Iterator[GraphTransition]:
        """Yield where links lead that another page has in the same place, and that were only tried there."""
        for other in self._book.pages:
            for target in sorted(self._book.shared(part.page, other) & other.results.keys()):
                by, end = part.elements.get(target), other.results[target]
                # If just one link of a menu does nothing on a page, it leads to that page; with several, nobody knows.
                group = other.group_of(target)
                menu = group.items.values() if group is not None and group.is_run else ()
                leads_on = [each for each in menu if other.results.get(each) == other.number] == [target]
                if by is None or by in known or end in (-1, part.page.number) or (end == other.number and not leads_on):
                    continue
                # A link to a part of the same page works only there, but the tabs of a window work everywhere.
                here, there = part.page.key, self._book.pages[end].key
                is_tab = here._replace(tabs=there.tabs) == there
                if leads_on or is_tab or there.address != other.key.address:
                    known.add(by)
                    yield GraphTransition(by=by, to=self.names[end])

    def _transition(self, part: _PageParts, trial: Trial) -> GraphTransition | None:
        """Return what a trial tells of a way from its page, or on it; None if that is nothing."""
        slot = part.slot_with(trial.target)
        is_key = slot is not None and slot.slot.kind is SlotKind.KEYPAD
        if trial.kind in _NO_TRANSITIONS or trial.undone or trial.effect not in (Effect.CHANGED, Effect.LEFT) or is_key:
            return None
        after = self._operated_before(part, trial)
        if after is None and trial.target not in part.page.first.by_target:
            return None  # It shows only in a state of this page that other pages set.
        used = _slots_used(part, trial.steps[:-1])
        way = GraphTransition(
            by=part.name_of(trial.target),
            operation=_OPERATIONS.get(trial.kind, "tap"),
            keys=trial.steps[-1].text if trial.kind is TrialKind.ENTER else "",
            slots=tuple(dict.fromkeys(used.values())),
            after=after or (),
            to=OUTSIDE,
            does=slot.does if slot is not None and trial.kind is not TrialKind.HOLD else "",
            submits=bool(used) and trial.kind in (TrialKind.SUBMIT, TrialKind.PLAIN, TrialKind.ENTER),
        )
        if trial.effect is Effect.LEFT:
            return way.model_copy(update={"marks": (Mark.LEAVES,), "address": trial.address})
        to = self._book.page_of(trial.after)
        if to is None or (slot is not None and slot.slot.opens and to is part.page):
            return None  # Beyond the most pages; or the list of a choice was opened, or one of it chosen.
        if slot is not None and slot.slot.is_picked:
            used[slot.value_of(trial.target)] = slot.name
        return self._with_effect(part, trial, way.model_copy(update={"to": self.names[to.number]}), used)

    def _with_effect(
        self, part: _PageParts, trial: Trial, way: GraphTransition, used: Mapping[str, str]
    ) -> GraphTransition | None:
        """Return a transition with what it shows and changes; `used` has the slot of each value on the way.

        None for a button that needs no form for what it does, and for what changes nothing.
        """
        first, last = self._screens[trial.before], self._screens[trial.after]
        # The inputs themselves, and suggestions of earlier entries, say nothing about an effect.
        own = FIELDS if trial.kind is TrialKind.PRESS else INPUTS
        shows, lacks = screen_change(first, last, used, way.to != part.name, own)
        telling = tuple(each for each in shows if each.is_open)
        is_other = self._does_alone(part, trial) or (not telling and self._is_no_search(part, way, trial))
        if way.submits and (is_other or self._only_leaves_field(part, trial)):
            return None
        if way.to != part.name:
            return way.model_copy(update={"shows": telling})
        if not (shows or lacks):
            return None
        head = first.by_target.get(trial.target) if part.slot_with(trial.target) is None else None
        if head is not None and (does := sorts_by(head, last)):
            # After a search, the heads still tell the order, but the rows may be others.
            heads = {each.text for each in last.elements if each.bounds.top == head.bounds.top}
            in_heads = tuple(each for each in shows if each.text in heads)
            return way.model_copy(update={"does": does, "shows": in_heads or shows})
        mark = None if telling or way.does else visible_mark(first, last, part.page.standing)
        return way.model_copy(update={"shows": shows, "lacks": lacks, "marks": (mark,) if mark else ()})

    def _does_alone(self, part: _PageParts, trial: Trial) -> bool:
        """Whether a button does the same without the inputs before it, or Enter no more than typing did."""
        same = (e for e in self._trials[part.page.number] if e.target == trial.target and e.after in self._screens)
        ends = (trial, *(each for each in same if each.kind in SETTING | {TrialKind.PRESS}))
        told, *alone = ({e[:2] if e[0] in INPUTS else e for e in self._said(each.after)} for each in ends)
        return told in alone

    def _is_no_search(self, part: _PageParts, way: GraphTransition, trial: Trial) -> bool:
        """Whether only words to look for were entered, and what was pressed then says that it does something else."""
        element = self._screens[trial.before].by_target.get(trial.target)
        text = element.text if element is not None and trial.kind is not TrialKind.ENTER else ""
        sends = not text or type_of_label(text) is ValueType.SEARCH or text.lower() in PLAIN_SENDING
        own = (each.slot for each in part.slots if each.name in way.slots)
        return not sends and {each.type for each in own if each.kind is SlotKind.FIELD} == {ValueType.SEARCH}

    def _only_leaves_field(self, part: _PageParts, trial: Trial) -> bool:
        """Whether a button above the fields does all that Enter does: it sends them by taking the focus."""
        shown = self._screens[trial.before].by_target
        button, first = shown.get(trial.target), shown.get(trial.steps[0].target)
        above = button is not None and first is not None and button.bounds.bottom <= first.bounds.top
        done = [e for e in self._trials[part.page.number] if above and e.after in self._screens]
        entered = [(self._said(e.before), self._said(e.after)) for e in done if e.kind is TrialKind.ENTER]
        by_key = [after for before, after in entered if not after <= before]
        by_button = (self._said(e.after) for e in done if e.kind in _SENDING and e.target == trial.target)
        return trial.kind in _SENDING and any(key <= end for key, end in product(by_key, by_button))

    def _said(self, screen_id: str) -> Set[tuple[object, ...]]:
        return said(self._screens[screen_id], FIELDS).keys()

    def _operated_before(self, part: _PageParts, trial: Trial) -> tuple[str, ...] | None:
        """The elements of the page that were operated on the way to the screen of a trial; None for another way."""
        known = (each for each in self._trials[part.page.number] if each.after and each.kind not in SETTING)
        stays = [each for each in known if self._book.page_of(each.after) is part.page]
        names: list[str] = []
        way = part.page.way
        while way != trial.way and trial.way[: len(way)] == way:
            left = trial.way[len(way) :]
            step = next((each for each in stays if each.way == way and left[: len(each.steps)] == each.steps), None)
            if step is None:
                return None
            if step.kind is not TrialKind.SCROLL:
                names.append(part.name_of(step.target))
            way = (*way, *step.steps)
        return tuple(names) if way == trial.way else None

    def _title(self, page: FoundPage) -> str:
        """What the page calls itself: its dialog, its first heading unless an item has it, else its title bar."""
        tops = [each.elements for each in page.screens if not any("scrollable_up" in e.states for e in each.elements)]
        texts = [{each.text for each in top if each.role == "heading"} for top in tops if page.origin]
        heads = (e.text for e in page.first.elements if e.role == "heading" and "title" not in e.states)
        heading = next((each for each in heads if all(each in found for found in texts)), "")
        bar, main = page.key.title, self._book.pages[0].key.title
        bar = main if not page.key.address and bar.rpartition(" - ")[1:] == main.rpartition(" - ")[1:] else bar
        title = next(iter(sorted(page.key.dialogs)), "") or heading or bar
        return title if any(map(str.isalpha, title)) else ""

    def _page_name(self, page: FoundPage) -> str:
        if not page.number:
            return "start"
        origin, before = self._origin(page)
        pressed = self._pressed_text(origin) if origin else ""
        if page.key.menu - before.key.menu:
            return f"{slug(pressed) or 'open'}-menu"
        if page.key.title != before.key.title:
            return slug(page.key.title) or "page"
        if page.key.dialogs - before.key.dialogs:
            return slug(min(page.key.dialogs - before.key.dialogs)) or f"{slug(pressed)}-dialog".strip("-")
        if page.key.address != before.key.address:
            name = name_of_address(page.key.address)
            return (name if name != name_of_address(before.key.address) else "") or slug(pressed) or name or "page"
        return slug(pressed) or "page"

    def _pressed_text(self, trial: Trial) -> str:
        if trial.kind in (TrialKind.ENTER, TrialKind.FILL):
            return "filled"
        element = self._screens[trial.before].by_target.get(trial.target)
        return word_of(element) if element else ""


def _slots_used(part: _PageParts, steps: Sequence[PathStep]) -> dict[str, str]:
    """By the value that each gets, the slots that the steps of a trial set."""
    used: dict[str, str] = {}
    opened: FoundSlot | None = None
    for step in steps:
        slot = opened if opened is not None and step.target in opened.targets else part.slot_with(step.target)
        if slot is None or step.operation not in ("tap", "replace"):
            continue
        kind = slot.slot.kind
        opened = slot if kind is SlotKind.CHOICE and step.target == slot.slot.opens else None
        if kind is SlotKind.FIELD and step.operation == "replace":
            used[step.text] = slot.name
        elif kind is SlotKind.CHOICE and opened is None:
            used[slot.value_of(step.target)] = slot.name
        elif kind is SlotKind.SWITCH:
            used[f"{slot.name}\n"] = slot.name  # No screen says its value.
    return used


def _adds_nothing(transition: GraphTransition, known: GraphTransition) -> bool:
    """Whether a transition adds nothing to a known one: the same target page, and no slot value shown."""
    alike = all(getattr(transition, name) == getattr(known, name) for name in ("by", "keys", "to", "submits"))
    same_slots = transition.slots == known.slots or not any(each.is_open for each in transition.shows)
    return alike and same_slots
