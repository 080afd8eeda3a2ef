"""A screen with its accessibility tree, the targets of presses and its scroll offsets; and a cache of such screens."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.stages.environments.simulated.app_files.app_spec import (
    AnyWidget,
    AppSpec,
    Button,
    Item,
    ItemList,
    Scalar,
    Text,
    Toggle,
)
from trajmill.stages.environments.simulated.app_files.references import names_in, state_lists, variable_of, widgets_of
from trajmill.stages.environments.simulated.drawing.draw import draw
from trajmill.stages.environments.simulated.drawing.scene import Scene
from trajmill.stages.environments.simulated.layout.profile import DeviceProfile
from trajmill.stages.environments.simulated.layout.widgets import DrawnPart, Target, WidgetRow

_TURN = 0.8
"""Share of the viewport that one scroll moves by."""
MOST_VIEWS = 8192
"""Most views in the cache of a world in a process; one takes about 10 kB."""


class ScrollState(NamedTuple):
    """The scroll offset of a body, and the offsets after scrolling."""

    offset: int
    """Pixels of content above the viewport; always at the top of a row."""
    up: int | None
    """Offset after scrolling towards the start; None at the start."""
    down: int | None


class PlacedRows(NamedTuple):
    """The rows that a viewport shows."""

    parts: tuple[DrawnPart, ...]
    scroll: ScrollState
    content: int
    """Height of all rows."""


def place_rows(rows: Sequence[WidgetRow], viewport: Box, gap: int, offset: int, focus: str) -> PlacedRows:
    """Place rows from the top of the viewport; only whole rows are shown, and the focused row is always shown."""
    tops = _tops(rows, gap)
    content = tops[-1] + rows[-1].height if rows else 0
    room = viewport.bottom - viewport.top
    offset = _aligned(tops, rows, room, content, offset)
    if focus:
        offset = _revealing(tops, rows, room, offset, focus)
    parts: list[DrawnPart] = []
    hidden_below: int | None = None
    for top, row in zip(tops, rows, strict=True):
        if top < offset:
            continue
        # A row that is taller than the viewport is cut; otherwise it would never be shown.
        if top > offset and top + row.height > offset + room:
            hidden_below = top
            break
        parts.extend(row.place(viewport.left, viewport.top + top - offset, viewport.bottom))
    return PlacedRows(tuple(parts), _scroll(tops, room, offset, hidden_below), content)


def _tops(rows: Sequence[WidgetRow], gap: int) -> list[int]:
    tops, top = [], 0
    for row in rows:
        tops.append(top)
        top += row.height + gap
    return tops


def _aligned(tops: list[int], rows: Sequence[WidgetRow], room: int, content: int, offset: int) -> int:
    if content <= room or not rows:
        return 0
    last = next((top for top in tops if content - top <= room), tops[-1])
    return min(max((top for top in tops if top <= offset), default=0), last)


def _revealing(tops: list[int], rows: Sequence[WidgetRow], room: int, offset: int, focus: str) -> int:
    for top, row in zip(tops, rows, strict=True):
        if row.widget == focus:
            if top < offset:
                return top
            if top + row.height > offset + room:
                return next((start for start in tops if top + row.height - start <= room), top)
    return offset


def _scroll(tops: list[int], room: int, offset: int, hidden_below: int | None) -> ScrollState:
    above = [top for top in tops if top < offset]
    up = next((top for top in above if top >= offset - _TURN * room), above[-1]) if above else None
    down = None
    if hidden_below is not None:
        down = min(hidden_below, max(top for top in tops if top <= max(offset + _TURN * room, hidden_below)))
    return ScrollState(offset, up, down)


class Hit(NamedTuple):
    """An area that reacts to a press."""

    box: Box
    target: Target


class ScreenView(NamedTuple):
    """A screen as an agent sees it, and the targets of its areas."""

    observation: Observation
    scene: Scene
    hits: tuple[Hit, ...]
    scroll: ScrollState

    def target_at(self, x: int, y: int) -> Target | None:
        """The target of a press at a position; None if nothing reacts."""
        for box, target in self.hits:
            if box.left <= x < box.right and box.top <= y < box.bottom:
                return target
        return None


def make_view(scene: Scene, parts: Sequence[DrawnPart], scroll: ScrollState, app: str) -> ScreenView:
    """A view of a scene whose accessible parts are `parts`, in reading order."""
    elements = tuple(part.element for part in parts if part.element)
    handle = ScreenHandle(_screen_id(scene, elements, app), scene.size, partial(draw, scene))
    hits = tuple(Hit(part.shape.box, part.target) for part in parts if part.target)
    return ScreenView(Observation(handle, elements, app), scene, hits, scroll)


def _screen_id(scene: Scene, elements: tuple[UIElement, ...], app: str) -> str:
    # Plain tuples are used, because `repr` is several times faster for them than for named ones.
    shapes = [(kind, *box, text, note, state, color) for kind, box, text, note, state, color in scene.shapes]
    tree = [(role, text, *box, states, value, name) for role, text, box, states, value, name in elements]
    content = repr((*scene.size, scene.accent, scene.dark, app, shapes, tree))
    return hashlib.blake2b(content.encode(), digest_size=12).hexdigest()


class ViewCache:
    """A cache of the latest views; all environments of a world in a process share it."""

    def __init__(self) -> None:
        self._views: OrderedDict[Hashable, ScreenView] = OrderedDict()

    def view(self, key: Hashable, make: Callable[[], ScreenView]) -> ScreenView:
        """The view for a key; it is made if it is not in the cache."""
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = make()
            if len(self._views) > MOST_VIEWS:
                self._views.popitem(last=False)
        else:
            self._views.move_to_end(key)
        return found


class PageReads(NamedTuple):
    """The names of the values and lists that a page shows."""

    values: tuple[str, ...]
    lists: tuple[str, ...]
    """Lists of the state; fixed lists are left out, because they never change."""


class PreparedApp(NamedTuple):
    """An app with everything that is computed once."""

    app: AppSpec
    reads: dict[str, PageReads]
    """The names that a page shows, by screen."""
    fixed: dict[int, dict[str, tuple[Item, ...]]]
    """The fixed lists by number of the device profile, of the profiles met so far."""

    def fixed_lists(self, profile: DeviceProfile) -> dict[str, tuple[Item, ...]]:
        """The fixed lists in the order of a device."""
        if profile.number not in self.fixed:
            self.fixed[profile.number] = profile.fixed_lists(self.app)
        return self.fixed[profile.number]


def prepare_app(app: AppSpec) -> PreparedApp:
    """Prepare an app."""
    own = state_lists(app)
    reads = {}
    for name, screen in app.screens.items():
        values = {*names_in(screen.title)}
        lists = set()
        for widget in widgets_of(screen):
            values.update(_values_read(widget))
            if isinstance(widget, ItemList) and widget.items in own:
                lists.add(widget.items)
        reads[name] = PageReads(tuple(sorted(values)), tuple(sorted(lists)))
    return PreparedApp(app, reads, {})


def _values_read(widget: AnyWidget) -> Iterator[str]:
    yield from widget.show_if
    texts: tuple[Scalar, ...] = ()
    match widget:
        case Text() | Toggle():
            texts = (widget.text,)
        case Button():
            texts = (widget.text,)
            yield from widget.needs
        case ItemList():
            texts = (widget.text, widget.note, *widget.where.values())
            if widget.search:
                yield widget.search
    for text in texts:
        yield from names_in(text)
    if variable_of(widget) and not isinstance(widget, ItemList):
        yield variable_of(widget)
