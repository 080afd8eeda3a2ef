"""Chooses the features by which each page of an exploration is recognised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trajmill.schemas.observation import UIElement
from trajmill.stages.graphs.base import Feature, Recogniser
from trajmill.stages.graphs.explore.base import WalkedScreen
from trajmill.stages.graphs.explore.pages import FoundPage

_MOST_SHOWN, _MOST_LACKED = 4, 6
_OVER = ("dialog", "menu_item")
"""Roles of what stands over a page."""
_CONTENT = frozenset({"list_item", "icon", "value", "image", "list"})


def recognisers(pages: Sequence[FoundPage]) -> list[Recogniser]:
    """A recogniser for each page: the features that tell it from most others first.

    A feature of a page stands on all of its screens. It tells the page from another one if no screen of that one has
    it. Two pages that differ in no feature get recognisers that both hold; `graph check` tells them. A page that is
    longer than the screen is recognised wherever it is scrolled to, unless only its beginning tells it from others.
    """
    always = [_always(page, page.every_screen) for page in pages]
    ever = [_ever(page) for page in pages]
    return [_recogniser_of(page, always, ever) for page in pages]


def _recogniser_of(page: FoundPage, always: Sequence[dict[Feature, None]], ever: Sequence[set[Feature]]) -> Recogniser:
    found = _chosen(page.number, always, ever)
    if found.is_alone or not page.scrolled:
        return found.recogniser
    at_its_beginning = [*always[: page.number], _always(page, page.screens), *always[page.number + 1 :]]
    return _chosen(page.number, at_its_beginning, ever).recogniser


class _Chosen(NamedTuple):
    recogniser: Recogniser
    is_alone: bool
    """Whether it holds on no other page."""


def _chosen(index: int, always: Sequence[dict[Feature, None]], ever: Sequence[set[Feature]]) -> _Chosen:
    others = set(range(len(always))) - {index}
    shows: list[Feature] = []
    while len(shows) < _MOST_SHOWN and (others or not shows):
        best = _best(always[index], shows, [ever[other] for other in others])
        if best is None:
            break
        shows.append(best)
        others = {other for other in others if best in ever[other]}
    lacks: list[Feature] = []
    mine = _told_by(dict.fromkeys(ever[index]))
    while others and len(lacks) < _MOST_LACKED:
        common = {feature: None for other in others for feature in _told_by(always[other]) if feature not in mine}
        if not common:
            break
        theirs = {other: _told_by(always[other]) for other in others}
        counts = Counter(feature for features in theirs.values() for feature in features if feature in common)
        missing = max(common, key=counts.__getitem__)
        lacks.append(missing)
        others = {other for other in others if missing not in theirs[other]}
    return _Chosen(Recogniser(shows=tuple(shows), lacks=tuple(lacks)), bool(shows) and not others)


def _best(features: dict[Feature, None], chosen: Sequence[Feature], others: Sequence[set[Feature]]) -> Feature | None:
    """The feature that most other pages never have, the first of several; None if none tells any more apart."""

    def told(feature: Feature) -> int:
        return sum(feature not in each for each in others)

    best = max((feature for feature in features if feature not in chosen), key=told, default=None)
    return best if best is not None and (told(best) or not chosen) else None


def _told_by(features: dict[Feature, None]) -> dict[Feature, None]:
    """The features, and before them that there is any dialog or open menu."""
    roles = {feature.role for feature in features}
    return {**{Feature(role=role): None for role in _OVER if role in roles}, **features}


def _always(page: FoundPage, screens: Sequence[WalkedScreen]) -> dict[Feature, None]:
    """The features that stand on all given screens of a page, those that say most first."""
    shared = [set(_features(screen)) for screen in screens]
    return {feature: None for feature in _features(page.first) if all(feature in each for each in shared)}


def _ever(page: FoundPage) -> set[Feature]:
    return {feature for screen in page.every_screen for feature in _features(screen)}


def _features(screen: WalkedScreen) -> Iterator[Feature]:
    """The stable features of a screen: titles, headings and dialogs first, then what can be operated."""
    elements = [element for element in screen.elements if element.role not in _CONTENT]
    for element in sorted(elements, key=_rank):
        feature = feature_of(element)
        if feature is not None:
            yield feature


def feature_of(element: UIElement) -> Feature | None:
    """The feature of an element that other elements do not have; None for an element without id and text."""
    if not element.text and not element.element_id:
        return None
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
    if element.role == "tab" or element.role == "menu_item":
        return 2
    return 3 if element.role != "text" else 4
