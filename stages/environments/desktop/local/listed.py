"""What lists, tables, icon views and texts show: programs make these objects only when asked for them one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stages.environments.desktop.local.atspi import ROLES, Item, Reference, property_call, state_names
from stages.environments.desktop.local.bus import Bus

LISTING_ROLES = frozenset({"layered-pane", "list-box", "list", "table", "tree-table", "tree", "document-text"})
_LEVELS = 6
_MOST_CHILDREN = 500
# What they may have; asking for what is not there costs little.
_INTERFACES = frozenset({"Accessible", "Component", "Text"})


def read_listed(bus: Bus, known: Sequence[Item], seconds: float) -> list[Item]:
    """The shown objects below the shown containers of `known`, some levels deep.

    The bulk cache may hold them too, with states of another time.
    """
    level = [item for item in known if item.shown and item.role in LISTING_ROLES and not is_sheet(item, known)]
    found: list[Item] = []
    for _ in range(_LEVELS):
        level = [item for item in _children(bus, level, seconds) if item.shown]
        found.extend(level)
    return found


def is_sheet(item: Item, known: Sequence[Item]) -> bool:
    """Whether an object is the table of a spreadsheet, which has billions of children."""
    parents = (other for other in known if other.reference == item.parent)
    return item.role == "table" and any(parent.role == "document-spreadsheet" for parent in parents)


def _children(bus: Bus, parents: Sequence[Item], seconds: float) -> list[Item]:
    counts = bus.ask([property_call(item.reference, "Accessible", "ChildCount") for item in parents], seconds)
    few = [item for item, count in zip(parents, counts, strict=True) if count and 0 < count[0][1] <= _MOST_CHILDREN]
    answers = bus.ask([item.reference.call("Accessible", "GetChildren") for item in few], seconds)
    places = [
        (Reference(*reference), parent.reference, place)
        for parent, answer in zip(few, answers, strict=True)
        if answer
        for place, reference in enumerate(answer[0])
    ]
    names = bus.ask([property_call(child, "Accessible", "Name") for child, _, _ in places], seconds)
    roles = bus.ask([child.call("Accessible", "GetRole") for child, _, _ in places], seconds)
    states = bus.ask([child.call("Accessible", "GetState") for child, _, _ in places], seconds)
    return [
        _item(*place, name, role, state)
        for place, name, role, state in zip(places, names, roles, states, strict=True)
        if name and role and state
    ]


def _item(
    reference: Reference,
    parent: Reference,
    place: int,
    name: tuple[Any, ...],
    role: tuple[Any, ...],
    states: tuple[Any, ...],
) -> Item:
    role_name = ROLES[role[0]] if role[0] < len(ROLES) else "unknown"
    return Item(reference, parent, place, _INTERFACES, name[0][1].strip(), role_name, state_names(states[0]))
