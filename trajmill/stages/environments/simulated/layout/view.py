"""A screen with its accessibility tree, press targets and scroll offsets, and a cache of such screens."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import NamedTuple

from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec, Item, Scalar
from trajmill.stages.environments.simulated.app_files.references import names_in
from trajmill.stages.environments.simulated.drawing.canvas import Scene
from trajmill.stages.environments.simulated.drawing.draw import draw
from trajmill.stages.environments.simulated.layout.profile import DeviceProfile
from trajmill.stages.environments.simulated.layout.widgets import DrawnPart, Target, WidgetRow

_TURN = 0.8
"""Share of the viewport that one scroll moves by."""
MOST_VIEWS = 8192
"""Most views in the cache of a world in a process; one takes about 10 kB."""


class ScrollState(NamedTuple):
    offset: int
    """Pixels of content above the viewport; always at the top of a row."""
    up: int | None
    """Offset after scrolling towards the start; None at the start."""
    down: int | None


class PlacedRows(NamedTuple):
    parts: tuple[DrawnPart, ...]
    scroll: ScrollState
    content: int


def place_rows(rows: Sequence[WidgetRow], viewport: Box, gap: int, offset: int, focus: str) -> PlacedRows:
    """Place rows from the top of the viewport; only whole rows are shown, and the focused row is always shown."""
    tops, content = [], 0
    for row in rows:
        tops.append(content)
        content += row.height + gap
    content -= gap if rows else 0
    room = viewport.bottom - viewport.top
    if content <= room:
        offset = 0
    else:
        last = next((top for top in tops if content - top <= room), tops[-1])
        offset = min(max((top for top in tops if top <= offset), default=0), last)
    focused = next(((top, top + row.height) for top, row in zip(tops, rows, strict=True) if focus == row.widget), None)
    if focus and focused:
        top, bottom = focused
        if top < offset:
            offset = top
        elif bottom > offset + room:
            offset = next((start for start in tops if bottom - start <= room), top)
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
    above = [top for top in tops if top < offset]
    up = next((top for top in above if top >= offset - _TURN * room), above[-1]) if above else None
    down = None
    if hidden_below is not None:
        down = min(hidden_below, max(top for top in tops if top <= max(offset + _TURN * room, hidden_below)))
    return PlacedRows(tuple(parts), ScrollState(offset, up, down), content)


class ScreenView(NamedTuple):
    observation: Observation
    scene: Scene
    hits: tuple[tuple[Box, Target], ...]
    scroll: ScrollState

    def target_at(self, x: int, y: int) -> Target | None:
        return next((target for box, target in self.hits if box.contains(x, y)), None)


def make_view(scene: Scene, parts: Sequence[DrawnPart], scroll: ScrollState, app: str) -> ScreenView:
    """Make a view of a scene with its accessible parts in reading order; the screen id hashes both."""
    elements = tuple(part.element for part in parts if part.element)
    # Plain tuples are used, because `repr` is several times faster for them than for named ones.
    shapes = [(kind, *box, text, note, state, color) for kind, box, text, note, state, color in scene.shapes]
    tree = [(role, text, *box, states, value, name) for role, text, box, states, value, name in elements]
    content = repr((*scene.size, scene.accent, scene.dark, app, shapes, tree))
    screen_id = hashlib.blake2b(content.encode(), digest_size=12).hexdigest()
    handle = ScreenHandle(screen_id, scene.size, partial(draw, scene))
    hits = tuple((part.shape.box, part.target) for part in parts if part.target)
    return ScreenView(Observation(handle, elements, app), scene, hits, scroll)


class ViewCache:
    def __init__(self) -> None:
        self._views: OrderedDict[Hashable, ScreenView] = OrderedDict()

    def view(self, key: Hashable, make: Callable[[], ScreenView]) -> ScreenView:
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = make()
            if len(self._views) > MOST_VIEWS:
                self._views.popitem(last=False)
        else:
            self._views.move_to_end(key)
        return found


class PageReads(NamedTuple):
    values: tuple[str, ...]
    lists: tuple[str, ...]
    """Lists of the state; fixed lists are left out, because they never change."""


class PreparedApp(NamedTuple):
    app: AppSpec
    reads: dict[str, PageReads]
    fixed: dict[int, dict[str, tuple[Item, ...]]]
    """The fixed lists by number of the device profile, of the profiles met so far."""

    def fixed_lists(self, profile: DeviceProfile) -> dict[str, tuple[Item, ...]]:
        if profile.number not in self.fixed:
            self.fixed[profile.number] = profile.fixed_lists(self.app)
        return self.fixed[profile.number]


def prepare_app(app: AppSpec) -> PreparedApp:
    own, reads = app.state_lists(), {}
    for name, screen in app.screens.items():
        values, lists = {*names_in(screen.title)}, set()
        for widget in screen.all_widgets():
            values.update(widget.show_if)
            texts: tuple[Scalar, ...] = ()
            match widget:
                case app_spec.Text():
                    texts = (widget.text,)
                case app_spec.Button():
                    texts = (widget.text,)
                    values.update(widget.needs)
                case app_spec.ItemList():
                    texts = (widget.text, widget.note, *widget.where.values())
                    values.update([widget.search] if widget.search else [])
                    lists.update([widget.items] if widget.items in own else [])
                case app_spec.Menu():
                    pass
                case _:
                    texts = (widget.text,) if isinstance(widget, app_spec.Toggle) else ()
                    values.add(widget.variable)
            values.update(found for text in texts for found in names_in(text))
        reads[name] = PageReads(tuple(sorted(values)), tuple(sorted(lists)))
    return PreparedApp(app, reads, {})
