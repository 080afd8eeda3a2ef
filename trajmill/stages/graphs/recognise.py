"""Recognises the pages of a graph on observations."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from itertools import pairwise
from typing import Any

from trajmill.schemas.observation import Observation, UIElement
from trajmill.stages.graphs.base import AppGraph, Feature, Mark, Recogniser

MARKED = ("checked", "selected")
"""States of what is chosen or on."""
_SIDE = 16
_MOST_DIFFERENT_BITS = 12
"""Of 256; a blinking cursor or a clock changes fewer, another page more."""


def page_on(graph: AppGraph, observation: Observation) -> str | None:
    """The page of a graph that an observation shows; None if no recogniser holds.

    If several hold, a page that only opens something over another is taken, then the one that shows most features,
    then the one that lacks most, then the first one.
    """
    held = [name for name, page in graph.pages.items() if recognises(page.recognise, observation)]

    def weight(name: str) -> tuple[bool, int, int]:
        page = graph.pages[name]
        shown = len(page.recognise.shows) + bool(page.recognise.screen)
        return Mark.OPENS in page.marks, shown, len(page.recognise.lacks)

    return max(held, key=weight, default=None)


def recognises(recogniser: Recogniser, observation: Observation) -> bool:
    """Whether a recogniser holds on an observation; an empty one never does."""
    if recogniser.is_empty:
        return False
    elements = observation.elements or ()
    return (
        all(is_on(feature, elements) for feature in recogniser.shows)
        and not any(is_on(feature, elements) for feature in recogniser.lacks)
        and (not recogniser.screen or looks_alike(recogniser.screen, screen_hash(observation.screen.encode())))
    )


def is_on(feature: Feature, elements: tuple[UIElement, ...]) -> bool:
    return any(agrees(feature, element) for element in elements)


def is_marked(element: UIElement) -> bool:
    return not set(MARKED).isdisjoint(element.states)


def agrees(feature: Feature, element: UIElement) -> bool:
    return (
        feature.role in ("", element.role)
        and feature.text in (None, element.text)
        and feature.id in ("", element.element_id)
        and feature.value in (None, element.value)
        and (not feature.state or feature.state in element.states)
    )


def filled(feature: Feature, values: Mapping[str, str]) -> Feature:
    """A feature of a transition with the values of slots in place of `{slot}`."""
    return feature.model_copy(update={"text": fill(feature.text, values), "value": fill(feature.value, values)})


def fill(part: Any, values: Mapping[str, str]) -> Any:
    """Put the values of slots in place of `{slot}` in all texts of a JSON value."""
    match part:
        case str():
            for slot, value in values.items():
                part = part.replace(f"{{{slot}}}", value)
            return part
        case Mapping():
            return {fill(key, values): fill(each, values) for key, each in part.items()}
        case [*items]:
            return [fill(each, values) for each in items]
        case _:
            return part


def screen_hash(png: bytes) -> str:
    """The difference hash of a screenshot: 256 bits, as hexadecimal digits; similar screens have similar hashes."""
    from PIL import Image

    with Image.open(BytesIO(png)) as image:
        small = image.convert("L").resize((_SIDE + 1, _SIDE), Image.Resampling.BOX)
    pixels = small.tobytes()
    rows = [pixels[row * (_SIDE + 1) : (row + 1) * (_SIDE + 1)] for row in range(_SIDE)]
    bits = "".join("1" if left > right else "0" for row in rows for left, right in pairwise(row))
    return f"{int(bits, 2):0{_SIDE * _SIDE // 4}x}"


def looks_alike(first: str, second: str) -> bool:
    """Whether two screen hashes belong to one page; False for a text that is no hash."""
    try:
        return (int(first, 16) ^ int(second, 16)).bit_count() <= _MOST_DIFFERENT_BITS
    except ValueError:
        return False
