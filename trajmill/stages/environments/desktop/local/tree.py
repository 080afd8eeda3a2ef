"""Read the accessibility trees of all programs over AT-SPI into one XML, as an OSWorld machine does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from typing import NamedTuple
from xml.etree import ElementTree

from trajmill.schemas.geometry import Box
from trajmill.stages.environments.desktop.local.atspi import (
    Bus,
    CachedObject,
    Reference,
    box_of,
    extents_call,
    programs_call,
    property_call,
    read_item,
    read_texts,
    role_name,
    state_names,
    tree_call,
)
from trajmill.stages.environments.desktop.metrics import cell_address
from trajmill.stages.environments.desktop.protocol import COMPONENT, STATE, VALUE

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
    item: CachedObject
    bounds: Box
    text: str = ""
    value: float | None = None


class _ObjectTree(NamedTuple):
    children: dict[Reference, list[VisibleObject]]
    roots: list[VisibleObject]


def read_tree(bus: Bus) -> str:
    """Read the tree of all programs as XML; raises TimeoutError without an answer, OSError without a bus."""
    desktop = ElementTree.Element("desktop-frame", {"name": "main"})
    answer = bus.ask_one(programs_call())
    for owner, path in answer[0] if answer else ():
        _add_program(bus, desktop, Reference(owner, path))
    return ElementTree.tostring(desktop, encoding="unicode")


def _add_program(bus: Bus, desktop: ElementTree.Element, root: Reference) -> None:
    answer = bus.ask_one(tree_call(root.owner))
    items = [read_item(row) for row in answer[0]] if answer else []
    name = next((item.name for item in items if item.reference == root), "")
    node = ElementTree.SubElement(desktop, "application", {"name": _clean(name)})
    uncached = read_uncached(bus, items)
    latest = {item.reference: item for item in [*items, *uncached, *_gtk2_menu_items(bus, root, items)]}
    seen = _read_objects(bus, [item for item in latest.values() if item.shown])
    moved = _with_corrected_bounds(seen)
    tree = _build_tree(moved)
    spreadsheets = {item.reference for item in latest.values() if item.role == "document-spreadsheet"}
    for sheet, reported in zip(moved, (each.bounds for each in seen), strict=True):
        if sheet.item.role != "table" or sheet.item.parent not in spreadsheets:
            continue
        shift = sheet.bounds.left - reported.left, sheet.bounds.top - reported.top
        cells = read_visible_cells(bus, sheet.item, reported)
        tree.children[sheet.item.reference] = [cell._replace(bounds=cell.bounds.moved(*shift)) for cell in cells]
    for shown in tree.roots:
        _write(node, shown, tree)


def _gtk2_menu_items(bus: Bus, root: Reference, items: Sequence[CachedObject]) -> list[CachedObject]:
    """The items of open menus of GTK 2 programs, which are on the screen but lack the state `showing`."""
    toolkit = bus.ask_one(property_call(root, "Application", "ToolkitName"))
    if not toolkit or toolkit[0][1] != _GTK2:
        return []
    hidden = [item for item in items if item.role in _MENU_ROLES and "visible" in item.states and not item.shown]
    places = bus.ask([extents_call(item.reference) for item in hidden])
    return [
        item._replace(states=item.states | {"showing"})
        for item, place in zip(hidden, places, strict=True)
        if place and place[0][0] >= 0
    ]


def _read_objects(bus: Bus, items: Sequence[CachedObject]) -> list[VisibleObject]:
    places = bus.ask([extents_call(item.reference) for item in items])
    with_text = [item.reference for item in items if "Text" in item.interfaces and item.role in _WITH_TEXT]
    texts = dict(zip(with_text, read_texts(bus, with_text), strict=True))
    with_value = [item.reference for item in items if "Value" in item.interfaces and item.role in _WITH_VALUE]
    answers = bus.ask([property_call(each, "Value", "CurrentValue") for each in with_value])
    values = {each: float(answer[0][1]) for each, answer in zip(with_value, answers, strict=True) if answer}
    return [
        VisibleObject(item, box_of(place), texts.get(item.reference, ""), values.get(item.reference))
        for item, place in zip(items, places, strict=True)
    ]


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
            width, height = pane.bounds.right - pane.bounds.left, pane.bounds.bottom - pane.bounds.top
            for canvas in (each.bounds for each in seen if each.item.role == "panel"):
                same_size = (canvas.right - canvas.left, canvas.bottom - canvas.top) == (width, height)
                if same_size and canvas != pane.bounds:
                    waiting = [pane.item.reference]
                    while waiting:
                        one = waiting.pop()
                        shifts[one] = canvas.left - pane.bounds.left, canvas.top - pane.bounds.top
                        waiting.extend(children.get(one, ()))
                    break
    return [each._replace(bounds=each.bounds.moved(*shifts.get(each.item.reference, (0, 0)))) for each in seen]


def _build_tree(seen: Sequence[VisibleObject]) -> _ObjectTree:
    """Sort children in reading order. GTK widgets that LibreOffice embeds name a parent that is not in the tree."""
    tree, known = _ObjectTree({}, []), {shown.item.reference for shown in seen}
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
    return _NOT_IN_XML.sub("", text.replace("\ufffc", ""))


def read_uncached(bus: Bus, cached: Sequence[CachedObject]) -> list[CachedObject]:
    """Read the visible objects of a program that its cache lacks, some levels below the visible cached ones.

    Lists, tables, icon views and texts give their content only on request; the cache may hold it too, with outdated
    states. Of all other objects, those with more children than the cache holds are read: the cache lacks parts of
    LibreOffice's windows, often the menu bar, and other parts after each start.
    """
    listing = [item for item in cached if item.shown and item.role in LISTING_ROLES]
    counts = Counter(item.parent for item in cached)
    # Some objects, such as menus, do not give the number of their children; the cache holds all of these or none.
    lacking = [
        item
        for item in cached
        if (item.shown or item.role == "application")
        and item.role not in LISTING_ROLES
        and (item.children > counts[item.reference] or (item.children < 0 and not counts[item.reference]))
    ]
    known = {item.reference for item in cached}
    return [*_objects_below(bus, listing, frozenset()), *_objects_below(bus, lacking, known)]


def _objects_below(bus: Bus, parents: Sequence[CachedObject], known: Set[Reference]) -> list[CachedObject]:
    found: list[CachedObject] = []
    level = list(parents)
    for _ in range(_LEVELS if level else 0):
        level = _children(bus, level, known) if level else []
        found.extend(level)
    return found


def _children(bus: Bus, parents: Sequence[CachedObject], known: Set[Reference]) -> list[CachedObject]:
    counts = bus.ask([property_call(item.reference, "Accessible", "ChildCount") for item in parents])
    few = [item for item, count in zip(parents, counts, strict=True) if count and 0 < count[0][1] <= _MOST_CHILDREN]
    answers = bus.ask([item.reference.call("Accessible", "GetChildren") for item in few])
    places = [
        (Reference(*reference), parent.reference, place)
        for parent, answer in zip(few, answers, strict=True)
        if answer
        for place, reference in enumerate(answer[0])
        if Reference(*reference) not in known
    ]
    states = bus.ask([child.call("Accessible", "GetState") for child, _, _ in places])
    objects = [
        CachedObject(child, parent, place, -1, _INTERFACES, "", "", state_names(state[0]))
        for (child, parent, place), state in zip(places, states, strict=True)
        if state
    ]
    shown = [item for item in objects if item.shown]
    names = bus.ask([property_call(item.reference, "Accessible", "Name") for item in shown])
    roles = bus.ask([item.reference.call("Accessible", "GetRole") for item in shown])
    return [
        item._replace(name=name[0][1].strip(), role=role_name(role[0]))
        for item, name, role in zip(shown, names, roles, strict=True)
        if name and role
    ]


_MOST_COLUMNS, _MOST_ROWS = 30, 60
_MOST_CELLS = 600
_INSIDE_PIXELS = 3
_ADDRESS = re.compile(r"([A-Z]+)([0-9]+)")


def read_visible_cells(bus: Bus, sheet: CachedObject, bounds: Box) -> list[VisibleObject]:
    """Read the visible cells of a sheet, row by row; `bounds` are in LibreOffice's coordinates of cells."""
    found = _cells_at(bus, sheet.reference, _visible_places(bus, sheet.reference, bounds)[:_MOST_CELLS])
    references = [cell.reference for cell in found]
    boxes = bus.ask([extents_call(reference) for reference in references])
    states = bus.ask([reference.call("Accessible", "GetState") for reference in references])
    texts = read_texts(bus, references)
    return [
        VisibleObject(cell._replace(states=state_names(state[0])), box_of(box), text)
        for cell, box, state, text in zip(found, boxes, states, texts, strict=True)
        if box and state
    ]


