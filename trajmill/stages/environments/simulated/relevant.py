"""The values that a goal can need in an app, derived backwards through the effects, lists and filters of its pages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from trajmill.stages.environments.simulated.app_files.app_spec import (
    AppendEffect,
    AppSpec,
    Button,
    Effect,
    Item,
    ItemList,
    RemoveEffect,
    Scalar,
    SetEffect,
    Text,
    UpdateEffect,
)
from trajmill.stages.environments.simulated.app_files.references import fields_in, names_in, shown, widgets_of
from trajmill.stages.environments.simulated.state import Store

_LENGTH = 100
"""Weight of a missing or an extra record against a wrong field."""
_NAME = re.compile(r"\$([A-Za-z_]\w*)")


class Reading(NamedTuple):
    """A value that the agent must read on a page before it can use it in another app."""

    app: str
    screen: str
    text: str


class RelevantValues(NamedTuple):
    """The values worth setting in a search."""

    values: Mapping[str, frozenset[Scalar]]
    """By variable."""


class AppAim:
    """The wanted state of one app."""

    def __init__(self, app: AppSpec, wanted: Store) -> None:
        """Take the state that the whole app must have."""
        self.app = app
        self.wanted = wanted

    @cached_property
    def effects(self) -> tuple[tuple[Effect, ItemList | None], ...]:
        """All effects of the app, with the list whose item they read."""
        found: list[tuple[Effect, ItemList | None]] = []
        for screen in self.app.screens.values():
            for widget in widgets_of(screen):
                if isinstance(widget, Button | ItemList):
                    source = widget if isinstance(widget, ItemList) else None
                    found += [(effect, source) for effect in widget.do]
        return tuple(found)

    @cached_property
    def conditions(self) -> dict[str, set[Scalar]]:
        """By scalar, the values that make a widget visible."""
        found: dict[str, set[Scalar]] = defaultdict(set)
        for screen in self.app.screens.values():
            for widget in screen.widgets:
                for name, value in widget.show_if.items():
                    found[name].add(value)
        return found

    def scalars(self) -> Iterator[str]:
        """The names of the scalar state."""
        return (name for name in self.app.state if name not in self.wanted.lists)

    def is_reached(self, store: Store) -> bool:
        """Whether the state is as wanted."""
        return all(_same(store.values[name], self.wanted.values[name]) for name in self.scalars()) and all(
            store.lists[name].key == records.key for name, records in self.wanted.lists.items()
        )

    def is_lost(self, store: Store) -> bool:
        """Whether a list has records that no effect can remove or mend, or lacks some that none can add."""
        return any(
            store.lists[name].key != records.key and self._is_lost(name, store.lists[name].items, records.items)
            for name, records in self.wanted.lists.items()
        )

    def _is_lost(self, name: str, items: tuple[Item, ...], wanted: tuple[Item, ...]) -> bool:
        kinds = {type(effect) for effect, _ in self.effects if name in _lists_changed(effect)}
        if RemoveEffect in kinds and len(items) > len(wanted):
            return False
        if len(items) > len(wanted) or (len(items) < len(wanted) and AppendEffect not in kinds):
            return True
        return not all(
            one.get(field) == value or self._can_give(name, field, value)
            for one, other in zip(items, wanted, strict=False)
            for field, value in other.items()
        )

    def _can_give(self, name: str, field: str, value: Scalar) -> bool:
        """Whether an effect can give a field of a list's records a value."""
        templates = [
            effect.fields[field]
            for effect, _ in self.effects
            if isinstance(effect, UpdateEffect) and effect.update == name and field in effect.fields
        ]
        return any(_same(template, value) or any(mark in str(template) for mark in "${") for template in templates)

    def advances(self, before: Store, after: Store) -> bool:
        """Whether no list and no scalar state moves away from what is wanted."""
        for name, records in self.wanted.lists.items():
            one, other = before.lists[name], after.lists[name]
            if one.key != other.key and _missing(other.items, records.items) >= _missing(one.items, records.items):
                return False
        return all(
            _same(before.values[name], after.values[name])
            or _same(after.values[name], self.wanted.values[name])
            or after.values[name] in self.conditions.get(name, ())
            for name in self.scalars()
        )


def relevant_values(aim: AppAim, store: Store, unread: frozenset[Reading]) -> RelevantValues:
    """The values that the variables and scalar state of an app may need on a way from `store` to what is wanted."""
    found: dict[str, set[Scalar]] = defaultdict(set)
    for name, values in aim.conditions.items():
        found[name] |= values
    for name in aim.scalars():
        found[name].add(aim.wanted.values[name])
    lists = {**aim.app.lists, **{name: records.items for name, records in store.lists.items()}}
    for effect, source in aim.effects:
        for asked in _asked_of(effect, aim, store):
            _take(found, asked, source, lists)
    for reading in unread:
        _take_reading(found, reading, aim.app, lists)
    while _take_filters(found, aim.app, lists):
        pass
    for screen in aim.app.screens.values():
        for widget in screen.widgets:
            if isinstance(widget, ItemList) and widget.search:
                found[widget.search] = {""}
    return RelevantValues({name: frozenset(values) for name, values in found.items()})


