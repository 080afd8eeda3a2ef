"""The rule for what of a graph a person would ask for, and why not for the rest."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from trajmill.stages.graphs.base import OUTSIDE, AppGraph, GraphPage, GraphTransition, Mark, SlotKind, ValueType
from trajmill.stages.graphs.network import marks_on_way
from trajmill.stages.graphs.sentences import starts_with_verb

_WHOLE = frozenset(
    {"undo", "redo", "refresh", "reload", "shuffle", "play", "pause", "start", "stop", "reset", "sync", "mute"}
)
"""Verbs that say all by themselves; nobody asks for `Open` or `Add` without what."""


class NotAsked(StrEnum):
    IDLE = "change nothing visible"
    OPENS = "only open or close something"
    PART = "are a part of a form"
    UNTOLD = "sort in an order that the screen does not show"
    NO_WORDS = "have no words for their effect"
    AVOIDED = "leave the app, are destructive or need a login"


def why_not(graph: AppGraph, page: str, transition: GraphTransition) -> NotAsked | None:
    """Return why no query asks for a transition; None for a wish.

    A wish changes or shows what a person would want: data, a selection, an order, a page with something to read. Where
    somebody wrote what a transition `does`, it is one.
    """
    spec, end = graph.pages[page], graph.pages.get(transition.to)
    if transition.to == OUTSIDE or marks_on_way(graph, page, transition):
        return NotAsked.AVOIDED
    if _is_part(transition, page, spec):
        return NotAsked.PART
    if _is_untold(transition, spec):
        return NotAsked.UNTOLD
    if transition.does:
        return None
    marks = {*transition.marks, *(end.marks if end is not None and transition.to != page else ())}
    if Mark.IDLE in marks or Mark.OPENS in marks:
        return NotAsked.IDLE if Mark.IDLE in marks else NotAsked.OPENS
    needs_words = transition.to == page and not transition.submits and transition.by not in spec.slots
    return NotAsked.NO_WORDS if needs_words and not _says_purpose(spec, transition) else None


def not_asked(graph: AppGraph) -> Counter[NotAsked]:
    """Count the reasons of a graph; an element or a search that was tried in vain counts as one more transition."""
    found = Counter(why for way in graph.transitions() if (why := why_not(graph, *way)) is not None)
    for page in graph.pages.values():
        found[NotAsked.IDLE] += sum(Mark.IDLE in each.marks for each in page.elements.values())
        found[NotAsked.IDLE] += sum(Mark.IDLE in each.marks for each in page.slots.values())
    return +found


def asked_line(graph: AppGraph) -> str:
    """Return how many transitions can be asked for, and why the others cannot."""
    reasons = not_asked(graph)
    wishes = sum(why_not(graph, *way) is None for way in graph.transitions())
    told = "".join(f"; {count} {why}" for why, count in reasons.most_common())
    return f"{wishes} of {wishes + reasons.total()} transitions can be asked for{told}"


def in_forms(graph: AppGraph, page: str) -> set[str]:
    """Return the slots of a page that belong to forms: also fields sent from another page, and all of a dialog."""
    spec = graph.pages[page]
    ways = [(graph.pages[name], each) for name, each in graph.transitions() if each.submits]
    # The type counts too: on another page, a field with the same target may be for something else.
    sent = {(other.slots[slot].target, other.slots[slot].type) for other, each in ways for slot in each.slots}
    typed = {name: each for name, each in spec.slots.items() if each.kind is SlotKind.FIELD}
    fields = {name for name, each in typed.items() if (each.target, each.type) in sent}
    searches = any(spec.slots[slot].type is ValueType.SEARCH for slot in spec.sent)
    if Mark.AWAITS in spec.marks or (Mark.OPENS in spec.marks and searches):
        return {*spec.slots}
    return fields | _parts_of_forms(spec)


def _parts_of_forms(page: GraphPage) -> set[str]:
    return page.sent | {name for name, each in page.slots.items() if each.in_form}


def _is_untold(transition: GraphTransition, page: GraphPage) -> bool:
    """Whether a transition sorts a table in an order that no screen tells from another.

    A head may only say what its next press does: it tells nothing if it also stands there at first or in another order.
    """
    if not transition.sorts or transition.lacks:
        return False
    first = {page.elements[each.by].target for each in page.transitions if not each.after and each.by in page.elements}
    stood = all(not each.id and f"{each.role}:{each.text}" in first for each in transition.shows)
    orders = (each for each in page.transitions if each.by != transition.by and each.sorts)
    return stood or any({*transition.shows} <= {*each.shows} for each in orders)


def _is_part(transition: GraphTransition, name: str, page: GraphPage) -> bool:
    """Whether it operates a part of a form: a button without its fields, a key that sends less, or an unsent choice."""
    sends = [each for each in page.transitions if each.submits]
    awaits, is_choice = Mark.AWAITS in page.marks, transition.to == name or transition.by in page.slots
    types = Counter(page.slots[each].type for each in transition.slots if page.slots[each].kind is SlotKind.FIELD)
    texts = types[ValueType.SEARCH] + types[ValueType.TEXT]
    # A search in a dialog serves a choice there, and a second text next to a search serves a replacement.
    if (types[ValueType.SEARCH] and (awaits or texts > 1)) or (awaits and is_choice and not transition.submits):
        return True
    if not transition.submits:
        parts = _parts_of_forms(page)
        return transition.by in parts | {each.by for each in sends} or not parts.isdisjoint(transition.slots)
    whole = (set(each.slots) for each in sends if each.operation != "key")
    return transition.operation == "key" and any(set(transition.slots) <= slots for slots in whole)


def _says_purpose(page: GraphPage, transition: GraphTransition) -> bool:
    """Whether there are words for what a transition is for, other than what is pressed."""
    element = page.elements.get(transition.by)
    if element is None or element.does:
        return True
    is_whole = " " in element.name.strip() or element.name.strip().lower() in _WHOLE
    return (is_whole and starts_with_verb(element.name)) or (element.shows_its_name and bool(transition.shows))
