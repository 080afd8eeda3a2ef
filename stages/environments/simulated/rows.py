"""Widgets to rows: what one widget shows and what pressing it means, before it has a place on the screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from schemas.geometry import Box
from schemas.observation import UIElement
from stages.environments.simulated.app_spec import (
    AnyWidget,
    Button,
    Choice,
    Input,
    Item,
    ItemList,
    Menu,
    Scalar,
    Stepper,
    Text,
    Toggle,
)
from stages.environments.simulated.binding import bind_record, bind_text, shown
from stages.environments.simulated.metrics import Metrics
from stages.environments.simulated.scene import Shape

_MOST_COLUMNS = 3
_RING = 1.33
"""Room of a radio button's ring and padding, as a part of its height."""
_RADIO_CHARACTER = 0.2
"""Width of a character of its text, as a part of its height."""


class Target(NamedTuple):
    """What a press on a place means."""

    act: str
    """open, press, pick, choose, flip, step, focus, menu, back, home, dismiss or offer."""
    widget: AnyWidget | None = None
    value: Scalar = ""
    """The app to open, item to pick, option to choose or step to take."""


class Part(NamedTuple):
    """Something drawn, with its accessibility element and what pressing it means."""

    shape: Shape
    element: UIElement | None = None
    target: Target | None = None

    def moved(self, right: int, down: int, bottom: int) -> Part:
        """The part at another place, cut off below `bottom`."""
        kind, (left, top, wide, low), text, note, state, color = self.shape
        box = Box(left + right, top + down, wide + right, min(low + down, bottom))
        element = self.element
        if element:
            element = UIElement(element.role, element.text, box, element.states, element.value, element.element_id)
        return Part(Shape(kind, box, text, note, state, color), element, self.target)


class Row(NamedTuple):
    """Parts side by side; their boxes are relative to the row's top left corner."""

    height: int
    parts: tuple[Part, ...]
    widget: str = ""
    """Id of the widget it belongs to."""


class PageContext(NamedTuple):
    """What the widgets of a page are shown with."""

    page: str
    """`app.screen`."""
    values: Mapping[str, Scalar]
    lists: Mapping[str, tuple[Item, ...]]
    metrics: Metrics
    width: int
    focus: str
    sponsored: bool
    """Whether an advertisement stands in the page's first list."""


def page_rows(widgets: tuple[AnyWidget, ...], context: PageContext) -> Iterator[Row]:
    """The rows of a page's body from top to bottom."""
    for widget in widgets:
        if is_shown(widget, context.values):
            yield from _widget_rows(widget, context)
            if isinstance(widget, ItemList):
                context = context._replace(sponsored=False)


def is_shown(widget: AnyWidget, values: Mapping[str, Scalar]) -> bool:
    """Whether the widget's condition holds."""
    return all(values[name] == wanted for name, wanted in widget.show_if.items())


def list_items(
    widget: ItemList, values: Mapping[str, Scalar], lists: Mapping[str, tuple[Item, ...]]
) -> tuple[Item, ...]:
    """The items that a list shows, after its filter and its search."""
    items = lists[widget.items]
    if widget.where:
        wanted = bind_record(widget.where, values)
        items = tuple(item for item in items if all(item.get(field) == value for field, value in wanted.items()))
    if widget.search and values[widget.search]:
        searched = shown(values[widget.search]).casefold()
        items = tuple(item for item in items if searched in shown(item.get("name", "")).casefold())
    return items


def part(kind: str, role: str, box: Box, text: str, element_id: str, target: Target | None = None, **more: str) -> Part:
    """A part whose element says what its shape draws; `more`: note, value, state, color."""
    state = more.get("state", "")
    states = ("disabled",) if state == "disabled" else (("clickable",) if target else ())
    if state == "on":
        states = (*states, "checked")
    if role in ("text_field", "search_field"):
        states = (*states, "editable", *(("focused",) if state == "focused" else ()))
    shape = Shape(kind, box, text, more.get("note", ""), state, more.get("color", ""))
    element = UIElement(role, text.replace("\n", " "), box, states, more.get("value", ""), element_id)
    return Part(shape, element, None if state == "disabled" else target)


def button_part(button: Button, context: PageContext, box: Box) -> Part:
    """A button, disabled while something it needs is missing."""
    kind = "button" if button.style == "plain" else f"{button.style}_button"
    enabled = all(context.values[name] not in ("", 0, False) for name in button.needs)
    text = bind_text(button.text, context.values)
    target = Target("press", button)
    return part(kind, "button", box, text, f"{context.page}/{button.id}", target, state="" if enabled else "disabled")


def wrapped(text: str, width: int, line: int, metrics: Metrics) -> str:
    """The text in lines that fit into `width` pixels at that line height."""
    room = max(8, int(width / (line * metrics.character)))
    return "\n".join(textwrap.wrap(text, room)) or " "


def _widget_rows(widget: AnyWidget, context: PageContext) -> Iterator[Row]:
    match widget:
        case Text():
            yield _text_row(widget, context)
        case Button():
            wide = context.metrics.button_width or context.width
            box = Box(0, 0, wide, context.metrics.button)
            yield Row(context.metrics.button, (button_part(widget, context, box),), widget.id)
        case ItemList():
            yield from _list_rows(widget, context)
        case Choice():
            yield from _choice_rows(widget, context)
        case Toggle():
            yield _toggle_row(widget, context)
        case Stepper():
            yield _stepper_row(widget, context)
        case Input():
            yield _input_row(widget, context)
        case Menu():
            return


