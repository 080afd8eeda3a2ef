"""The features of pages: those by which a page is recognised, and those that a trial changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.observation import UIElement
from trajmill.stages.graphs.base import SORTS, Feature, Mark, Recogniser
from trajmill.stages.graphs.explore.base import BOX, BUTTONS, FIELDS, INPUTS, SWITCHES, WalkedScreen
from trajmill.stages.graphs.explore.pages import FoundPage
from trajmill.stages.graphs.recognise import MARKED, is_on

_MOST_SHOWN, _MOST_LACKED = 4, 6
_OVER = ("dialog", "menu_item")
"""Roles of overlays."""
_CONTENT = frozenset({"list_item", "icon", "value", "image", "list"})
_MOST = 3
_CONTROLS = FIELDS | BUTTONS | SWITCHES | {BOX, "link", "menu_item"}
_MOST_CONTROLS = 2
"""Of what appears, a menu has more controls than this for each thing to read."""
_FEWEST_SORTED = 3


def recognisers(pages: Sequence[FoundPage]) -> list[Recogniser]:
    """Return a recogniser for each page, its most distinctive features first.

    A feature of a page stands on all of its screens. It tells the page from another one if no screen of that one has
    it. Two pages that differ in no feature get recognisers that both hold; `graph check` tells them. A page that is
    longer than the screen is recognised wherever it is scrolled to, unless only its beginning tells it from others.
    """
    always = [_always(page, page.every_screen) for page in pages]
    ever = [{feature for screen in page.every_screen for feature in _features(screen)} for page in pages]
    return [_recogniser_of(page, always, ever) for page in pages]


def _recogniser_of(page: FoundPage, always: Sequence[dict[Feature, None]], ever: Sequence[set[Feature]]) -> Recogniser:
    recogniser, is_alone = _chosen(page.number, always, ever)
    if is_alone or not page.scrolled:
        return recogniser
    at_its_beginning = [*always[: page.number], _always(page, page.screens), *always[page.number + 1 :]]
    return _chosen(page.number, at_its_beginning, ever)[0]


def _chosen(index: int, always: Sequence[dict[Feature, None]], ever: Sequence[set[Feature]]) -> tuple[Recogniser, bool]:
    """Return the recogniser of a page, and whether it holds on no other page."""
    others = set(range(len(always))) - {index}
    shows: list[Feature] = []
    while len(shows) < _MOST_SHOWN and (others or not shows):
        best = _best(always[index], shows, [ever[other] for other in others])
        if best is None:
            break
        shows.append(best)
        others = {other for other in others if best in ever[other]}
    lacks: list[Feature] = []
    mine = _distinguishing(dict.fromkeys(ever[index]))
    while others and len(lacks) < _MOST_LACKED:
        theirs = {other: _distinguishing(always[other]) for other in others}
        common = {feature: None for features in theirs.values() for feature in features if feature not in mine}
        if not common:
            break
        counts = Counter(feature for features in theirs.values() for feature in features if feature in common)
        missing = max(common, key=counts.__getitem__)
        lacks.append(missing)
        others = {other for other in others if missing not in theirs[other]}
    return Recogniser(shows=tuple(shows), lacks=tuple(lacks)), bool(shows) and not others


def _best(features: dict[Feature, None], chosen: Sequence[Feature], others: Sequence[set[Feature]]) -> Feature | None:
    """Return the feature that most other pages never have; None if no feature separates another page."""

    def told(feature: Feature) -> int:
        return sum(feature not in each for each in others)

    best = max((feature for feature in features if feature not in chosen), key=told, default=None)
    return best if best is not None and (told(best) or not chosen) else None


def _distinguishing(features: dict[Feature, None]) -> dict[Feature, None]:
    """The features, and before them that there is any dialog or open menu."""
    roles = {feature.role for feature in features}
    return {**{Feature(role=role): None for role in _OVER if role in roles}, **features}


def _always(page: FoundPage, screens: Sequence[WalkedScreen]) -> dict[Feature, None]:
    """Return the features that all given screens of a page show, the most specific first."""
    shared = [set(_features(screen)) for screen in screens]
    return {feature: None for feature in _features(page.first) if all(feature in each for each in shared)}


def _features(screen: WalkedScreen) -> Iterator[Feature]:
    """The stable features of a screen: titles, headings and dialogs first, then what can be operated."""
    elements = [element for element in screen.elements if element.role not in _CONTENT]
    elements.sort(key=_rank)
    yield from (_lasting_feature(each) for each in elements if each.text or each.element_id)


def _lasting_feature(element: UIElement) -> Feature:
    """The feature of an element that other elements do not have, on any screen of its page."""
    text = None if element.element_id and "editable" in element.states else element.text or None
    if "title" in element.states:
        return Feature(role=element.role, text=text, state="title", value=element.value or None)
    state = "selected" if element.role == "tab" and "selected" in element.states else ""
    return Feature(role=element.role, text=text, id=element.element_id, state=state)


def _rank(element: UIElement) -> int:
    if "title" in element.states:
        return 0
    if element.role in ("dialog", "heading"):
        return 1
    if element.role in ("tab", "menu_item"):
        return 2
    return 3 if element.role != "text" else 4


class ScreenChange(NamedTuple):
    shows: tuple[Feature, ...]
    lacks: tuple[Feature, ...]


def screen_change(
    before: WalkedScreen, after: WalkedScreen, slots: Mapping[str, str], is_new_page: bool, own: Collection[str]
) -> ScreenChange:
    """Return what only the second screen shows, and what only the first one shows.

    `slots` has the slot of each text that a trial used; features have `{slot}` in its place. A heading of a new page
    counts, though the list before it has the same words.
    """
    shows = [
        _with_slots(feature, slots)
        for feature in _changing_features(after)
        if not is_on(feature, before.elements) or (is_new_page and feature.role == "heading")
    ]
    lacks = [each for each in _changing_features(before) if not is_on(each, after.elements) and not each.value]
    # Texts with the value of a slot say more than counts and other side effects.
    shows = [each for each in shows if each.role not in own or not each.is_open]
    telling = [each for each in shows if each.is_open]
    telling = [each for each in telling if each.role not in INPUTS] or telling
    return ScreenChange(tuple((telling or shows)[:_MOST]), () if telling else tuple(lacks[:_MOST]))


def said(screen: WalkedScreen, without: Collection[str] = ()) -> dict[tuple[object, ...], UIElement]:
    """Return what a person reads on a screen, wherever it stands; `without` are roles to leave out."""
    elements = (e for e in screen.elements if (e.text or e.value) and "title" not in e.states and e.role not in without)
    return {(e.role, e.text, e.value, *(state for state in MARKED if state in e.states)): e for e in elements}


def visible_mark(before: WalkedScreen, after: WalkedScreen, stood: Sequence[WalkedScreen]) -> Mark | None:
    """Return whether a change is none that a person would want: nothing is new, or something only opens or closes.

    `stood` are the screens of the page before anything was done there, wherever it is scrolled to.
    """
    was, now = said(before), said(after)
    known = {each for screen in stood for each in said(screen)}
    new = [element for each, element in now.items() if each not in was and each not in known]
    gone = [element for each, element in was.items() if each not in now and each not in known]
    if changed := new or gone:
        changed = [element for element in changed if not element.text.endswith(":")]  # The title of a menu.
        stay = {(element.role, element.bounds[:2]) for element in (was if new else now).values()}
        controls = sum(each.role in _CONTROLS and (each.role, each.bounds[:2]) not in stay for each in changed)
        return Mark.OPENS if 1 < controls > _MOST_CONTROLS * (len(changed) - controls) else None
    return None if was.keys() > now.keys() else Mark.IDLE


def sorts_by(header: UIElement, after: WalkedScreen) -> str:
    """Return what a press on the head of a column does, if the column is sorted afterwards; empty if it is not."""
    box = header.bounds
    below = (each for each in after.elements if each.bounds.left == box.left and each.bounds.top > box.top)
    column = [each.text for each in below if each.role == "text"]
    numbers = [re.sub(r"[^\d.]", "", text) for text in column]
    is_number = all(re.fullmatch(r"\d+(\.\d+)?", each) for each in numbers)
    keys = [float(each) for each in numbers] if is_number else column
    name = header.text.partition(":")[0]
    if len(set(column)) < _FEWEST_SORTED or "{" in name or sorted(keys) not in (keys, keys[::-1]):
        return ""
    return f"{SORTS} {name}{'' if keys == sorted(keys) else ' in descending order'}."


def _changing_features(screen: WalkedScreen) -> dict[Feature, None]:
    """Return the features of all elements as they stand there; what would be read as the place of a slot has none."""
    found: dict[Feature, None] = {}
    for e in screen.elements:
        if "title" not in e.states and (e.text or e.value or e.element_id) and "{" not in f"{e.text}{e.value}":
            state = next((state for state in MARKED if state in e.states and e.role != "menu"), "")
            found[Feature(role=e.role, text=e.text or None, id=e.element_id, state=state, value=e.value or None)] = None
    return found


def _with_slots(feature: Feature, slots: Mapping[str, str]) -> Feature:
    # One pattern, longest value first: otherwise a value could be replaced within the name of a slot.
    one_of = "|".join(map(re.escape, sorted(filter(None, slots), key=len, reverse=True)))

    def replaced(text: str | None) -> str | None:
        if not text or not one_of:
            return text
        return re.sub(rf"(?<!\w)(?:{one_of})(?!\w)", lambda found: f"{{{slots[found[0]]}}}", text)

    text, value = replaced(feature.text), replaced(feature.value)
    # Ids that contain the value of a slot differ for each value, and those of list items for each item.
    is_item = feature.role in _CONTENT and (text or "") in map("{{{}}}".format, slots.values())
    own_id = "" if is_item or (any(each in feature.id for each in slots) and text) else feature.id
    return feature.model_copy(update={"text": text, "value": value, "id": own_id})
