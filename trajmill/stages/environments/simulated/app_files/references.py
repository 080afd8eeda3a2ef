"""Resolves the references of app files: pages, states and widgets by name, `$name` and `{field}` in texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

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
    TaskSpec,
    Toggle,
)

BACK = "back"
"""The `to` of a button that goes back."""
_NAME = re.compile(r"\$([A-Za-z_]\w*)")
_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")
_SHOWN: Final = ("text", "note", "label", "hint", "options", "title", "items")
"""Keys of screens and widgets that hold what is drawn."""
_SAID: Final = ("phrasings", "heldout_phrasings", "clauses", "heldout_clauses")
"""Keys of tasks that hold the words of instructions."""
_PLACEHOLDER: Final = re.compile(r"\{\w+\}|\$\w+|[()\[\]|]")
_OF_THE_DEVICE: Final = ("Back", "Close", "Show desktop", "Not now", "Rate", "Learn more", "Try Plus for free", "+ -")
"""Rows that stand in no app file."""
_BETWEEN_CLAUSES: Final = ", and . ? !"


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


def shown(value: Scalar) -> str:
    """A value as the screen shows it; true and false are `on` and `off`."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def names_in(value: Scalar) -> Iterator[str]:
    """The `$name`s of a value."""
    return (match[1] for match in _NAME.finditer(value)) if isinstance(value, str) else iter(())


def fields_in(value: Scalar) -> Iterator[str]:
    """The `{field}`s of a value."""
    return (match[1] for match in _FIELD.finditer(value)) if isinstance(value, str) else iter(())


def bind(value: Scalar, values: Mapping[str, Scalar], item: Item | None = None) -> Scalar:
    """A value with its `$name`s (and `{field}`s of an item) replaced; a single name is replaced by a value of any type.

    Raises:
        KeyError: there is no such name or field.
    """
    if not isinstance(value, str):
        return value
    if item is not None and "{" in value:
        whole = _FIELD.fullmatch(value)
        if whole:
            return item[whole[1]]
        value = _FIELD.sub(lambda match: shown(item[match[1]]), value)
    if "$" not in value:
        return value
    whole = _NAME.fullmatch(value)
    if whole:
        return values[whole[1]]
    return _NAME.sub(lambda match: shown(values[match[1]]), value)


def bind_text(text: str, values: Mapping[str, Scalar], item: Item | None = None) -> str:
    """A text with its names replaced, as the screen shows it."""
    return shown(bind(text, values, item))


def bind_record(record: Item, values: Mapping[str, Scalar], item: Item | None = None) -> Item:
    """A record with the names in its values replaced."""
    return {field: bind(value, values, item) for field, value in record.items()}


def texts_of(apps: Iterable[AppSpec], tasks: Iterable[TaskSpec]) -> Iterator[str]:
    """The texts on the screens of apps, and those that instructions for tasks are made of, capitalised ones too."""
    yield from _OF_THE_DEVICE
    yield _BETWEEN_CLAUSES
    for app in apps:
        yield app.name
        yield from _strings([app.lists, app.state, app.variables])
        for screen in app.screens.values():
            yield from _screen_texts(screen.model_dump())
    for task in tasks:
        yield from _strings([[slot.values, slot.say] for slot in task.slots])
        for text in _strings([task.model_dump(include=set(_SAID))]):
            words = _PLACEHOLDER.sub(" ", text)
            yield words
            # Any word of a template may come to begin the sentence.
            yield words.title()


def _screen_texts(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key in _SHOWN:
                yield from (_PLACEHOLDER.sub(" ", text) for text in _strings([value]))
            yield from _screen_texts(value)
    elif isinstance(part, list | tuple):
        for each in part:
            yield from _screen_texts(each)


def _strings(values: Any) -> Iterator[str]:
    if isinstance(values, dict):
        values = values.values()
    for value in values:
        if isinstance(value, dict | list | tuple):
            yield from _strings(value)
        elif isinstance(value, str | int):
            yield str(value)
