"""The names of elements in paths and goals."""

from __future__ import annotations

from collections.abc import Iterable

from trajmill.schemas.observation import UIElement


def targets(elements: Iterable[UIElement]) -> dict[str, UIElement]:
    """The elements by their names in paths: the element id, or `role:text` without one.

    If several elements have one name, the first has it without a number, the others are numbered from 2: `button:OK#2`.
    """
    named: dict[str, UIElement] = {}
    seen: dict[str, int] = {}
    for element in elements:
        name = element.element_id or f"{element.role}:{element.text}"
        seen[name] = count = seen.get(name, 0) + 1
        named[name if count == 1 else f"{name}#{count}"] = element
    return named
