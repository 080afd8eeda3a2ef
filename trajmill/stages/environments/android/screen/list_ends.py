"""Finds the ends of lists. uiautomator does not report them, but a swipe that moves nothing shows one."""

from __future__ import annotations

from trajmill.schemas.actions import Swipe
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement

Elements = tuple[UIElement, ...]


class ListEnds:
    """The ends of lists that the swipes of one episode have revealed."""

    def __init__(self) -> None:
        self._ends: set[tuple[Elements, Box, str]] = set()

    def learn(self, swipe: Swipe, before: Elements | None, after: Elements | None) -> None:
        """Learn from a vertical swipe, and the elements before and after it as uiautomator gave them."""
        down = swipe.y - swipe.y2
        if before is None or before != after or abs(down) <= abs(swipe.x - swipe.x2):
            return
        state = "scrollable_down" if down > 0 else "scrollable_up"
        self._ends.update(
            (before, each.bounds, state)
            for each in before
            if each.role == "list" and each.bounds.contains(swipe.x, swipe.y)
        )

    def correct(self, elements: Elements | None) -> Elements | None:
        """The elements without the scroll states of lists for directions in which they are known to end."""
        if elements is None or not self._ends:
            return elements
        return tuple(
            each._replace(
                states=tuple(state for state in each.states if (elements, each.bounds, state) not in self._ends)
            )
            if each.role == "list"
            else each
            for each in elements
        )
