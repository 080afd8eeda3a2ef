"""Decides what is tried on a page of a running app, and what never is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.graphs.explore.base import ExploreBounds, PlannedTrial, TrialKind
from trajmill.stages.graphs.explore.deny_list import DenyList
from trajmill.stages.graphs.explore.pages import FoundElement, FoundPage, ListOrigin

ITEMS = frozenset({"list_item", "icon", "radio", "cell"})
"""Roles of elements of which several are alike; only the first ones are tried."""
_MOST_ITEMS = 2
FIELDS = frozenset({"text_field", "search_field"})
SLIDER = "slider"
NUMBER = "7"
"""What fields that do not take a text are filled with."""
KEYS = {TrialKind.HIGHEST: "end", TrialKind.LOWEST: "home"}
"""The keys that move a slider."""
BUTTONS = frozenset({"button", "icon_button"})
_MOST_SCROLLED = 8
"""Most further parts of one page."""
SCROLLABLE = "scrollable_down"
_OPENED_BY_TWO = frozenset({"icon", "list_item"})


def trials_on(
    page: FoundPage,
    below: Collection[str],
    numbers: Collection[str],
    bounds: ExploreBounds,
    deny_list: DenyList,
    platform: Platform,
) -> Iterator[PlannedTrial]:
    """Plan what to try on a page, within the bounds: scrolling, presses, fields, sliders, forms.

    `below` are elements of the page below a menu or a dialog, which are tried there; `numbers` are fields that did not
    take a text.
    """
    if len(page.way) >= bounds.depth:
        return
    planned = (
        *_scrolls(page),
        *_presses(page, deny_list, platform),
        *_fields(page, numbers, bounds),
        *_sliders(page, platform),
        *_forms(page, numbers, bounds, deny_list, platform),
    )
    yield from islice((trial for trial in planned if trial.target not in below), bounds.breadth)


def asks_for_password(page: FoundPage) -> bool:
    """Whether a page has a field for a password; nothing is typed or sent there."""
    return any("password" in found.element.states for found in page.elements.values())


def items_of(page: FoundPage) -> dict[str, list[str]]:
    """The elements that are alike, by their role and the common part of their ids: names in paths."""
    found: dict[str, list[str]] = defaultdict(list)
    for target, each in page.elements.items():
        if each.element.role in ITEMS and (each.element.clickable or each.element.role == "radio"):
            found[_kind_of_item(each.element)].append(target)
    return dict(found)


def origin_of(page: FoundPage, target: str) -> ListOrigin | None:
    """The list that an element is an item of; None for another element."""
    found = page.elements.get(target)
    if found is None or found.element.role not in ITEMS:
        return None
    return ListOrigin(page.number, _kind_of_item(found.element))


def fields_of(page: FoundPage) -> list[str]:
    return [target for target, found in page.elements.items() if _is_field(found.element)]


def filling_of(
    fields: Sequence[str], numbers: Collection[str], text: str, way: Sequence[PathStep]
) -> tuple[PathStep, ...]:
    """The operations that fill fields, each with a number or a text that was not typed on the way either."""
    typed = sum(step.operation == "replace" for step in way)
    texts = [f"{text} {typed + number}" if typed + number > 1 else text for number in range(1, len(fields) + 1)]
    texts = [NUMBER if field in numbers else own for field, own in zip(fields, texts, strict=True)]
    return tuple(
        step
        for target, own in zip(fields, texts, strict=True)
        for step in (
            PathStep(page="", operation="tap", target=target),
            PathStep(page="", operation="replace", target=target, text=own),
        )
    )


def _scrolls(page: FoundPage) -> Iterator[PlannedTrial]:
    """Scroll each region, and go on from where it was scrolled to."""
    if len(page.scrolled) >= _MOST_SCROLLED:
        return
    for target, found in page.elements.items():
        if SCROLLABLE in found.element.states and found.way == page.way:
            yield _planned(found, TrialKind.SCROLL, target, "scroll")
    for part in page.scrolled:
        region = part.screen.by_target.get(part.region)
        if region is not None and SCROLLABLE in region.states:
            step = PathStep(page="", operation="scroll", target=part.region)
            yield PlannedTrial(part.way, part.screen.screen_id, TrialKind.SCROLL, part.last, (step,))


def _presses(page: FoundPage, deny_list: DenyList, platform: Platform) -> Iterator[PlannedTrial]:
    skipped = {target for items in items_of(page).values() for target in items[_MOST_ITEMS:]}
    for target, found in page.elements.items():
        element = found.element
        if not element.clickable or target in skipped or element.role in (*FIELDS, SLIDER):
            continue
        if deny_list.denies(element.text):
            continue
        if not (element.text or element.element_id or element.role == "checkbox"):
            continue
        if element.role == "menu" and not element.text:  # The frame around the entries of a menu.
            continue
        yield _planned(found, TrialKind.PRESS, target, "tap")
        if element.role in _OPENED_BY_TWO and platform is Platform.DESKTOP:
            yield _planned(found, TrialKind.DOUBLE, target, "double_tap")


def _fields(page: FoundPage, numbers: Collection[str], bounds: ExploreBounds) -> Iterator[PlannedTrial]:
    for target in fields_of(page):
        found = page.elements[target]
        filling = filling_of([target], numbers, bounds.text, found.way)
        kind = TrialKind.NUMBER if target in numbers else TrialKind.FILL
        yield PlannedTrial(found.way, found.screen_id, kind, target, filling)
        if bounds.submit and not asks_for_password(page):
            enter = PathStep(page="", operation="key", target="", text="enter")
            yield PlannedTrial(found.way, found.screen_id, TrialKind.ENTER, target, (*filling, enter))


def _sliders(page: FoundPage, platform: Platform) -> Iterator[PlannedTrial]:
    if platform is Platform.PHONE:
        return
    for target, found in page.elements.items():
        if found.element.role == SLIDER and "disabled" not in found.element.states:
            press = PathStep(page="", operation="tap", target=target)
            for kind, key in KEYS.items():
                step = PathStep(page="", operation="key", target="", text=key)
                yield PlannedTrial(found.way, found.screen_id, kind, target, (press, step))


def _forms(
    page: FoundPage, numbers: Collection[str], bounds: ExploreBounds, deny_list: DenyList, platform: Platform
) -> Iterator[PlannedTrial]:
    fields = fields_of(page)
    if not bounds.submit or not fields or asks_for_password(page):
        return
    filling = filling_of(fields, numbers, bounds.text, page.elements[fields[0]].way)
    for target, found in page.elements.items():
        together = all(page.elements[each].screen_id == found.screen_id for each in fields)
        if found.element.role in BUTTONS and together and not deny_list.denies(found.element.text):
            # On a phone the keyboard may cover the button.
            operations = ("scroll", "tap") if platform is Platform.PHONE else ("tap",)
            presses = (PathStep(page="", operation=operation, target=target) for operation in operations)
            yield PlannedTrial(found.way, found.screen_id, TrialKind.SUBMIT, target, (*filling, *presses))


def _planned(found: FoundElement, kind: TrialKind, target: str, operation: str) -> PlannedTrial:
    step = PathStep(page="", operation=operation, target=target)
    return PlannedTrial(found.way, found.screen_id, kind, target, (step,))


def _is_field(element: UIElement) -> bool:
    return (
        element.role in FIELDS and "editable" in element.states and not {"password", "disabled"} & set(element.states)
    )


def _kind_of_item(element: UIElement) -> str:
    name = element.element_id
    mark = next((mark for mark in (":", "/") if mark in name), "")
    return f"{element.role} {name.rpartition(mark)[0] if mark else name}".strip()