def _asked_of(effect: Effect, aim: AppAim, store: Store) -> Iterator[list[tuple[Scalar, Scalar]]]:
    """For each useful run of an effect, its templates and the values that they must have."""
    match effect:
        case AppendEffect():
            for name, template in effect.append.items():
                for record in _without(aim.wanted.lists[name].items, store.lists[name].items):
                    yield [(value, record[field]) for field, value in template.items() if field in record]
        case UpdateEffect():
            wanted, held = aim.wanted.lists[effect.update].items, store.lists[effect.update].items
            for old, new in zip(held, wanted, strict=False):
                if old != new:
                    fields = [(value, new[field]) for field, value in effect.fields.items() if field in new]
                    yield [(effect.name, old.get("name", "")), *fields]
        case RemoveEffect():
            for record in _without(store.lists[effect.remove].items, aim.wanted.lists[effect.remove].items):
                yield [(effect.name, record.get("name", ""))]
        case SetEffect():
            scalars = set(aim.scalars())
            yield [(value, aim.wanted.values[name]) for name, value in effect.set.items() if name in scalars]
        case _:
            return


def _take(
    found: dict[str, set[Scalar]],
    asked: list[tuple[Scalar, Scalar]],
    source: ItemList | None,
    lists: Mapping[str, tuple[Item, ...]],
) -> None:
    of_item: dict[str, Scalar] = {}
    for template, value in asked:
        for name in names_in(template):
            if template == f"${name}":
                found[name].add(value)
        for field in fields_in(template):
            if template == f"{{{field}}}":
                of_item[field] = value
    if source is not None and of_item:
        for item in lists[source.items]:
            if all(item.get(field) == value for field, value in of_item.items()):
                _take_item(found, source, item)


def _take_item(found: dict[str, set[Scalar]], widget: ItemList, item: Item) -> bool:
    """Add what shows and picks an item; whether any of it is new."""
    wanted = [(value, item.get(field, "")) for field, value in widget.where.items()]
    pairs = [(template[1:], value) for template, value in wanted if isinstance(template, str) and template[:1] == "$"]
    pairs += [(widget.variable, item["name"])] if widget.variable and "name" in item else []
    new = [(name, value) for name, value in pairs if value not in found[name]]
    for name, value in new:
        found[name].add(value)
    return bool(new)


def _take_filters(found: dict[str, set[Scalar]], app: AppSpec, lists: Mapping[str, tuple[Item, ...]]) -> bool:
    new = False
    for screen in app.screens.values():
        for widget in screen.widgets:
            if isinstance(widget, ItemList) and widget.variable and found[widget.variable]:
                for item in lists[widget.items]:
                    if item.get("name") in found[widget.variable]:
                        new |= _take_item(found, widget, item)
    return new


def _take_reading(
    found: dict[str, set[Scalar]], reading: Reading, app: AppSpec, lists: Mapping[str, tuple[Item, ...]]
) -> None:
    for widget in app.screens[reading.screen].widgets:
        if isinstance(widget, Text):
            match = _NAME.fullmatch(widget.text.rpartition(" ")[2])
            if match:
                found[match[1]].add(reading.text)
        elif isinstance(widget, ItemList):
            for item in lists[widget.items]:
                if any(reading.text in shown(value) for value in item.values()):
                    _take_item(found, widget, item)


def _lists_changed(effect: Effect) -> tuple[str, ...]:
    match effect:
        case AppendEffect():
            return tuple(effect.append)
        case UpdateEffect():
            return (effect.update,)
        case RemoveEffect():
            return (effect.remove,)
        case _:
            return ()


def _missing(items: tuple[Item, ...], wanted: tuple[Item, ...]) -> int:
    """How far records are from the wanted ones."""
    if len(items) == len(wanted):
        pairs = zip(items, wanted, strict=True)
        return sum(one.get(field) != value for one, other in pairs if one != other for field, value in other.items())
    return _LENGTH * (len(_without(items, wanted)) + len(_without(wanted, items)))


def _without(items: tuple[Item, ...], others: tuple[Item, ...]) -> list[Item]:
    left = list(others)
    found = []
    for item in items:
        if item in left:
            left.remove(item)
        else:
            found.append(item)
    return found


def _same(one: Scalar, other: Scalar) -> bool:
    return type(one) is type(other) and one == other
