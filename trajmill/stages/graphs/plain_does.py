"""Plain sentences for what elements do, where nobody has written one.

People and models write better sentences over the plain ones.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from trajmill.stages.graphs.base import OUTSIDE, AppGraph, GraphPage

_PLAIN = re.compile(r"(?:Leads to `[^`]*`(?: or `[^`]*`)*|Leads out of the app(?:, to [^ ]+)?|Changes the page)\.")


def with_plain_does(graph: AppGraph) -> AppGraph:
    """The graph with a plain sentence on each element that has transitions and no other sentence."""
    pages = {}
    for name, page in graph.pages.items():
        elements = {
            key: element.model_copy(update={"does": written(element.does) or plain_does(name, page, key)})
            for key, element in page.elements.items()
        }
        pages[name] = page.model_copy(update={"elements": elements})
    return graph.model_copy(update={"pages": pages})


def written(does: str) -> str:
    """A sentence that a person or a model wrote; empty for a plain one."""
    return "" if _PLAIN.fullmatch(does) else does


def plain_does(name: str, page: GraphPage, element: str) -> str:
    """Describe an element by where its transitions lead; empty without any."""
    ways = [each for each in page.transitions if each.by == element]
    ends = [end for end in dict.fromkeys(each.to for each in ways) if end not in (name, OUTSIDE)]
    if ends:
        return f"Leads to {' or '.join(f'`{end}`' for end in ends)}."
    if any(each.to == OUTSIDE for each in ways):
        address = next((each.address.replace(" ", "%20") for each in ways if each.address), "")
        return f"Leads out of the app, to {address}." if address else "Leads out of the app."
    return "Changes the page." if ways else ""


def starts_with_verb(label: str) -> bool:
    """Whether a label begins with a word for something to do, e.g. `Sort by price`."""
    first = re.split(r"[^a-z]", label.strip().lower(), maxsplit=1)[0]
    return first in _verbs()


@cache
def _verbs() -> frozenset[str]:
    return frozenset(files(__package__).joinpath("verbs.txt").read_text(encoding="utf-8").split())
