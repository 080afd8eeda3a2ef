"""Merges the screens of an exploration into pages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import PathStep
from trajmill.stages.graphs.explore.base import WalkedScreen
from trajmill.stages.graphs.explore.items import ItemGroup, item_groups, repeated

_LEAST_ALIKE = 0.8
"""Least Jaccard index of the operable elements of two screens of one page."""
_CONTENT = frozenset({"list_item", "icon", "value", "text", "image", "list", "heading", "title", "cell", "dialog"})
"""Roles of elements that come and go with the content of a page, or that its key has."""
_SHARED = frozenset({"link", "tab", "menu", "menu_item"})
_FEWEST_SHARED = 3
"""Fewest elements that make a menu or a header of several pages."""
_NUMBERS = re.compile(r"\d+|[0-9a-f]{8,}")
_FILE = re.compile(r"/index\.html?(?=$|[?#])")
"""What a server adds to a folder's address."""
_PLACE_IN_RESULTS = re.compile(r"(?<=[?&])(?:page|p|offset|start|from)=\d*&?")
_MARKS = "*• "
"""Characters that title bars add to the name of a changed document."""


class PageKey(NamedTuple):
    """What must be equal on all screens of a page."""

    app: str
    title: str
    address: str
    """As the title without numbers, which name things rather than pages."""
    dialogs: frozenset[str]
    menu: frozenset[str]
    """The menu bar, and the entries of open menus."""
    tabs: frozenset[str]
    """The tabs in front."""

    def stands_over(self, other: PageKey) -> bool:
        """Whether it is the other page with a menu or a dialog opened over it."""
        return self.app in (other.app, "") and (other.menu < self.menu or other.dialogs < self.dialogs)


class ListOrigin(NamedTuple):
    """A list of items; what they lead to is one page, whatever its title."""

    page: int
    items: str


class ScrolledScreen(NamedTuple):
    """A further part of a page that is longer than the screen."""

    screen: WalkedScreen
    way: tuple[PathStep, ...]
    region: str
    """The element that was scrolled."""
    last: str
    """The last element that came up."""
    key: PageKey
    names: frozenset[tuple[str, str]]


class FoundElement(NamedTuple):
    element: UIElement
    way: tuple[PathStep, ...]
    screen_id: str


