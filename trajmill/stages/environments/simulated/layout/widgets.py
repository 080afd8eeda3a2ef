"""Turn widgets into rows: what a widget shows and what a press does, before it has a place on the screen."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import HOLDABLE, SLIDER_MARK, UIElement
from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AnyWidget, Item, Scalar
from trajmill.stages.environments.simulated.app_files.references import bind_record, bind_text, shown
from trajmill.stages.environments.simulated.drawing.canvas import Shape
from trajmill.stages.environments.simulated.layout.profile import Layout, Metrics

_EDITABLE = ("field", "search")
_MOST_COLUMNS = 3
_RING = 1.33
"""Width of a radio button's ring and padding, as a share of its height."""
_RADIO_CHARACTER = 0.2
"""Width of a character of its text, as a share of its height."""
_VALUE_INSET = 44
"""Pixels between the sides of a value's box and its text."""
_STEPPER_SIDE = 56
_NARROW = 0.62
"""Width of what stands at one side, as a share of the page's."""


class Target(NamedTuple):
    act: str
    """`open`, `press`, `pick`, `hold`, `choose`, `slide`, `flip`, `step`, `focus`, `menu`, `back`, `home`, `dismiss` or
    `offer`."""
    widget: AnyWidget | None = None
    value: Scalar = ""
    """The app to open, the item to pick, the option to choose, or the step."""


class DrawnPart(NamedTuple):
    shape: Shape
    element: UIElement | None = None
    target: Target | None = None


class WidgetRow(NamedTuple):
    height: int
    place: Callable[[int, int, int], tuple[DrawnPart, ...]]
    """Makes its parts at a left and a top edge, cut at a bottom edge."""
    widget: str = ""


class PageContext(NamedTuple):
    page: str
    values: Mapping[str, Scalar]
    lists: Mapping[str, tuple[Item, ...]]
    metrics: Metrics
    width: int
    focus: str
    sponsored: bool
    """Whether the page's first list has an advertisement."""
    layout: Layout = Layout.ROWS


def page_rows(widgets: tuple[AnyWidget, ...], context: PageContext) -> Iterator[WidgetRow]:
    for widget in widgets:
        if is_shown(widget, context.values):
            yield from _arranged_rows(widget, context) if _is_movable(widget) else _widget_rows(widget, context)
            if isinstance(widget, app_spec.ItemList):
                context = context._replace(sponsored=False)


def _is_movable(widget: AnyWidget) -> bool:
    is_list = isinstance(widget, app_spec.ItemList) and bool(widget.variable or widget.do or widget.to)
    return is_list or isinstance(widget, app_spec.Button | app_spec.Toggle | app_spec.Input)


def _arranged_rows(widget: AnyWidget, context: PageContext) -> Iterator[WidgetRow]:
    """Make the rows of a list, a button, a toggle or a field narrower, and put them where the layout has them."""
    width, gap = context.width, context.metrics.gap
    if context.layout is Layout.ROWS:
        yield from _widget_rows(widget, context)
    elif context.layout is Layout.GRID:
        half = (width - gap) // 2
        rows = iter(_widget_rows(widget, context._replace(width=half)))
        for first in rows:
            yield _side_by_side(first, next(rows, None), half + gap)
    else:
        narrow = int(width * _NARROW)
        for row in _widget_rows(widget, context._replace(width=narrow)):
            yield _moved(row, width - narrow if context.layout is Layout.END else 0)


def _moved(row: WidgetRow, right: int) -> WidgetRow:
    return row._replace(place=lambda left, top, bottom: row.place(left + right, top, bottom))


def _side_by_side(first: WidgetRow, second: WidgetRow | None, apart: int) -> WidgetRow:
    if second is None:
        return first

    def place(left: int, top: int, bottom: int) -> tuple[DrawnPart, ...]:
        return (*first.place(left, top, bottom), *second.place(left + apart, top, bottom))

    return WidgetRow(max(first.height, second.height), place, first.widget)


def is_shown(widget: AnyWidget, values: Mapping[str, Scalar]) -> bool:
    return all(values[name] == wanted for name, wanted in widget.show_if.items())


