"""Objects that the bulk cache does not tell: they are made, or told, only when asked for one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from trajmill.stages.environments.desktop.local.accessibility.atspi import (
    Item,
    Reference,
    property_call,
    role_name,
    state_names,
)
from trajmill.stages.environments.desktop.local.accessibility.bus import Bus

LISTING_ROLES = frozenset({"layered-pane", "list-box", "list", "table", "tree-table", "tree", "document-text"})
_LEVELS = 12
_MOST_CHILDREN = 500
"""More than these are never asked for: the table of a spreadsheet has billions."""
# What they may have; asking for what is not there costs little.
_INTERFACES = frozenset({"Accessible", "Component", "Text", "Value"})


def read_listed(bus: Bus, cached: Sequence[Item], seconds: float) -> list[Item]:
    """The shown objects below what is shown in `cached` that the cache lacks, some levels deep.

    Lists, tables, icon views and texts tell what is in them only when asked; the cache may hold it too, with states of
    another time. Of all others, those are asked that have more children than the cache tells: LibreOffice's windows
    lack one part or another of themselves there, often the menu bar, and which differs from start to start.

    Args:
        bus: the accessibility bus.
        cached: all that the bulk cache tells of one program.
        seconds: bound of each group of calls.
    """
    listing = [item for item in cached if item.shown and item.role in LISTING_ROLES]
    known = {item.reference for item in cached}
    return [
        *_below(bus, listing, frozenset(), seconds),
        *_below(bus, _lacking(cached), known, seconds),
    ]


def _lacking(cached: Sequence[Item]) -> list[Item]:
    """The objects that may have children which the cache does not tell; lists and the like apart.

    Some, such as menus, do not count their children: all or none of them are told.
    """
    told = Counter(item.parent for item in cached)
    standing = [item for item in cached if item.shown or item.role == "application"]
    return [
        item
        for item in standing
        if item.role not in LISTING_ROLES
        and (item.children > told[item.reference] or (item.children < 0 and not told[item.reference]))
    ]


def _below(bus: Bus, parents: Sequence[Item], known: Set[Reference], seconds: float) -> list[Item]:
    """The shown objects below `parents`, without those that are `known` and what is below them."""
    found: list[Item] = []
    level = list(parents)
    for _ in range(_LEVELS):
        if not level:
            break
        level = _children(bus, level, known, seconds)
        found.extend(level)
    return found


def _children(bus: Bus, parents: Sequence[Item], known: Set[Reference], seconds: float) -> list[Item]:
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
    told = [
        Item(child, parent, place, -1, _INTERFACES, "", "", state_names(state[0]))
        for (child, parent, place), state in zip(places, states, strict=True)
        if state
    ]
    return _named(bus, [item for item in told if item.shown], seconds)


def _named(bus: Bus, items: Sequence[Item], seconds: float) -> list[Item]:
    names = bus.ask([property_call(item.reference, "Accessible", "Name") for item in items], seconds)
    roles = bus.ask([item.reference.call("Accessible", "GetRole") for item in items], seconds)
    return [
        item._replace(name=name[0][1].strip(), role=role_name(role[0]))
        for item, name, role in zip(items, names, roles, strict=True)
        if name and role
    ]