@dataclass
class FoundPage:
    number: int
    key: PageKey
    names: frozenset[tuple[str, str]]
    """The operable elements of its first screen, by role and name."""
    way: tuple[PathStep, ...]
    """The first known way to it."""
    origin: ListOrigin | None
    """The list of which an item led to it."""
    screens: list[WalkedScreen] = field(default_factory=list)
    elements: dict[str, FoundElement] = field(default_factory=dict)
    """By the names in paths, on the screen that showed them first."""
    scrolled: list[ScrolledScreen] = field(default_factory=list)
    """Its further parts, in the order of their discovery."""
    results: dict[str, int] = field(default_factory=dict)
    """By element that was pressed, the number of the page that it led to; -1 for none."""
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By box of choices that was opened, its options."""
    _groups: tuple[int, list[ItemGroup]] = (0, [])

    @property
    def first(self) -> WalkedScreen:
        return self.screens[0]

    @property
    def standing(self) -> list[WalkedScreen]:
        """The screens of a page before anything was done there, wherever it is scrolled to."""
        ways = ((each.screen, each.way[len(self.way) :]) for each in self.scrolled)
        return [self.first, *(screen for screen, way in ways if all(step.operation == "scroll" for step in way))]

    @property
    def groups(self) -> list[ItemGroup]:
        """What repeats on it, also below the visible part."""
        if self._groups[0] != len(self.elements):
            stood = {target: each.element for target, each in self.elements.items()}
            self._groups = len(stood), item_groups(stood)
        return self._groups[1]

    def group_of(self, target: str) -> ItemGroup | None:
        """The group that an element belongs to; None for another element."""
        return next((group for group in self.groups if target in group.items.values()), None)

    def around(self, element: UIElement) -> tuple[UIElement, ...]:
        """The elements of the screen that first showed an element: others may have something else in its place."""
        shown = next((each.screen_id for each in self.elements.values() if each.element is element), "")
        return next((each.elements for each in self.every_screen if each.screen_id == shown), ())

    def add_elements(self, screen: WalkedScreen, way: tuple[PathStep, ...]) -> None:
        for target, element in screen.by_target.items():
            self.elements.setdefault(target, FoundElement(element, way, screen.screen_id))

    @property
    def every_screen(self) -> tuple[WalkedScreen, ...]:
        return (*self.screens, *(each.screen for each in self.scrolled))


class PageBook:
    """The pages found so far, in the order of their discovery."""

    def __init__(self) -> None:
        self.pages: list[FoundPage] = []
        self._by_screen: dict[str, FoundPage] = {}
        self._shared: dict[tuple[int, int], frozenset[str]] = {}

    def page_of(self, screen_id: str) -> FoundPage | None:
        """The page of a screen that was added; None for another one."""
        return self._by_screen.get(screen_id)

    def below(self, page: FoundPage) -> frozenset[str]:
        """The elements that stand on pages below a page with a menu or a dialog, by their names in paths."""
        lower = (other for other in self.pages[: page.number] if page.key.stands_over(other.key))
        return frozenset(target for other in lower for target in other.elements)

    def shared(self, page: FoundPage, other: FoundPage) -> frozenset[str]:
        """The links, tabs and menus that two pages have in the same place, by their names in paths; few are none."""
        if page is other:
            return frozenset()
        key = page.number, other.number
        if key not in self._shared:
            first, second = ({(n, e.role, e.bounds[:2]) for n, e in p.first.by_target.items()} for p in (page, other))
            same = {name for name, role, _ in first & second if role in _SHARED}
            self._shared[key] = frozenset(same if len(same) >= _FEWEST_SHARED else ())
        return self._shared[key]

    def screen(self, screen_id: str) -> WalkedScreen:
        """A screen that was added. Raises KeyError for another one."""
        page = self._by_screen[screen_id]
        return next(each for each in page.every_screen if each.screen_id == screen_id)

    def knows(self, screen: WalkedScreen, origin: ListOrigin | None = None) -> bool:
        return screen.screen_id in self._by_screen or self._alike(screen, origin) is not None

    def add(self, screen: WalkedScreen, way: tuple[PathStep, ...], origin: ListOrigin | None = None) -> FoundPage:
        """Add a screen to its page, which may be new; `origin` is the list of which an item was pressed last."""
        page = self._by_screen.get(screen.screen_id) or self._alike(screen, origin)
        if page is None:
            page = FoundPage(len(self.pages), page_key(screen), operable(screen), way, origin)
            self.pages.append(page)
        self.add_filled(page, screen)
        page.add_elements(screen, way)
        return page

    def add_filled(self, page: FoundPage, screen: WalkedScreen) -> None:
        """Add a screen that is a page with a text in one of its fields, maybe with a keyboard over it."""
        if screen.screen_id not in self._by_screen:
            self._by_screen[screen.screen_id] = page
            page.screens.append(screen)

    def add_scrolled(self, page: FoundPage, screen: WalkedScreen, way: tuple[PathStep, ...], region: str) -> None:
        """Add a further part of a page: the screen after scrolling `region`.

        The last operation of `way` names the last element that came up.
        """
        if screen.screen_id in self._by_screen:
            return
        self._by_screen[screen.screen_id] = page
        part = ScrolledScreen(screen, way, region, way[-1].target, page_key(screen), operable(screen))
        page.scrolled.append(part)
        page.add_elements(screen, way)

    def _alike(self, screen: WalkedScreen, origin: ListOrigin | None) -> FoundPage | None:
        key, names = page_key(screen), operable(screen)

        def same(page: FoundPage) -> bool:
            if origin is not None and page.origin == origin:
                ours, theirs = ((k.app, len(k.dialogs), k.menu, k.tabs) for k in (key, page.key))
                return ours == theirs  # The rest may be named after the item.
            return page.key == key

        def is_part(page: FoundPage) -> bool:
            return any(each.key == key and _is_alike(each.names, names) for each in page.scrolled)

        def has_other_rows(page: FoundPage) -> bool:
            rows = {target for group in page.groups if not group.is_run for target in group.items.values()}
            known = {(e.role, e.element_id or e.text) for e in (page.elements[target].element for target in rows)}
            ours, theirs = ({each for each in some if each[1] != "*"} - known for some in (names, page.names))
            return bool(rows) and _is_alike(frozenset(ours), frozenset(theirs))

        whole = (page for page in self.pages if same(page) and (_is_alike(page.names, names) or has_other_rows(page)))
        return next(whole, None) or next(filter(is_part, self.pages), None)


def page_key(screen: WalkedScreen) -> PageKey:
    """Return what distinguishes pages, whatever their content."""
    title = next((element for element in screen.elements if "title" in element.states), None)
    return PageKey(
        app=screen.app,
        title=_NUMBERS.sub("0", title.text.strip(_MARKS)) if title else "",
        address=_address(title.value) if title else "",
        dialogs=frozenset(e.text for e in screen.elements if e.role == "dialog"),
        menu=frozenset(e.text for e in screen.elements if e.role in ("menu", "menu_item")),
        tabs=frozenset(e.text for e in screen.elements if e.role == "tab" and "selected" in e.states),
    )


def _address(value: str) -> str:
    """An address without what names no page: the file of a folder, the page of results, numbers."""
    address = _PLACE_IN_RESULTS.sub("", _FILE.sub("/", value)).rstrip("?&#")
    return _NUMBERS.sub("0", address)


def operable(screen: WalkedScreen) -> frozenset[tuple[str, str]]:
    """The elements of a screen that belong to the page rather than to its content, by role and name.

    Rows of several parts count once, however many there are.
    """
    in_rows = repeated(screen.elements)
    found: set[tuple[str, str]] = set()
    for at, element in enumerate(screen.elements):
        if element.role in _CONTENT or "title" in element.states or not (element.element_id or element.text):
            continue
        name = element.element_id or element.text
        if at in in_rows:
            name = "*"
        elif any(map(str.isalpha, name)):
            name = _NUMBERS.sub("0", name)
        found.add((element.role, name))
    return frozenset(found)


def _is_alike(first: frozenset[tuple[str, str]], second: frozenset[tuple[str, str]]) -> bool:
    both = first | second
    return not both or len(first & second) >= _LEAST_ALIKE * len(both)