def list_items(
    widget: app_spec.ItemList, values: Mapping[str, Scalar], lists: Mapping[str, tuple[Item, ...]]
) -> tuple[Item, ...]:
    items = lists[widget.items]
    if widget.where:
        wanted = bind_record(widget.where, values)
        items = tuple(item for item in items if all(item.get(field) == value for field, value in wanted.items()))
    if widget.search and values[widget.search]:
        searched = shown(values[widget.search]).casefold()
        items = tuple(item for item in items if searched in shown(item.get("name", "")).casefold())
    return items


def part(
    kind: str,
    role: str,
    box: Box,
    text: str,
    element_id: str,
    target: Target | None = None,
    *,
    note: str = "",
    value: str = "",
    state: str = "",
    color: str = "",
) -> DrawnPart:
    states: tuple[str, ...] = ()
    if state == "disabled":
        states, target = ("disabled",), None
    elif target:
        states = (*(["clickable"] if target.act != "slide" else []), *(["checked"] if state == "on" else []))
        states += (HOLDABLE,) if isinstance(target.widget, app_spec.ItemList) and target.widget.hold else ()
    if kind in _EDITABLE:
        states = (*states, "editable", "focused") if state == "focused" else (*states, "editable")
    element = UIElement(role, text.replace("\n", " "), box, states, value, element_id)
    return DrawnPart(Shape(kind, box, text, note, state, color), element, target)


def button_part(button: app_spec.Button, context: PageContext, box: Box) -> DrawnPart:
    kind = "button" if button.style == "plain" else f"{button.style}_button"
    text = bind_text(button.text, context.values)
    target, state = Target("press", button), "" if button.is_enabled(context.values) else "disabled"
    return part(kind, "button", box, text, f"{context.page}/{button.id}", target, state=state)


def _wrapped(text: str, width: int, line: int, metrics: Metrics) -> str:
    room = max(8, int(width / (line * metrics.character)))
    return "\n".join(textwrap.wrap(text, room)) or " "


def _widget_rows(widget: AnyWidget, context: PageContext) -> Iterator[WidgetRow]:
    metrics = context.metrics
    element_id = f"{context.page}/{widget.id}"
    row = Size(context.width, metrics.row)
    match widget:
        case app_spec.Text(kind=kind):
            line = metrics.heading if kind == "heading" else metrics.text
            inset = _VALUE_INSET if kind == "value" else 0
            text = _wrapped(bind_text(widget.text, context.values), context.width - inset, line, metrics)
            size = Size(context.width, line * (text.count("\n") + 1))
            yield _single(kind, kind, text, element_id if widget.id else "", size, widget.id)
        case app_spec.Button():
            yield _button_row(widget, context)
        case app_spec.ItemList():
            yield from _list_rows(widget, context)
        case app_spec.Choice(options=options):
            yield _single("label", "text", widget.label, "", Size(context.width, metrics.label), widget.id)
            # As many columns as the texts allow, in rows of equal length if possible.
            longest = max((len(shown(option)) for option in options), default=1)
            fitting = int(context.width / (metrics.row * (_RING + _RADIO_CHARACTER * longest)))
            most = max(1, min(_MOST_COLUMNS, len(options), fitting))
            columns = next(n for n in range(most, 0, -1) if len(options) % n == 0 or len(options) > 5)
            columns = len(options) if widget.kind == "slider" else columns
            for start in range(0, len(options), columns):
                yield _radio_row(widget, options[start : start + columns], columns, context)
        case app_spec.Toggle(kind=kind):
            state = "on" if context.values[widget.variable] else ""
            text = bind_text(widget.text, context.values)
            yield _single(kind, kind, text, element_id, row, widget.id, Target("flip", widget), state=state)
        case app_spec.Stepper():
            yield _stepper_row(widget, context)
        case app_spec.Input(kind=kind):
            size = Size(context.width, metrics.field)
            held = shown(context.values[widget.variable])
            state = "focused" if context.focus == widget.id else ""
            role, focus = "text_field" if kind == "field" else "search_field", Target("focus", widget)
            yield _single(kind, role, widget.hint, element_id, size, widget.id, focus, held, state)


