"""The values that a goal can need in an app, derived backwards through the effects, lists and filters of its pages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec, Effect, Item, Scalar
from trajmill.stages.environments.simulated.app_files.references import fields_in, names_in, shown
from trajmill.stages.environments.simulated.world import Store

_LENGTH = 100
"""Weight of a missing or an extra record against a wrong field."""
_NAME = re.compile(r"\$([A-Za-z_]\w*)")


class Reading(NamedTuple):
    app: str
    screen: str
    text: str


class AppAim:
    def __init__(self, app: AppSpec, wanted: Store) -> None:
        self.app = app
        self.wanted = wanted

    @cached_property
    def effects(self) -> tuple[tuple[Effect, app_spec.ItemList | None], ...]:
        found: list[tuple[Effect, app_spec.ItemList | None]] = []
        for screen in self.app.screens.values():
            for widget in screen.all_widgets():
                if isinstance(widget, app_spec.Button | app_spec.ItemList):
                    source = widget if isinstance(widget, app_spec.ItemList) else None
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
        return (name for name in self.app.state if name not in self.wanted.lists)

    def is_reached(self, store: Store) -> bool:
        return all(_same(store.values[name], self.wanted.values[name]) for name in self.scalars()) and all(
            store.lists[name].key == records.key for name, records in self.wanted.lists.items()
        )

    def is_lost(self, store: Store) -> bool:
        """Whether a list has records that no effect can remove or mend, or lacks some that none can add."""
        for name, records in self.wanted.lists.items():
            items, wanted = store.lists[name].items, records.items
            if store.lists[name].key == records.key:
                continue
            kinds = {type(effect) for effect, _ in self.effects if name in _lists_changed(effect)}
            if app_spec.RemoveEffect in kinds and len(items) > len(wanted):
                continue
            if len(items) > len(wanted) or (len(items) < len(wanted) and app_spec.AppendEffect not in kinds):
                return True
            if not all(
                one.get(field) == value or self._can_give(name, field, value)
                for one, other in zip(items, wanted, strict=False)
                for field, value in other.items()
            ):
                return True
        return False

    def _can_give(self, name: str, field: str, value: Scalar) -> bool:
        templates = [
            effect.fields[field]
            for effect, _ in self.effects
            if isinstance(effect, app_spec.UpdateEffect) and effect.update == name and field in effect.fields
        ]
        return any(_same(template, value) or any(mark in str(template) for mark in "${") for template in templates)

    def advances(self, before: Store, after: Store) -> bool:
        """Whether no list and no scalar state moves away from the wanted one."""
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


def relevant_values(aim: AppAim, store: Store, unread: frozenset[Reading]) -> dict[str, frozenset[Scalar]]:
    """Return, by variable or scalar state, the values worth setting on a way from `store` to the wanted state."""
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
    item_lists = [
        widget
        for screen in aim.app.screens.values()
        for widget in screen.widgets
        if isinstance(widget, app_spec.ItemList)
    ]
    grew = True
    while grew:
        grew = False
        for widget in item_lists:
            if widget.variable and found[widget.variable]:
                for item in lists[widget.items]:
                    if item.get("name") in found[widget.variable]:
                        grew |= _take_item(found, widget, item)
    for widget in item_lists:
        if widget.search:
            found[widget.search] = {""}
    return {name: frozenset(values) for name, values in found.items()}


def _asked_of(effect: Effect, aim: AppAim, store: Store) -> Iterator[list[tuple[Scalar, Scalar]]]:
    """For each useful run of an effect, its templates and the values that they must have."""
    match effect:
        case app_spec.AppendEffect():
            for name, template in effect.append.items():
                for record in _without(aim.wanted.lists[name].items, store.lists[name].items):
                    yield [(value, record[field]) for field, value in template.items() if field in record]
        case app_spec.UpdateEffect():
            wanted, held = aim.wanted.lists[effect.update].items, store.lists[effect.update].items
            for old, new in zip(held, wanted, strict=False):
                if old != new:
                    fields = [(value, new[field]) for field, value in effect.fields.items() if field in new]
                    yield [(effect.name, old.get("name", "")), *fields]
        case app_spec.RemoveEffect():
            for record in _without(store.lists[effect.remove].items, aim.wanted.lists[effect.remove].items):
                yield [(effect.name, record.get("name", ""))]
        case app_spec.SetEffect():
            scalars = set(aim.scalars())
            yield [(value, aim.wanted.values[name]) for name, value in effect.set.items() if name in scalars]
        case _:
            return


def _take(
    found: dict[str, set[Scalar]],
    asked: list[tuple[Scalar, Scalar]],
    source: app_spec.ItemList | None,
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


def _take_item(found: dict[str, set[Scalar]], widget: app_spec.ItemList, item: Item) -> bool:
    """Add what shows and picks an item; whether any of it is new."""
    wanted = [(value, item.get(field, "")) for field, value in widget.where.items()]
    pairs = [(template[1:], value) for template, value in wanted if isinstance(template, str) and template[:1] == "$"]
    pairs += [(widget.variable, item["name"])] if widget.variable and "name" in item else []
    new = [(name, value) for name, value in pairs if value not in found[name]]
    for name, value in new:
        found[name].add(value)
    return bool(new)


def _take_reading(
    found: dict[str, set[Scalar]], reading: Reading, app: AppSpec, lists: Mapping[str, tuple[Item, ...]]
) -> None:
    for widget in app.screens[reading.screen].widgets:
        if isinstance(widget, app_spec.Text):
            match = _NAME.fullmatch(widget.text.rpartition(" ")[2])
            if match:
                found[match[1]].add(reading.text)
        elif isinstance(widget, app_spec.ItemList):
            for item in lists[widget.items]:
                if any(reading.text in shown(value) for value in item.values()):
                    _take_item(found, widget, item)


def _lists_changed(effect: Effect) -> tuple[str, ...]:
    match effect:
        case app_spec.AppendEffect():
            return tuple(effect.append)
        case app_spec.UpdateEffect():
            return (effect.update,)
        case app_spec.RemoveEffect():
            return (effect.remove,)
        case _:
            return ()


def _missing(items: tuple[Item, ...], wanted: tuple[Item, ...]) -> int:
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
