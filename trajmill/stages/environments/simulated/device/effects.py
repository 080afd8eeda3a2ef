"""Applies effects to the variables and lists of a running app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trajmill.schemas.record import content_id
from trajmill.stages.environments.simulated.app_files.app_spec import (
    AppendEffect,
    AppSpec,
    Effect,
    Item,
    RemoveEffect,
    ResetEffect,
    Scalar,
    SetEffect,
    UpdateEffect,
)
from trajmill.stages.environments.simulated.app_files.binding import bind, bind_record
from trajmill.stages.environments.simulated.app_files.pages import start_values, state_lists


class Records(NamedTuple):
    """A list of an app's state."""

    items: tuple[Item, ...]
    key: str
    """A hash of the items."""


class Store(NamedTuple):
    """The variables and state of a running app; it is changed in place."""

    values: dict[str, Scalar]
    """Variables and scalar state."""
    lists: dict[str, Records]
    """Lists of the state."""


def make_records(items: tuple[Item, ...]) -> Records:
    """Records with their key."""
    return Records(items, content_id(items))


def make_store(app: AppSpec) -> Store:
    """The store of an app at its start."""
    return Store(start_values(app), {name: make_records(items) for name, items in state_lists(app).items()})


def apply_effects(effects: tuple[Effect, ...], app: AppSpec, store: Store, item: Item | None = None) -> None:
    """Apply effects in order; `item` is the picked item."""
    for effect in effects:
        match effect:
            case SetEffect():
                store.values.update(bind_record(effect.set, store.values, item))
            case ResetEffect():
                start = start_values(app)
                store.values.update({name: start[name] for name in effect.reset})
            case AppendEffect():
                for name, record in effect.append.items():
                    append_record(store, name, bind_record(record, store.values, item))
            case UpdateEffect():
                fields = bind_record(effect.fields, store.values, item)
                update_records(store, effect.update, bind(effect.name, store.values, item), fields)
            case RemoveEffect():
                remove_records(store, effect.remove, bind(effect.name, store.values, item))


def append_record(store: Store, name: str, record: Item) -> None:
    """Add a record at the end of a list."""
    store.lists[name] = make_records((*store.lists[name].items, record))


def update_records(store: Store, name: str, record: Scalar, fields: Mapping[str, Scalar]) -> None:
    """Change fields of the records with this name."""
    items = store.lists[name].items
    store.lists[name] = make_records(tuple({**i, **fields} if i.get("name") == record else i for i in items))


def remove_records(store: Store, name: str, record: Scalar) -> None:
    """Remove the records with this name."""
    store.lists[name] = make_records(tuple(i for i in store.lists[name].items if i.get("name") != record))
