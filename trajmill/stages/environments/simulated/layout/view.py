"""A screen with its accessibility tree and targets of presses, and a cache of such screens."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import NamedTuple

from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.stages.environments.simulated.drawing.draw import draw
from trajmill.stages.environments.simulated.drawing.scene import Scene
from trajmill.stages.environments.simulated.layout.scrolling import ScrollState
from trajmill.stages.environments.simulated.layout.widgets import DrawnPart, Target

MOST_VIEWS = 8192
"""Most views in the cache of a world in a process; one takes about 10 kB."""


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