def _text_row(widget: Text, context: PageContext) -> Row:
    metrics = context.metrics
    line = metrics.heading if widget.kind == "heading" else metrics.text
    inset = 44 if widget.kind == "value" else 0
    text = wrapped(bind_text(widget.text, context.values), context.width - inset, line, metrics)
    height = line * (text.count("\n") + 1)
    box = Box(0, 0, context.width, height)
    element_id = f"{context.page}/{widget.id}" if widget.id else ""
    return Row(height, (part(widget.kind, widget.kind, box, text, element_id),), widget.id)


def _list_rows(widget: ItemList, context: PageContext) -> Iterator[Row]:
    metrics, page = context.metrics, context.page
    items = list_items(widget, context.values, context.lists)
    passive = not (widget.variable or widget.do or widget.to)
    if not items:
        box = Box(0, 0, context.width, metrics.text)
        yield Row(metrics.text, (part("text", "text", box, "Nothing here yet", f"{page}/{widget.id}"),), widget.id)
    for index, item in enumerate(items):
        if context.sponsored and index == 1:
            yield _sponsored_row(context)
        text = bind_text(widget.text, context.values, item)
        note = bind_text(widget.note, context.values, item)
        element_id = f"{page}/{widget.id}/{item.get('name', index)}"
        if passive:
            yield _shown_item(text, note, element_id, context)
            continue
        height = metrics.noted_row if widget.note else metrics.row
        target = Target("pick", widget, item.get("name", ""))
        box = Box(0, 0, context.width, height)
        more = {"note": note, "value": note}
        yield Row(height, (part("list_item", "list_item", box, text, element_id, target, **more),), widget.id)


def _shown_item(text: str, note: str, element_id: str, context: PageContext) -> Row:
    metrics = context.metrics
    lines = wrapped(text, context.width - 44, metrics.text, metrics)
    height = metrics.text * (lines.count("\n") + 1)
    box = Box(0, 0, context.width, height)
    return Row(height, (part("value", "value", box, lines, element_id, note=note, value=note),))


def _sponsored_row(context: PageContext) -> Row:
    height = context.metrics.noted_row
    box = Box(0, 0, context.width, height)
    note = "Sponsored"
    target = Target("offer")
    return Row(
        height, (part("list_item", "list_item", box, "Try Plus for free", "popup/ad", target, note=note, value=note),)
    )


def _choice_rows(widget: Choice, context: PageContext) -> Iterator[Row]:
    metrics, page = context.metrics, context.page
    label = Box(0, 0, context.width, metrics.label)
    yield Row(metrics.label, (part("label", "text", label, widget.label, ""),), widget.id)
    columns = _columns(widget, context)
    wide = (context.width - (columns - 1) * metrics.gap) // columns
    for start in range(0, len(widget.options), columns):
        parts = []
        for column, option in enumerate(widget.options[start : start + columns]):
            left = column * (wide + metrics.gap)
            state = "on" if context.values[widget.variable] == option else ""
            box = Box(left, 0, left + wide, metrics.row)
            target = Target("choose", widget, option)
            element_id = f"{page}/{widget.id}/{shown(option)}"
            parts.append(
                part("radio", "radio", box, shown(option), element_id, target, state=state, value=widget.label)
            )
        yield Row(metrics.row, tuple(parts), widget.id)


def _columns(widget: Choice, context: PageContext) -> int:
    """As many radio buttons side by side as their texts allow, in rows of equal length where that is possible."""
    row, count = context.metrics.row, len(widget.options)
    longest = max((len(shown(option)) for option in widget.options), default=1)
    wanted = row * (_RING + _RADIO_CHARACTER * longest)
    most = max(1, min(_MOST_COLUMNS, count, int(context.width / wanted)))
    return next(columns for columns in range(most, 0, -1) if count % columns == 0 or count > 5)


def _toggle_row(widget: Toggle, context: PageContext) -> Row:
    height = context.metrics.row
    state = "on" if context.values[widget.variable] else ""
    box = Box(0, 0, context.width, height)
    target = Target("flip", widget)
    element_id = f"{context.page}/{widget.id}"
    text = bind_text(widget.text, context.values)
    return Row(height, (part(widget.kind, widget.kind, box, text, element_id, target, state=state),), widget.id)


def _stepper_row(widget: Stepper, context: PageContext) -> Row:
    height, gap = context.metrics.row, context.metrics.gap
    side = max(height, 56)
    number = context.values[widget.variable]
    left = context.width - 2 * side - gap
    page = f"{context.page}/{widget.id}"
    tall = height * 3 // 4
    label = Box(0, (height - tall) // 2, left - gap, (height + tall) // 2)
    parts = [part("label", "text", label, widget.text, page, note=shown(number), value=shown(number))]
    for sign, step, limit in (("-", -1, widget.minimum), ("+", 1, widget.maximum)):
        box = Box(left, 0, left + side, height)
        state = "disabled" if number == limit else ""
        target = Target("step", widget, step)
        more = {"value": widget.text, "state": state}
        parts.append(part("stepper_button", "stepper_button", box, sign, f"{page}/{sign}", target, **more))
        left += side + gap
    return Row(height, tuple(parts), widget.id)


def _input_row(widget: Input, context: PageContext) -> Row:
    height = context.metrics.field
    role = "text_field" if widget.kind == "field" else "search_field"
    held = shown(context.values[widget.variable])
    state = "focused" if context.focus == widget.id else ""
    box = Box(0, 0, context.width, height)
    target = Target("focus", widget)
    more = {"note": held, "value": held, "state": state}
    return Row(
        height, (part(widget.kind, role, box, widget.hint, f"{context.page}/{widget.id}", target, **more),), widget.id
    )
