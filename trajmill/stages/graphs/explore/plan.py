"""Decides what is tried on a page of a running app, and what never is."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain, islice
from string import digits

from trajmill.schemas.observation import HOLDABLE, UIElement
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.graphs.explore.base import (
    BOX,
    FIELDS,
    SLIDER,
    SWITCHES,
    ExploreBounds,
    PlannedTrial,
    TrialKind,
    step,
)
from trajmill.stages.graphs.explore.deny_list import DenyList
from trajmill.stages.graphs.explore.forms import filling_of, forms_of, is_field
from trajmill.stages.graphs.explore.items import NUMBER, ItemGroup
from trajmill.stages.graphs.explore.pages import FoundElement, FoundPage, ListOrigin
from trajmill.stages.graphs.operations import keys_of
from trajmill.stages.graphs.values import results

_ITEMS = frozenset({"list_item", "icon", "radio", "cell"})
"""Roles of elements of which several are alike; only the first ones are tried."""
_MOST_ITEMS = 2
KEYS = {TrialKind.HIGHEST: "end", TrialKind.LOWEST: "home"}
"""The keys that move a slider."""
_MOST_SCROLLED = 8
"""Most further parts of one page."""
SCROLLABLE = "scrollable_down"
_PLAIN_SIGNS = str.maketrans("×÷−", "*/-")
_CLOSE = re.compile(r"(?<!\w)(?<!konto )(?:close|schließen)(?!\w)(?! account)", re.IGNORECASE)
_Denied = Callable[[UIElement], bool]
OPENS_DIALOG = ("...", "…")
"""How the text of a button or menu item ends that opens a dialog."""


def promises_dialog(text: str) -> bool:
    return text.rstrip().endswith(OPENS_DIALOG)


def trials_on(
    page: FoundPage,
    elsewhere: Collection[str],
    numbers: Collection[str],
    bounds: ExploreBounds,
    deny_list: DenyList,
    platform: Platform,
) -> Iterator[PlannedTrial]:
    """Plan what to try on a page, within the bounds: scrolling, fields, sliders, forms, presses.

    `elsewhere` are elements that are tried on another page: below a menu or a dialog, and of the header; `numbers` are
    fields that did not take a text. Presses come last: a page may have more of them than the bounds allow.
    """
    if len(page.way) >= bounds.depth:
        return
    denied = partial(is_denied, page, deny_list=deny_list, platform=platform)
    planned = chain(
        _scrolls(page),
        _fields(page, numbers, bounds),
        _sliders(page, platform),
        _keypads(page),
        _forms(page, numbers, bounds, denied, platform),
        _presses(page, denied, platform),
    )
    yield from islice((trial for trial in planned if trial.target not in elsewhere), bounds.breadth)


def asks_for_password(page: FoundPage) -> bool:
    """Whether a page has a field for a password; nothing is submitted there, and that field stays empty."""
    return any("password" in found.element.states for found in page.elements.values())


def items_of(page: FoundPage) -> dict[str, list[str]]:
    """The elements that are alike, by their role and the common part of their ids: names in paths."""
    found: dict[str, list[str]] = defaultdict(list)
    for target, each in page.elements.items():
        if each.element.role in _ITEMS and (each.element.clickable or each.element.role == "radio"):
            found[_kind_of_item(each.element)].append(target)
    return dict(found)


def origin_of(page: FoundPage, target: str) -> ListOrigin | None:
    """The list that an element is an item of; None for another element, also of a menu."""
    found, group = page.elements.get(target), page.group_of(target)
    if group is not None:
        return None if group.is_run and _differ(page, group) else ListOrigin(page.number, group.kind)
    if found is None or found.element.role not in _ITEMS:
        return None
    return ListOrigin(page.number, _kind_of_item(found.element))


def lists_of(page: FoundPage) -> list[ItemGroup]:
    """The groups of which each item does the same: rows, and runs whose first items lead to one other page."""
    differ = ((group, _differ(page, group)) for group in page.groups)
    return [group for group, told in differ if told is False or (told is None and not group.is_run)]


def _differ(page: FoundPage, group: ItemGroup) -> bool | None:
    """Whether items of a group lead to different places, as in a menu; None until enough were tried."""
    ends = [page.results[target] for target in group.items.values() if target in page.results][:_MOST_ITEMS]
    if len(ends) < min(_MOST_ITEMS, len(group.items)):
        return None
    is_row = not group.is_run or bool(group.verb)
    return len(set(ends)) > 1 or ends[0] < 0 or (ends[0] == page.number and not is_row)


def _scrolls(page: FoundPage) -> Iterator[PlannedTrial]:
    """Scroll each region, and go on from where it was scrolled to."""
    if len(page.scrolled) >= _MOST_SCROLLED:
        return
    for target, found in page.elements.items():
        if SCROLLABLE in found.element.states and found.way == page.way:
            yield _planned(found, TrialKind.SCROLL, step("scroll", target))
    for part in page.scrolled:
        region = part.screen.by_target.get(part.region)
        if region is not None and SCROLLABLE in region.states:
            steps = (step("scroll", part.region),)
            yield PlannedTrial(part.way, part.screen.screen_id, TrialKind.SCROLL, part.last, steps)


def _presses(page: FoundPage, denied: _Denied, platform: Platform) -> Iterator[PlannedTrial]:
    skipped = {target for items in items_of(page).values() for target in items[_MOST_ITEMS:]}
    # The first items tell whether the others do the same.
    groups = [list(group.items.values()) for group in page.groups if not _differ(page, group)]
    skipped.update(target for items in groups for target in items[_MOST_ITEMS:])
    # Dialogs hold the fields and settings that people ask for.
    for target, found in sorted(page.elements.items(), key=lambda each: not promises_dialog(each[1].element.text)):
        element = found.element
        if target in skipped or element.role in (*FIELDS, SLIDER):
            continue
        is_frame = element.role == "menu" and not element.text  # around the entries of a menu
        if is_frame or denied(element) or not (element.text or element.element_id or element.role == "checkbox"):
            continue
        is_icon = element.role in ("icon", "list_item") and platform is Platform.DESKTOP
        if HOLDABLE in element.states or is_icon:
            yield _planned(found, TrialKind.HOLD, step("hold", target))
        if not element.clickable:
            continue
        yield _planned(found, TrialKind.PRESS, step("tap", target))
        if is_icon:
            yield _planned(found, TrialKind.DOUBLE, step("double_tap", target))


def is_denied(page: FoundPage, element: UIElement, deny_list: DenyList, platform: Platform) -> bool:
    """Whether an element must not be pressed; to close a dialog, or something on a web page, ends no program."""
    only_closes = platform is Platform.WEB or bool(page.key.dialogs)
    return deny_list.search(_CLOSE.sub("", element.text) if only_closes else element.text) is not None


def _fields(page: FoundPage, numbers: Collection[str], bounds: ExploreBounds) -> Iterator[PlannedTrial]:
    fields = ((target, found) for target, found in page.elements.items() if is_field(found.element))
    for target, found in fields:
        filling = filling_of(page, (target,), numbers)
        kind = TrialKind.NUMBER if target in numbers else TrialKind.FILL
        yield PlannedTrial(found.way, found.screen_id, kind, target, filling)
        if bounds.submit and not asks_for_password(page):
            steps = (*filling, step("key", "", "enter"))
            yield PlannedTrial(found.way, found.screen_id, TrialKind.ENTER, target, steps)


def _sliders(page: FoundPage, platform: Platform) -> Iterator[PlannedTrial]:
    for target, found in page.elements.items():
        if platform is not Platform.PHONE and found.element.role == SLIDER and "disabled" not in found.element.states:
            for kind, key in KEYS.items():
                yield _planned(found, kind, step("tap", target), step("key", "", key))


def keys_on(page: FoundPage) -> dict[str, str]:
    """The keys of a keypad by digit, sign and `=`; empty for a page without one."""
    found = {found.element.text.translate(_PLAIN_SIGNS): target for target, found in page.elements.items()}
    keys = {key: found[key] for key in f"{digits}+-*/=" if key in found}
    return keys if keys.keys() >= {*digits, "+", "="} else {}


def _keypads(page: FoundPage) -> Iterator[PlannedTrial]:
    """Enter one sum on a keypad; the walks of queries try the others."""
    if keys := keys_on(page):
        steps = tuple(step("tap", keys[key]) for key in keys_of(next(iter(results()))))
        yield PlannedTrial(page.way, page.first.screen_id, TrialKind.KEYPAD, steps[-1].target, steps)


def _forms(
    page: FoundPage, numbers: Collection[str], bounds: ExploreBounds, denied: _Denied, platform: Platform
) -> Iterator[PlannedTrial]:
    """Fill all that a form asks for, and send it; once the options of its choices are known."""
    if not bounds.submit or asks_for_password(page):
        return
    # On a phone the keyboard may cover the button.
    operations = ("scroll", "tap") if platform is Platform.PHONE or page.scrolled else ("tap",)
    for form in forms_of(page):
        # Each choice must have been opened, unless it cannot be.
        boxes = (target for target in form.inputs if page.elements[target].element.role == BOX)
        if not page.results.keys() >= set(boxes):
            continue
        plain = tuple(each for each in form.inputs if page.elements[each].element.role not in SWITCHES)
        buttons = [each for each in form.buttons if not denied(page.elements[each].element)]
        ways = [(TrialKind.SUBMIT, form.inputs)]
        ways += [(TrialKind.PLAIN, plain)] if plain != form.inputs else []
        for kind, inputs in ways:
            filling = filling_of(page, inputs, numbers)
            for target in buttons:
                steps = (*filling, *(step(operation, target) for operation in operations))
                yield PlannedTrial(page.way, page.first.screen_id, kind, target, steps)


def _planned(found: FoundElement, kind: TrialKind, *steps: PathStep) -> PlannedTrial:
    """Plan a trial with an element, the target of its first step."""
    return PlannedTrial(found.way, found.screen_id, kind, steps[0].target, steps)


def _kind_of_item(element: UIElement) -> str:
    name = element.element_id
    mark = next((mark for mark in (":", "/") if mark in name), "")
    return f"{element.role} {name.rpartition(mark)[0] if mark else NUMBER.sub('0', name)}".strip()