def _single(
    kind: str,
    role: str,
    text: str,
    element_id: str,
    size: Size,
    widget: str,
    target: Target | None = None,
    value: str = "",
    state: str = "",
) -> WidgetRow:
    def place(left: int, top: int, bottom: int) -> tuple[DrawnPart, ...]:
        box = Box(left, top, left + size.width, min(top + size.height, bottom))
        return (part(kind, role, box, text, element_id, target, note=value, value=value, state=state),)

    return WidgetRow(size.height, place, widget)


def _button_row(widget: app_spec.Button, context: PageContext) -> WidgetRow:
    height, width = context.metrics.button, context.metrics.button_width or context.width

    def place(left: int, top: int, bottom: int) -> tuple[DrawnPart, ...]:
        return (button_part(widget, context, Box(left, top, left + width, min(top + height, bottom))),)

    return WidgetRow(height, place, widget.id)


def _list_rows(widget: app_spec.ItemList, context: PageContext) -> Iterator[WidgetRow]:
    metrics, width, page = context.metrics, context.width, context.page
    items = list_items(widget, context.values, context.lists)
    passive = not (widget.variable or widget.do or widget.to)
    size = Size(width, metrics.noted_row if widget.note else metrics.row)
    if not items:
        none = Size(width, metrics.text)
        yield _single("text", "text", "Nothing here yet", f"{page}/{widget.id}", none, widget.id)
    for index, item in enumerate(items):
        if context.sponsored and index == 1:
            large, offer = Size(width, metrics.noted_row), Target("offer")
            yield _single("list_item", "list_item", "Try Plus for free", "popup/ad", large, "", offer, "Sponsored")
        text = bind_text(widget.text, context.values, item)
        note = bind_text(widget.note, context.values, item)
        element_id = f"{page}/{widget.id}/{item.get('name', index)}"
        if passive:
            lines = _wrapped(text, width - _VALUE_INSET, metrics.text, metrics)
            tall = Size(width, metrics.text * (lines.count("\n") + 1))
            yield _single("value", "value", lines, element_id, tall, widget.id, value=note)
        else:
            target = Target("pick", widget, item.get("name", ""))
            yield _single("list_item", "list_item", text, element_id, size, widget.id, target, note)


def _radio_row(widget: app_spec.Choice, options: tuple[Scalar, ...], columns: int, context: PageContext) -> WidgetRow:
    height, gap = context.metrics.row, context.metrics.gap if widget.kind == "choice" else 0
    wide = (context.width - (columns - 1) * gap) // columns

    def place(left: int, top: int, bottom: int) -> tuple[DrawnPart, ...]:
        parts = []
        for column, option in enumerate(options):
            start = left + column * (wide + gap)
            box = Box(start, top, start + wide, min(top + height, bottom))
            state = "on" if context.values[widget.variable] == option else ""
            element_id = f"{context.page}/{widget.id}/{shown(option)}"
            role, act = ("radio", "choose") if widget.kind == "choice" else (SLIDER_MARK, "slide")
            target = Target(act, widget, option)
            parts.append(part(role, role, box, shown(option), element_id, target, state=state, value=widget.label))
        return tuple(parts)

    return WidgetRow(height, place, widget.id)


def _stepper_row(widget: app_spec.Stepper, context: PageContext) -> WidgetRow:
    height, gap = context.metrics.row, context.metrics.gap
    side = max(height, _STEPPER_SIDE)
    number = context.values[widget.variable]
    page = f"{context.page}/{widget.id}"
    inset = height // 8

    def place(left: int, top: int, bottom: int) -> tuple[DrawnPart, ...]:
        low = min(top + height, bottom)
        plus = left + context.width - side
        minus = plus - gap - side
        label = Box(left, top + inset, minus - gap, low - inset)
        parts = [part("label", "text", label, widget.text, page, note=shown(number), value=shown(number))]
        for sign, step, limit, start in (("-", -1, widget.minimum, minus), ("+", 1, widget.maximum, plus)):
            box = Box(start, top, start + side, low)
            state = "disabled" if number == limit else ""
            target = Target("step", widget, step)
            made = part(
                "stepper_button", "stepper_button", box, sign, f"{page}/{sign}", target, value=widget.text, state=state
            )
            parts.append(made)
        return tuple(parts)

    return WidgetRow(height, place, widget.id)
