"""Reads the objects that a program's cache lacks; the program gives them only when they are requested one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from trajmill.stages.environments.desktop.local.accessibility.atspi import (
    CachedObject,
    Reference,
    property_call,
    role_name,
    state_names,
)
from trajmill.stages.environments.desktop.local.accessibility.bus import Bus

LISTING_ROLES = frozenset({"layered-pane", "list-box", "list", "table", "tree-table", "tree", "document-text"})
_LEVELS = 12
_MOST_CHILDREN = 500
"""The children of an object with more than these are not read: the table of a spreadsheet has billions."""
# The interfaces that such an object may have; calling a missing one costs little.
_INTERFACES = frozenset({"Accessible", "Component", "Text", "Value"})


def read_uncached(bus: Bus, cached: Sequence[CachedObject], seconds: float) -> list[CachedObject]:
    """Read the visible descendants of the visible objects in `cached` that the cache lacks, some levels deep.

    Lists, tables, icon views and texts give their content only when it is requested; the cache may hold it too, with
    outdated states. Of all other objects, those with more children than the cache holds are read: the cache lacks
    parts of LibreOffice's windows, often the menu bar, and other parts after each start.

    Args:
        bus: the accessibility bus.
        cached: the cached objects of one program.
        seconds: time limit of each group of calls.
    """
    listing = [item for item in cached if item.shown and item.role in LISTING_ROLES]
    known = {item.reference for item in cached}
    return [
        *_below(bus, listing, frozenset(), seconds),
        *_below(bus, _lacking(cached), known, seconds),
    ]


def _lacking(cached: Sequence[CachedObject]) -> list[CachedObject]:
    """The objects that may have children that the cache lacks, without lists and the like.

    Some objects, such as menus, do not give the number of their children; the cache holds all of these or none.
    """
    counts = Counter(item.parent for item in cached)
    visible = [item for item in cached if item.shown or item.role == "application"]
    return [
        item
        for item in visible
        if item.role not in LISTING_ROLES
        and (item.children > counts[item.reference] or (item.children < 0 and not counts[item.reference]))
    ]


def _below(bus: Bus, parents: Sequence[CachedObject], known: Set[Reference], seconds: float) -> list[CachedObject]:
    """The visible descendants of `parents`, without `known` objects and their descendants."""
    found: list[CachedObject] = []
    level = list(parents)
    for _ in range(_LEVELS):
        if not level:
            break
        level = _children(bus, level, known, seconds)
        found.extend(level)
    return found


def _children(bus: Bus, parents: Sequence[CachedObject], known: Set[Reference], seconds: float) -> list[CachedObject]:
    counts = bus.ask([property_call(item.reference, "Accessible", "ChildCount") for item in parents], seconds)
    few = [item for item, count in zip(parents, counts, strict=True) if count and 0 < count[0][1] <= _MOST_CHILDREN]
    answers = bus.ask([item.reference.call("Accessible", "GetChildren") for item in few], seconds)
    places = [
        (Reference(*reference), parent.reference, place)
        for parent, answer in zip(few, answers, strict=True)
        if answer
        for place, reference in enumerate(answer[0])
        if Reference(*reference) not in known
    ]
    states = bus.ask([child.call("Accessible", "GetState") for child, _, _ in places], seconds)
    objects = [
        CachedObject(child, parent, place, -1, _INTERFACES, "", "", state_names(state[0]))
        for (child, parent, place), state in zip(places, states, strict=True)
        if state
    ]
    return _named(bus, [item for item in objects if item.shown], seconds)


def _named(bus: Bus, items: Sequence[CachedObject], seconds: float) -> list[CachedObject]:
    names = bus.ask([property_call(item.reference, "Accessible", "Name") for item in items], seconds)
    roles = bus.ask([item.reference.call("Accessible", "GetRole") for item in items], seconds)
    return [
        item._replace(name=name[0][1].strip(), role=role_name(role[0]))
        for item, name, role in zip(items, names, roles, strict=True)
        if name and role
    ]
