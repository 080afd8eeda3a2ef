"""What models are told about a page: one line for each thing, with everything that stands on screens in quotes."""

from __future__ import annotations

from trajmill.schemas.geometry import Size
from trajmill.stages.critics.model.marking import untrusted
from trajmill.stages.graphs.base import (
    OUTSIDE,
    AppGraph,
    Feature,
    GraphElement,
    GraphPage,
    GraphSlot,
    GraphTransition,
    SlotKind,
)

_LONGEST = 200
_MOST_PAGES = 60
_MOST_FEATURES = 30
_MOST_VALUES = 5
_SET = {
    SlotKind.FIELD: "a text is typed",
    SlotKind.SWITCH: "it is turned on or off",
    SlotKind.CHOICE: "one of several is chosen and stays marked",
    SlotKind.LIST: "one of several items is pressed",
    SlotKind.SLIDER: "it is moved to one of its ends",
    SlotKind.KEYPAD: "its keys work out a sum",
}


def graph_words(graph: AppGraph, name: str) -> dict[str, str]:
    """Return the fields of a prompt about a page: its app, platform, name, title and description."""
    description = graph.pages[name].description
    return {
        "app": untrusted(graph.title or graph.app, _LONGEST),
        "platform": graph.platform.value,
        "page": " ".join([_page_words(graph, name), *([untrusted(description, _LONGEST)] if description else [])]),
    }


def pages_line(graph: AppGraph, name: str) -> str:
    others = [other for other in graph.pages if other != name]
    return ", ".join(_page_words(graph, other) for other in others[:_MOST_PAGES]) or "(none)"


def page_features(page: GraphPage) -> str:
    return ", ".join(map(_feature, page.recognise.shows[:_MOST_FEATURES])) or "(not told)"


def element_line(element: GraphElement, size: Size | None) -> str:
    """Return the role and the words of an element, and its place on a screenshot of that size."""
    box = element.box
    place = ""
    if box is not None and size is not None and size.width and size.height:
        place = f" at ({box.center.x / size.width:.0%}, {box.center.y / size.height:.0%})"
    marks = f" (marked {', '.join(element.marks)})" if element.marks else ""
    return f"{element.role or 'element'} {untrusted(element.name or element.target, _LONGEST)}{place}{marks}"


def transition_line(graph: AppGraph, page: GraphPage, transition: GraphTransition, slots: tuple[str, ...]) -> str:
    """Return what is done, where it leads and what stands there, and the places of slots for the answer."""
    done = [f"after {_label(page, name)}" for name in transition.after]
    done += [f"with {_label(page, name)} set" for name in transition.slots]
    done.append(_operation(page, transition))
    if transition.to == OUTSIDE:
        leads = f"leads out of the application {untrusted(transition.address, _LONGEST)}"
    else:
        leads = f"leads to the page {_page_words(graph, transition.to)}"
    changes = [("shows", transition.shows), ("no longer shows", transition.lacks)]
    told = [f"{word} {', '.join(map(_feature, found[:_MOST_VALUES]))}" for word, found in changes if found]
    places = [f"places: {', '.join(f'{{{name}}}' for name in slots)}"] if slots else []
    return "; ".join([", ".join(done), leads, *told, *places])


def slot_line(page: GraphPage, name: str) -> str:
    """Return how a value is set, what stands beside it, some values, and what operations use it."""
    slot = page.slots[name]
    words = untrusted(slot.name or slot.target or name, _LONGEST)
    values = ", ".join(untrusted(value, _LONGEST) for value in slot.values[:_MOST_VALUES])
    uses = [each.does for each in page.transitions if each.does and (name in each.slots or name == each.by)]
    told = [f"{slot.kind} {words}: {_SET[slot.kind]}", f"e.g. {values}" if values else ""]
    told += [untrusted(use, _LONGEST) for use in uses[:_MOST_VALUES]]
    return "; ".join(filter(None, told))


def _page_words(graph: AppGraph, name: str) -> str:
    """The name of a page, then its title; exploring gives several pages one title."""
    title = graph.pages[name].title
    return f"{untrusted(name)} ({untrusted(title, _LONGEST)})" if title else untrusted(name)


def _operation(page: GraphPage, transition: GraphTransition) -> str:
    if transition.operation == "key":
        where = f" in {_label(page, transition.by)}" if transition.by else ""
        return f"the key {transition.keys} is pressed{where}"
    return f"{transition.operation.replace('_', ' ')} on {_label(page, transition.by)}"


def _label(page: GraphPage, name: str) -> str:
    found: GraphElement | GraphSlot | None = page.elements.get(name) or page.slots.get(name)
    kind = "" if found is None else found.role if isinstance(found, GraphElement) else found.kind.value
    return f"{kind} {untrusted((found.name if found else '') or name, _LONGEST)}".strip()


def _feature(feature: Feature) -> str:
    words = feature.text or feature.value or feature.id
    return f"{feature.role or 'element'} {untrusted(words, _LONGEST)}" if words else feature.role
