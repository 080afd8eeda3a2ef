"""Plain sentences for what elements do, where nobody has written one; people and models write better ones over them."""

from __future__ import annotations

import re

from trajmill.stages.graphs.base import OUTSIDE, AppGraph, GraphPage

_PLAIN = re.compile(r"(?:Leads to `[^`]*`(?: or `[^`]*`)*|Leads out of the app(?:, to [^ ]+)?|Changes the page)\.")


def with_plain_does(graph: AppGraph) -> AppGraph:
    """The graph with a plain sentence on each element that has transitions and no other sentence."""
    pages = {name: _described(name, page) for name, page in graph.pages.items()}
    return graph.model_copy(update={"pages": pages})


def written(does: str) -> str:
    """A sentence that a person or a model wrote; empty for a plain one."""
    return "" if _PLAIN.fullmatch(does) else does


def _described(name: str, page: GraphPage) -> GraphPage:
    elements = {
        key: element.model_copy(update={"does": written(element.does) or plain_does(name, page, key)})
        for key, element in page.elements.items()
    }
    return page.model_copy(update={"elements": elements})


def plain_does(name: str, page: GraphPage, element: str) -> str:
    """What the transitions of an element tell: where they lead; empty without any."""
    ways = [each for each in page.transitions if each.by == element]
    ends = [end for end in dict.fromkeys(each.to for each in ways) if end not in (name, OUTSIDE)]
    if ends:
        return f"Leads to {' or '.join(f'`{end}`' for end in ends)}."
    if any(each.to == OUTSIDE for each in ways):
        address = next((each.address.replace(" ", "%20") for each in ways if each.address), "")
        return f"Leads out of the app, to {address}." if address else "Leads out of the app."
    return "Changes the page." if ways else ""
