"""Resolve the references of app files: places by name, `$name` and `{field}` in texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AnyWidget, AppSpec, Item, Scalar

BACK = "back"
_NAME = re.compile(r"\$([A-Za-z_]\w*)")
_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")
_DRAWN_KEYS: Final = ("text", "note", "label", "hint", "options", "title", "items")
_INSTRUCTION_KEYS: Final = {"phrasings", "heldout_phrasings", "clauses", "heldout_clauses"}
_PLACEHOLDER: Final = re.compile(r"\{\w+\}|\$\w+|[()\[\]|]")
_DEVICE_TEXTS: Final = ("Back", "Close", "Show desktop", "Not now", "Rate", "Learn more", "Try Plus for free", "+ -")
_BETWEEN_CLAUSES: Final = ", and . ? !"


class AppPlace(NamedTuple):
    app: str
    name: str

    def __str__(self) -> str:
        return f"{self.app}.{self.name}"


def place_of(reference: str, home: str = "") -> AppPlace:
    """Parse `app.name`, or `name` in the app `home`."""
    app, dot, name = reference.partition(".")
    return AppPlace(app, name) if dot else AppPlace(home, app)


def offered(widget: AnyWidget, app: AppSpec) -> tuple[Scalar, ...]:
    """Return every value that a widget can set at the start of the app; empty for an input."""
    match widget:
        case app_spec.Choice():
            return widget.options
        case app_spec.Toggle():
            return (False, True)
        case app_spec.Stepper():
            return tuple(range(widget.minimum, widget.maximum + 1))
        case app_spec.ItemList():
            fixed = {field: value for field, value in widget.where.items() if "$" not in str(value)}
            items = app.all_lists().get(widget.items, ())
            return tuple(
                item["name"]
                for item in items
                if "name" in item and all(item.get(field) == value for field, value in fixed.items())
            )
        case _:
            return ()


def shown(value: Scalar) -> str:
    """Format a value as the screen shows it; true and false are `on` and `off`."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def names_in(value: Scalar) -> Iterator[str]:
    return (match[1] for match in _NAME.finditer(value)) if isinstance(value, str) else iter(())


def fields_in(value: Scalar) -> Iterator[str]:
    return (match[1] for match in _FIELD.finditer(value)) if isinstance(value, str) else iter(())


def bind(value: Scalar, values: Mapping[str, Scalar], item: Item | None = None) -> Scalar:
    """Replace `$name`s, and `{field}`s of an item; a lone one keeps its type. Raises KeyError for an unknown one."""
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
    return shown(bind(text, values, item))


def bind_record(record: Item, values: Mapping[str, Scalar], item: Item | None = None) -> Item:
    return {field: bind(value, values, item) for field, value in record.items()}


def texts_of(apps: Iterable[AppSpec], tasks: Iterable[app_spec.TaskSpec]) -> Iterator[str]:
    """Iterate over the texts of screens and instructions, for a vocabulary."""
    yield from _DEVICE_TEXTS
    yield _BETWEEN_CLAUSES
    for app in apps:
        yield app.name
        yield from _strings([app.lists, app.state, app.variables])
        for screen in app.screens.values():
            yield from _screen_texts(screen.model_dump())
    for task in tasks:
        yield from _strings([[slot.values, slot.say] for slot in task.slots])
        for text in _strings([task.model_dump(include=_INSTRUCTION_KEYS)]):
            words = _PLACEHOLDER.sub(" ", text)
            # Any word of a template may begin the sentence.
            yield from (words, words.title())


def _screen_texts(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key in _DRAWN_KEYS:
                yield from (_PLACEHOLDER.sub(" ", text) for text in _strings([value]))
            yield from _screen_texts(value)
    elif isinstance(part, list | tuple):
        for each in part:
            yield from _screen_texts(each)


def _strings(values: Any) -> Iterator[str]:
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, dict | list | tuple):
            yield from _strings(value)
        elif isinstance(value, str | int):
            yield str(value)