def _visible_places(bus: Bus, sheet: Reference, bounds: Box) -> list[tuple[int, int]]:
    """The rows and columns of the visible cells, row by row."""
    corner = sheet.call(
        "Component", "GetAccessibleAtPoint", "iiu", bounds.left + _INSIDE_PIXELS, bounds.top + _INSIDE_PIXELS, 0
    )
    found = bus.ask_one(corner)
    name = bus.ask_one(property_call(Reference(*found[0]), "Accessible", "Name")) if found else None
    address = _ADDRESS.fullmatch(name[0][1]) if name else None
    if address is None:
        return []
    row, column = int(address[2]) - 1, 0
    for letter in address[1]:
        column = column * 26 + ord(letter) - ord("A") + 1
    column -= 1
    heads = _boxes(bus, sheet, [(row, column + step) for step in range(_MOST_COLUMNS)])
    starts = _boxes(bus, sheet, [(row + step, column) for step in range(_MOST_ROWS)])
    columns = sum(box.left < bounds.right and box.area > 0 for box in heads)
    rows = sum(box.top < bounds.bottom and box.area > 0 for box in starts)
    return [(row + down, column + across) for down in range(rows) for across in range(columns)]


def _boxes(bus: Bus, sheet: Reference, places: list[tuple[int, int]]) -> list[Box]:
    cells = _cells_at(bus, sheet, places)
    answers = bus.ask([extents_call(cell.reference) for cell in cells])
    return [box_of(answer) for answer in answers if answer]


def _cells_at(bus: Bus, sheet: Reference, places: list[tuple[int, int]]) -> list[CachedObject]:
    answers = bus.ask([sheet.call("Table", "GetAccessibleAt", "ii", *place) for place in places])
    return [
        CachedObject(Reference(*answer[0]), sheet, -1, 0, frozenset(), cell_address(*place), "table-cell", frozenset())
        for place, answer in zip(places, answers, strict=True)
        if answer
    ]
