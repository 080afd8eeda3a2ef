"""Writes instructions for elements: what they are for (functional), how they look, and where they stand.

Each instruction fits one element of its screen only; an ambiguous one is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.text import one_line
from trajmill.stages.derive.grounding.boxes import is_large
from trajmill.stages.derive.grounding.colours import ElementColour

_LONGEST_LABEL = 60
_OVERLAYS = frozenset({"dialog", "keyboard", "menu_item"})
"""Roles that are drawn over the rest of the screen."""
_NOUNS: Final[Mapping[str, str]] = {
    "list_item": "list entry",
    "radio": "radio button",
    "text_field": "text field",
    "search_field": "search field",
    "stepper_button": "small button",
    "menu_item": "menu entry",
}
_PURPOSES: Final[Mapping[str, str]] = {
    "Back": "Go back to the previous page.",
    "Close": "Close this window.",
    "Cancel": "Leave this without a change.",
    "Show desktop": "Show the desktop.",
}
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


class PressTarget(NamedTuple):
    """An element that an instruction may point at."""

    element: UIElement
    label: str


class Instruction(NamedTuple):
    variant: str
    text: str
    box: Box


class NoInstruction(NamedTuple):
    """The reason why an element or a text has no instruction of a variant."""

    variant: str
    reason: str
    detail: str = ""


def targets(elements: Sequence[UIElement], size: Size, smallest: int) -> Iterator[PressTarget | str]:
    """Yield every element that can be pressed, as a target or as the reason against it."""
    pressed = [element for element in elements if element.clickable]
    alike = Counter((element.role, one_line(element.text), element.value) for element in pressed)
    for element in pressed:
        label = one_line(element.text)
        reason = _unfit(element, label, elements, size, smallest)
        if reason is None and alike[element.role, label, element.value] > 1:
            reason = "ambiguous"
        yield reason or PressTarget(element, label)


def _unfit(element: UIElement, label: str, elements: Sequence[UIElement], size: Size, smallest: int) -> str | None:
    if element.bounds.within(Box(0, 0, *size)) != element.bounds:
        return "off_screen"
    if not is_large(element.bounds, smallest):
        return "too_small"
    if "disabled" in element.states:
        return "disabled"
    if not any(letter.isalnum() for letter in label) and not element.value:
        return "no_text"
    if len(label) > _LONGEST_LABEL:
        return "long_text"
    if IMAGE_PLACEHOLDER in label:
        return "placeholder_in_text"
    if element.role in _OVERLAYS:
        return None
    # An overlay may hide the middle of an element that is no part of it.
    over = [other.bounds for other in elements if other is not element and other.role in _OVERLAYS]
    box = element.bounds
    covered = any(other.contains(*box.center) and box.within(other) != box for other in over)
    return "covered" if covered else None


def functional(targets: Sequence[PressTarget]) -> list[Instruction | NoInstruction]:
    """Describe the purposes of elements, e.g. `Choose "House" as Folder.`; a checked radio button has none."""
    return [
        NoInstruction("functional", "chosen_already")
        if target.element.role == "radio" and "checked" in target.element.states
        else Instruction("functional", _purpose(target), target.element.bounds)
        for target in targets
    ]


def _purpose(target: PressTarget) -> str:
    element, label = target
    quoted, group = f'"{label}"', element.value
    match element.role:
        case "radio":
            return f"Choose {quoted} as {group}." if group else f"Choose {quoted}."
        case "switch":
            return f"Turn {'off' if 'checked' in element.states else 'on'} {quoted}."
        case "checkbox":
            return f"{'Untick' if 'checked' in element.states else 'Tick'} {quoted}."
        case "text_field" | "search_field":
            return f"Put the cursor into the field {quoted} to write there."
        case "stepper_button":
            return f"{'Increase' if label == '+' else 'Decrease'} {group or 'the number'}."
        case "menu":
            return f"Open the menu {quoted}."
        case "tab":
            return f"Go to the tab {quoted}."
        case "icon":
            return f"Open the app {quoted}."
        case "list_item" | "link":
            return f"Open {quoted}."
        case _:
            return _PURPOSES.get(label, f"Use {quoted}.")


def appearance(
    targets: Sequence[PressTarget], colours: Mapping[Box, ElementColour]
) -> list[Instruction | NoInstruction]:
    """Describe the looks of elements, without their texts where the colour is enough: `the orange button`."""
    found: list[Instruction | NoInstruction] = []
    for target in targets:
        colour, what = colours[target.element.bounds], noun(target.element)
        if not colour.name:
            found.append(NoInstruction("appearance", "no_colour"))
        elif not colour.alone and target.element.role == "stepper_button":
            found.append(NoInstruction("appearance", "looks_alike"))
        else:
            labelled = "" if colour.alone else f' with the text "{target.label}"'
            found.append(Instruction("appearance", f"The {colour.name} {what}{labelled}.", target.element.bounds))
    return _unambiguous(found)


def layout(targets: Sequence[PressTarget], elements: Sequence[UIElement]) -> list[Instruction | NoInstruction]:
    """Describe the places of elements: relative to a text beside or above them, or in the order of their sort."""
    named = Counter(element.text for element in elements)
    landmarks = [element for element in elements if element.text and named[element.text] == 1]
    sorts: dict[str, list[Box]] = {}
    for element in elements:
        if element.clickable:
            sorts.setdefault(noun(element), []).append(element.bounds)
    found: list[Instruction | NoInstruction] = []
    for target in targets:
        text = _beside(target.element, landmarks) or _in_order(target.element, sorts[noun(target.element)])
        made = Instruction("layout", text, target.element.bounds) if text else NoInstruction("layout", "no_landmark")
        found.append(made)
    return _unambiguous(found)


def noun(element: UIElement) -> str:
    return _NOUNS.get(element.role, element.role.replace("_", " "))


def _unambiguous(made: Sequence[Instruction | NoInstruction]) -> list[Instruction | NoInstruction]:
    texts = Counter(one.text for one in made if isinstance(one, Instruction))
    return [
        NoInstruction(one.variant, "ambiguous") if isinstance(one, Instruction) and texts[one.text] > 1 else one
        for one in made
    ]


def _beside(element: UIElement, landmarks: Sequence[UIElement]) -> str | None:
    """Name the nearest text to the left in the same row, or above in the same column."""
    box, others = element.bounds, [other for other in landmarks if other is not element]
    in_row = [other for other in others if other.bounds.top <= box.center.y < other.bounds.bottom]
    left = [other for other in in_row if other.bounds.right <= box.left]
    if left:
        nearest = max(left, key=lambda other: other.bounds.right)
        return f'The {noun(element)} to the right of "{one_line(nearest.text)}".'
    in_column = [other for other in others if other.bounds.left <= box.center.x < other.bounds.right]
    above = [other for other in in_column if 0 <= box.top - other.bounds.bottom <= box.bottom - box.top]
    if above:
        nearest = max(above, key=lambda other: other.bounds.bottom)
        return f'The {noun(element)} directly below "{one_line(nearest.text)}".'
    return None


def _in_order(element: UIElement, boxes: Sequence[Box]) -> str | None:
    ordered = sorted(boxes, key=lambda box: (box.top, box.left))
    place = ordered.index(element.bounds)
    side_by_side = any(other.top < box.bottom for box, other in pairwise(ordered))
    if len(ordered) == 1 or place >= len(_ORDINALS) or side_by_side:
        return None
    return f"The {_ORDINALS[place]} {noun(element)} from the top."
