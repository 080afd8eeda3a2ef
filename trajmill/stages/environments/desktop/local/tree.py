"""Reads the accessibility trees of all programs over AT-SPI and writes them as one XML, as an OSWorld machine does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from xml.etree import ElementTree

from trajmill.schemas.geometry import Box
from trajmill.stages.environments.desktop.local.atspi import (
    Bus,
    CachedObject,
    Reference,
    extents_call,
    programs_call,
    property_call,
    read_item,
    read_texts,
    role_name,
    state_names,
    tree_call,
)
from trajmill.stages.environments.desktop.local.spreadsheet_cells import (
    read_visible_cells,
    spreadsheets_in,
)
from trajmill.stages.environments.desktop.protocol import COMPONENT, STATE, VALUE

SECONDS_TO_READ = 10.0
"""Time limit for a program's tree; a program that takes longer hangs."""
_WITH_TEXT = frozenset(
    {"text", "entry", "paragraph", "label", "static", "heading", "terminal", "spin-button", "link", "icon"}
)
_MENU_ROLES = frozenset({"menu", "menu-item", "check-menu-item", "radio-menu-item"})
_GTK2 = "GAIL"
_WITH_VALUE = frozenset({"slider", "spin-button", "progress-bar", "level-bar"})
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LISTING_ROLES = frozenset({"layered-pane", "list-box", "list", "table", "tree-table", "tree", "document-text"})
_LEVELS = 12
_MOST_CHILDREN = 500
"""The children of an object with more than these are not read: the table of a spreadsheet has billions."""
# The interfaces that such an object may have; calling a missing one costs little.
_INTERFACES = frozenset({"Accessible", "Component", "Text", "Value"})


class VisibleObject(NamedTuple):
    """A visible object with its bounds, text and value."""

    item: CachedObject
    bounds: Box
    text: str = ""
    value: float | None = None


@dataclass
class _ObjectTree:
    """The visible objects of one program by their parents."""

    children: dict[Reference, list[VisibleObject]] = field(default_factory=dict)
    roots: list[VisibleObject] = field(default_factory=list)


def read_tree(bus: Bus) -> str:
    """The tree of all programs as XML.

    Raises:
        TimeoutError: a program does not answer.
        OSError: the accessibility bus is gone.
    """
    desktop = ElementTree.Element("desktop-frame", {"name": "main"})
    answer = bus.ask_one(programs_call(), SECONDS_TO_READ)
    for owner, path in answer[0] if answer else ():
        _add_program(bus, desktop, Reference(owner, path))
    return ElementTree.tostring(desktop, encoding="unicode")


def _add_program(bus: Bus, desktop: ElementTree.Element, root: Reference) -> None:
    answer = bus.ask_one(tree_call(root.owner), SECONDS_TO_READ)
    items = [read_item(row) for row in answer[0]] if answer else []
    name = next((item.name for item in items if item.reference == root), "")
    node = ElementTree.SubElement(desktop, "application", {"name": _clean(name)})
    uncached = read_uncached(bus, items, SECONDS_TO_READ)
    latest = {item.reference: item for item in [*items, *uncached, *_gtk2_menu_items(bus, root, items)]}
    seen = _read_objects(bus, [item for item in latest.values() if item.shown])
    moved = _with_corrected_bounds(seen)
    tree = _build_tree(moved)
    sheets = spreadsheets_in(latest.values())
    for sheet in moved:
        if sheet.item.reference not in sheets:
            continue
        true = sheet.bounds.left, sheet.bounds.top
        reported = next(other.bounds for other in seen if other.item.reference == sheet.item.reference)
        shift = true[0] - reported.left, true[1] - reported.top
        cells = read_visible_cells(bus, sheet.item, reported, SECONDS_TO_READ)
        tree.children[sheet.item.reference] = [
            VisibleObject(cell.item, _shifted(cell.bounds, shift), cell.text) for cell in cells
        ]
    for shown in tree.roots:
        _write(node, shown, tree)


def _gtk2_menu_items(bus: Bus, root: Reference, items: Sequence[CachedObject]) -> list[CachedObject]:
    """The items of open menus of GTK 2 programs, which are on the screen but lack the state `showing`."""
    toolkit = bus.ask_one(property_call(root, "Application", "ToolkitName"), SECONDS_TO_READ)
    if not toolkit or toolkit[0][1] != _GTK2:
        return []
    hidden = [item for item in items if item.role in _MENU_ROLES and "visible" in item.states and not item.shown]
    places = bus.ask([extents_call(item.reference) for item in hidden], SECONDS_TO_READ)
    return [
        item._replace(states=item.states | {"showing"})
        for item, place in zip(hidden, places, strict=True)
        if place and place[0][0] >= 0
    ]


