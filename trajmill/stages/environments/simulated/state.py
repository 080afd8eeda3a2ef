"""The state of running apps: how effects change it, how it starts, and the check of the goal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.record import Record, content_id
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.simulated.app_files.app_spec import (
    AppendEffect,
    AppSpec,
    Effect,
    Item,
    ListChange,
    RemoveEffect,
    ResetEffect,
    Scalar,
    SetEffect,
    UpdateEffect,
)
from trajmill.stages.environments.simulated.app_files.references import (
    AppPlace,
    bind,
    bind_record,
    place_of,
    start_values,
    state_lists,
)
from trajmill.stages.environments.simulated.world import World

Goal = dict[str, ListChange | Scalar]
"""By `app.state`, the wanted scalar or the change of a list."""


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


class StartState(Record):
    """The records that a reset adds to the start state of the apps."""

    setup: dict[str, Item] = {}
    """By `app.list`, a record that is appended."""


class Difference(NamedTuple):
    """A state that is not as the goal wants it."""

    state: str
    """`app.state`."""
    wanted: str
    """Its value as JSON; for lists, only the records that the other side lacks."""
    found: str
    """See `wanted`."""

    def __str__(self) -> str:
        return f"`{self.state}` is {self.found}, not {self.wanted}"


class EpisodeGoal(NamedTuple):
    """The start state and the goal of an episode."""

    start: StartState
    goal: Goal | None
    """None for a query without a goal check."""

    def score(self, world: World, stores: Mapping[str, Store]) -> float | None:
        """1.0 if the goal is reached, else 0.0; None without a goal.

        It is reached if the whole state of all apps is the start state with exactly the goal's changes.
        """
        return None if self.goal is None else float(is_reached(world, self.start, self.goal, stores))

    def differences(self, world: World, stores: Mapping[str, Store]) -> tuple[Difference, ...]:
        """Each state that is not as the goal wants it; empty without a goal."""
        return () if self.goal is None else tuple(differences(world, self.start, self.goal, stores))


def read_episode_goal(query: Query, world: World, platform: Platform) -> EpisodeGoal:
    """The start state and the goal of a query.

    Raises:
        EnvironmentFailure: the query is for another platform, or its start state or goal is malformed (class `task`).
    """
    if query.platform is not platform:
        text = f"the query is for the platform {query.platform}, this is a {platform}"
        raise EnvironmentFailure(text, FailureClass.TASK)
    start = read_start_state(query.start_state, world, platform)
    return EpisodeGoal(start, read_goal(query.goal, world, platform) or None)


def start_state_to_json(setup: Mapping[str, Item]) -> str:
    """The start state of a query; `{}` for the default one."""
    return json.dumps({"setup": dict(setup)} if setup else {}, sort_keys=True)


def goal_to_json(goal: Goal) -> str:
    """The goal check of a query."""
    plain = {
        name: change.model_dump(exclude_defaults=True) if isinstance(change, ListChange) else change
        for name, change in goal.items()
    }
    return json.dumps(plain, sort_keys=True)


def read_start_state(text: str, world: World, platform: Platform) -> StartState:
    """Read the start state of a query.

    Raises:
        EnvironmentFailure: it is malformed or names an unknown list (class `task`).
    """
    try:
        start = StartState.model_validate_json(text)
    except ValidationError as error:
        raise _malformed("start state", text, error) from error
    for name in start.setup:
        place = place_of(name)
        if not isinstance(_state(world, platform, place), tuple):
            raise EnvironmentFailure(f"the start state names an unknown list `{name}`", FailureClass.TASK)
    return start


def read_goal(text: str, world: World, platform: Platform) -> Goal:
    """Read the goal check of a query.

    Raises:
        EnvironmentFailure: it is malformed or names unknown state (class `task`).
    """
    try:
        goal = _GOAL.validate_json(text)
    except ValidationError as error:
        raise _malformed("goal", text, error) from error
    for name, change in goal.items():
        place = place_of(name)
        state = _state(world, platform, place)
        if state is None or isinstance(state, tuple) != isinstance(change, ListChange):
            raise EnvironmentFailure(f"the goal names unknown state `{name}`", FailureClass.TASK)
    return goal


def prepared_store(world: World, app: str, start: StartState) -> Store:
    """The store of an app at the start of an episode."""
    store = make_store(world.apps[app])
    for name, record in start.setup.items():
        place = place_of(name)
        if place.app == app:
            append_record(store, place.name, record)
    return store


def wanted_store(world: World, app: str, start: StartState, goal: Goal) -> Store:
    """The store of an app with exactly the goal's changes to its start."""
    wanted = prepared_store(world, app, start)
    for name, change in goal.items():
        place = place_of(name)
        if place.app == app:
            _change(wanted, place, change)
    return wanted


def is_reached(world: World, start: StartState, goal: Goal, stores: Mapping[str, Store]) -> bool:
    """Whether the whole state of all apps is the start state with exactly the goal's changes.

    `stores` may leave out apps that were never opened.
    """
    return next(differences(world, start, goal, stores), None) is None


def differences(world: World, start: StartState, goal: Goal, stores: Mapping[str, Store]) -> Iterator[Difference]:
    """Each state that is not as the goal wants it; see `is_reached`."""
    for app in {*stores, *(place_of(name).app for name in goal)}:
        wanted = wanted_store(world, app, start, goal)
        reached = stores.get(app) or prepared_store(world, app, start)
        for name in world.apps[app].state:
            if name in wanted.lists:
                if wanted.lists[name].key != reached.lists[name].key:
                    yield _difference(app, name, wanted.lists[name].items, reached.lists[name].items)
            # They are compared as JSON, in which true and 1 differ.
            elif json.dumps(wanted.values[name]) != json.dumps(reached.values[name]):
                yield _difference(app, name, wanted.values[name], reached.values[name])


def _state(world: World, platform: Platform, place: AppPlace) -> Scalar | tuple[Item, ...] | None:
    """The state of a place at the start; None if this platform has no such place."""
    app = world.apps.get(place.app)
    return app.state.get(place.name) if app and app.platform is platform else None


def _change(store: Store, place: AppPlace, change: ListChange | Scalar) -> None:
    if not isinstance(change, ListChange):
        store.values[place.name] = change
    elif change.append is not None:
        append_record(store, place.name, change.append)
    elif change.update is not None:
        update_records(store, place.name, change.name, change.update)
    elif change.remove:
        remove_records(store, place.name, change.name)


def _difference(app: str, name: str, wanted: Scalar | tuple[Item, ...], found: Scalar | tuple[Item, ...]) -> Difference:
    if isinstance(wanted, tuple) and isinstance(found, tuple):
        missing = tuple(each for each in wanted if each not in found)
        added = tuple(each for each in found if each not in wanted)
        # Without any, the records differ in their order or number.
        wanted, found = (missing, added) if missing or added else (wanted, found)
    return Difference(f"{app}.{name}", json.dumps(wanted, ensure_ascii=False), json.dumps(found, ensure_ascii=False))


def _malformed(what: str, text: str, error: ValidationError) -> EnvironmentFailure:
    first = error.errors(include_url=False)[0]["msg"]
    return EnvironmentFailure(f"the {what} `{text[:80]}` is malformed: {first}", FailureClass.TASK)


_GOAL: TypeAdapter[Goal] = TypeAdapter(Goal)
