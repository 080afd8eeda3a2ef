"""Finds pages, states and widgets by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trajmill.stages.environments.simulated.app_files.app_spec import (
    AnyWidget,
    AppSpec,
    Button,
    Choice,
    Input,
    Item,
    ItemList,
    Menu,
    Scalar,
    ScreenSpec,
    Stepper,
    Toggle,
)

BACK = "back"
"""The `to` of a button that goes back."""


class AppPlace(NamedTuple):
    """A screen, list or state of one app."""

    app: str
    name: str

    def __str__(self) -> str:
        return f"{self.app}.{self.name}"


def place_of(reference: str, home: str = "") -> AppPlace:
    """Parse `name`, which belongs to the app `home`, or `app.name`."""
    app, dot, name = reference.partition(".")
    return AppPlace(app, name) if dot else AppPlace(home, app)


def start_values(app: AppSpec) -> dict[str, Scalar]:
    """The start values of an app's variables and scalar state."""
    return app.variables | {name: value for name, value in app.state.items() if not isinstance(value, tuple)}


def state_lists(app: AppSpec) -> dict[str, tuple[Item, ...]]:
    """The lists of an app's state at the start."""
    return {name: value for name, value in app.state.items() if isinstance(value, tuple)}


def all_lists(app: AppSpec) -> dict[str, tuple[Item, ...]]:
    """The fixed lists of an app, and those of its state at the start."""
    return {**app.lists, **state_lists(app)}


def widgets_of(screen: ScreenSpec) -> Iterator[AnyWidget]:
    """The widgets of a screen in order, each menu followed by its items."""
    for widget in screen.widgets:
        yield widget
        if isinstance(widget, Menu):
            yield from widget.items


def find_widget(screen: ScreenSpec, widget_id: str) -> AnyWidget | None:
    """The widget with this id, menu items included."""
    return next((widget for widget in widgets_of(screen) if widget.id == widget_id), None) if widget_id else None


def menu_of(screen: ScreenSpec, item: Button) -> Menu | None:
    """The menu of a button; None for a button of the page itself."""
    return next((widget for widget in screen.widgets if isinstance(widget, Menu) and item in widget.items), None)


def target_of(widget: AnyWidget) -> str:
    """The screen that pressing a widget leads to; empty if it leads nowhere."""
    return widget.to if isinstance(widget, Button | ItemList) else ""


def variable_of(widget: AnyWidget) -> str:
    """The variable or scalar state that a widget changes; empty if none."""
    match widget:
        case Choice() | Toggle() | Stepper() | Input() | ItemList():
            return widget.variable
        case _:
            return ""


def offered(widget: AnyWidget, app: AppSpec) -> tuple[Scalar, ...]:
    """Every value that a widget can give its variable at the start of the app; empty for an input."""
    match widget:
        case Choice():
            return widget.options
        case Toggle():
            return (False, True)
        case Stepper():
            return tuple(range(widget.minimum, widget.maximum + 1))
        case ItemList():
            fixed = {field: value for field, value in widget.where.items() if "$" not in str(value)}
            items = all_lists(app).get(widget.items, ())
            return tuple(i["name"] for i in items if "name" in i and _has(i, fixed))
        case _:
            return ()


def _has(item: Item, fields: Mapping[str, Scalar]) -> bool:
    return all(item.get(field) == value for field, value in fields.items())