def _read_objects(bus: Bus, items: Sequence[CachedObject]) -> list[VisibleObject]:
    """Read the bounds, the text and the value of each object."""
    places = bus.ask([extents_call(item.reference) for item in items], SECONDS_TO_READ)
    boxes = {item.reference: _box(place) for item, place in zip(items, places, strict=True)}
    with_text = [item for item in items if "Text" in item.interfaces and item.role in _WITH_TEXT]
    references = [item.reference for item in with_text]
    texts = dict(zip(references, read_texts(bus, references, SECONDS_TO_READ), strict=True))
    with_value = [item for item in items if "Value" in item.interfaces and item.role in _WITH_VALUE]
    values = _answers(bus, with_value, [property_call(item.reference, "Value", "CurrentValue") for item in with_value])
    return [
        VisibleObject(
            item,
            boxes[item.reference],
            texts.get(item.reference, ""),
            _number(values.get(item.reference)),
        )
        for item in items
    ]


def _answers(bus: Bus, items: Sequence[CachedObject], calls: Sequence[Any]) -> dict[Reference, Any]:
    found = bus.ask(calls, SECONDS_TO_READ)
    return {item.reference: answer[0] for item, answer in zip(items, found, strict=True) if answer}


def _number(variant: Any) -> float | None:
    return float(variant[1]) if variant is not None else None


def _box(extents: tuple[Any, ...] | None) -> Box:
    left, top, width, height = extents[0] if extents else (0, 0, 0, 0)
    return Box(left, top, left + width, top + height)


def _with_corrected_bounds(seen: Sequence[VisibleObject]) -> list[VisibleObject]:
    """Correct the bounds of the objects that LibreOffice draws itself.

    LibreOffice gives the bounds of its `root-pane`, and of all objects in it, as if the GTK menu bar above had no
    height. The GTK panel of the same size has the true bounds.
    """
    children: dict[Reference, list[Reference]] = {}
    for shown in seen:
        children.setdefault(shown.item.parent, []).append(shown.item.reference)
    shifts: dict[Reference, tuple[int, int]] = {}
    for pane in seen:
        if pane.item.role == "root-pane" and pane.bounds.area and pane.item.reference not in shifts:
            canvas = next(
                (s.bounds for s in seen if s.item.role == "panel" and _is_canvas(s.bounds, pane.bounds)), None
            )
            if canvas is not None:
                shift = canvas.left - pane.bounds.left, canvas.top - pane.bounds.top
                shifts.update(dict.fromkeys(_below(pane.item.reference, children), shift))
    return [shown._replace(bounds=_shifted(shown.bounds, shifts.get(shown.item.reference, (0, 0)))) for shown in seen]


def _is_canvas(panel: Box, pane: Box) -> bool:
    same_size = (panel.right - panel.left, panel.bottom - panel.top) == (pane.right - pane.left, pane.bottom - pane.top)
    return same_size and panel != pane


def _below(root: Reference, children: Mapping[Reference, Sequence[Reference]]) -> Iterable[Reference]:
    waiting = [root]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(children.get(one, ()))


def _shifted(box: Box, by: tuple[int, int]) -> Box:
    return Box(box.left + by[0], box.top + by[1], box.right + by[0], box.bottom + by[1])


def _build_tree(seen: Sequence[VisibleObject]) -> _ObjectTree:
    """Sort children in reading order. GTK widgets that LibreOffice embeds name a parent that is not in the tree."""
    tree, known = _ObjectTree(), {shown.item.reference for shown in seen}
    for shown in sorted(seen, key=lambda one: (one.item.place < 0, one.item.place, one.bounds.top, one.bounds.left)):
        if shown.item.parent in known:
            tree.children.setdefault(shown.item.parent, []).append(shown)
        elif shown.item.role != "application":
            tree.roots.append(shown)
    for siblings in tree.children.values():
        if any(one.item.place < 0 for one in siblings):
            # The cache gives the index of some entries of a menu only.
            siblings.sort(key=lambda one: (one.bounds.top, one.bounds.left))
    return tree


def _write(parent: ElementTree.Element, shown: VisibleObject, tree: _ObjectTree) -> None:
    item, box = shown.item, shown.bounds
    if box.area == 0:
        # A single tab has no area, but its content does. LibreOffice's second menu bar, without height, has none.
        for child in tree.children.get(item.reference, ()) if item.role != "menu-bar" else ():
            _write(parent, child, tree)
        return
    node = ElementTree.SubElement(parent, item.role, {"name": _clean(item.name)})
    for state in sorted(item.states):
        node.set(f"{STATE}{state}", "true")
    node.set(f"{COMPONENT}screencoord", f"({box.left}, {box.top})")
    node.set(f"{COMPONENT}size", f"({box.right - box.left}, {box.bottom - box.top})")
    if shown.value is not None:
        node.set(f"{VALUE}value", f"{shown.value:g}")
    node.text = _clean(shown.text) or None
    for child in tree.children.get(item.reference, ()):
        _write(node, child, tree)


def _clean(text: str) -> str:
    """The text without characters that XML cannot have, and without U+FFFC, which stands for embedded objects."""
    return _NOT_IN_XML.sub("", text.replace("\ufffc", ""))


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
        *_objects_below(bus, listing, frozenset(), seconds),
        *_objects_below(bus, _lacking(cached), known, seconds),
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


def _objects_below(
    bus: Bus, parents: Sequence[CachedObject], known: Set[Reference], seconds: float
) -> list[CachedObject]:
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
