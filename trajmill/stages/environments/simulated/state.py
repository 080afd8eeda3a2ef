"""The state of running apps: its start, the effects that change it, and the check of the goal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.record import Record, content_id
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec, Effect, Item, Scalar
from trajmill.stages.environments.simulated.app_files.references import bind, bind_record, place_of
from trajmill.stages.environments.simulated.world import World

Goal = dict[str, app_spec.ListChange | Scalar]
"""By `app.state`, the wanted scalar or the change of a list."""


class Records(NamedTuple):
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
    return Records(items, content_id(items))


def make_store(app: AppSpec) -> Store:
    return Store(app.start_values(), {name: make_records(items) for name, items in app.state_lists().items()})


def apply_effects(effects: tuple[Effect, ...], app: AppSpec, store: Store, item: Item | None = None) -> None:
    """Apply effects in order; `item` is the picked item."""
    for effect in effects:
        match effect:
            case app_spec.SetEffect():
                store.values.update(bind_record(effect.set, store.values, item))
            case app_spec.ResetEffect():
                start = app.start_values()
                store.values.update({name: start[name] for name in effect.reset})
            case app_spec.AppendEffect():
                for name, record in effect.append.items():
                    append_record(store, name, bind_record(record, store.values, item))
            case app_spec.UpdateEffect():
                fields = bind_record(effect.fields, store.values, item)
                update_records(store, effect.update, bind(effect.name, store.values, item), fields)
            case app_spec.RemoveEffect():
                remove_records(store, effect.remove, bind(effect.name, store.values, item))


def append_record(store: Store, name: str, record: Item) -> None:
    store.lists[name] = make_records((*store.lists[name].items, record))


def update_records(store: Store, name: str, record: Scalar, fields: Mapping[str, Scalar]) -> None:
    items = store.lists[name].items
    store.lists[name] = make_records(tuple({**i, **fields} if i.get("name") == record else i for i in items))


def remove_records(store: Store, name: str, record: Scalar) -> None:
    store.lists[name] = make_records(tuple(i for i in store.lists[name].items if i.get("name") != record))


class StartState(Record):
    """The records that a reset adds to the start state of the apps."""

    setup: dict[str, Item] = {}
    """By `app.list`, a record that is appended."""


class Difference(NamedTuple):
    """A state that differs from the goal."""

    state: str
    """`app.state`."""
    wanted: str
    """Its value as JSON; for lists, only the records that the other side lacks."""
    found: str
    """See `wanted`."""

    def __str__(self) -> str:
        return f"`{self.state}` is {self.found}, not {self.wanted}"


class EpisodeGoal(NamedTuple):
    """The start state and the goal of an episode.

    The goal is reached if the whole state of all apps is the start state with exactly the goal's changes.
    """

    start: StartState
    goal: Goal | None
    """None for a query without a goal check."""

    def score(self, world: World, stores: Mapping[str, Store]) -> float | None:
        return None if self.goal is None else float(next(self._differences(world, stores), None) is None)

    def differences(self, world: World, stores: Mapping[str, Store]) -> tuple[Difference, ...]:
        return tuple(self._differences(world, stores))

    def _differences(self, world: World, stores: Mapping[str, Store]) -> Iterator[Difference]:
        goal = self.goal or {}
        for app in {*stores, *(place_of(name).app for name in goal)} if goal else ():
            wanted = wanted_store(world, app, self.start, goal)
            reached = stores.get(app) or prepared_store(world, app, self.start)
            for name in world.apps[app].state:
                if name in wanted.lists:
                    if wanted.lists[name].key != reached.lists[name].key:
                        yield _difference(app, name, wanted.lists[name].items, reached.lists[name].items)
                # They are compared as JSON, in which true and 1 differ.
                elif json.dumps(wanted.values[name]) != json.dumps(reached.values[name]):
                    yield _difference(app, name, wanted.values[name], reached.values[name])


def read_episode_goal(query: Query, world: World, platform: Platform) -> EpisodeGoal:
    """Read the start state and the goal of a query.

    Raises EnvironmentFailure if the query is for another platform, or its start state or goal is malformed or names
    unknown state (class `task`).
    """
    if query.platform is not platform:
        text = f"the query is for the platform {query.platform}, this is a {platform}"
        raise EnvironmentFailure(text, FailureClass.TASK)

    def state_of(name: str) -> Scalar | tuple[Item, ...] | None:
        place = place_of(name)
        app = world.apps.get(place.app)
        return app.state.get(place.name) if app and app.platform is platform else None

    try:
        start = StartState.model_validate_json(query.start_state)
    except ValidationError as error:
        raise _malformed("start state", query.start_state, error) from error
    for name in start.setup:
        if not isinstance(state_of(name), tuple):
            raise EnvironmentFailure(f"the start state names an unknown list `{name}`", FailureClass.TASK)
    try:
        goal = _GOAL.validate_json(query.goal)
    except ValidationError as error:
        raise _malformed("goal", query.goal, error) from error
    for name, change in goal.items():
        state = state_of(name)
        if state is None or isinstance(state, tuple) != isinstance(change, app_spec.ListChange):
            raise EnvironmentFailure(f"the goal names unknown state `{name}`", FailureClass.TASK)
    return EpisodeGoal(start, goal or None)


def _malformed(what: str, text: str, error: ValidationError) -> EnvironmentFailure:
    first = error.errors(include_url=False)[0]["msg"]
    return EnvironmentFailure(f"the {what} `{text[:80]}` is malformed: {first}", FailureClass.TASK)


def start_state_to_json(setup: Mapping[str, Item]) -> str:
    return json.dumps({"setup": dict(setup)} if setup else {}, sort_keys=True)


def goal_to_json(goal: Goal) -> str:
    plain = {
        name: change.model_dump(exclude_defaults=True) if isinstance(change, app_spec.ListChange) else change
        for name, change in goal.items()
    }
    return json.dumps(plain, sort_keys=True)


def prepared_store(world: World, app: str, start: StartState) -> Store:
    store = make_store(world.apps[app])
    for name, record in start.setup.items():
        place = place_of(name)
        if place.app == app:
            append_record(store, place.name, record)
    return store


def wanted_store(world: World, app: str, start: StartState, goal: Goal) -> Store:
    """Return the store of an app with exactly the goal's changes to its start."""
    wanted = prepared_store(world, app, start)
    for name, change in goal.items():
        place = place_of(name)
        if place.app != app:
            continue
        if not isinstance(change, app_spec.ListChange):
            wanted.values[place.name] = change
        elif change.append is not None:
            append_record(wanted, place.name, change.append)
        elif change.update is not None:
            update_records(wanted, place.name, change.name, change.update)
        elif change.remove:
            remove_records(wanted, place.name, change.name)
    return wanted


def _difference(app: str, name: str, wanted: Scalar | tuple[Item, ...], found: Scalar | tuple[Item, ...]) -> Difference:
    if isinstance(wanted, tuple) and isinstance(found, tuple):
        missing = tuple(each for each in wanted if each not in found)
        added = tuple(each for each in found if each not in wanted)
        # Without any, the records differ in their order or number.
        wanted, found = (missing, added) if missing or added else (wanted, found)
    return Difference(f"{app}.{name}", json.dumps(wanted, ensure_ascii=False), json.dumps(found, ensure_ascii=False))


_GOAL: TypeAdapter[Goal] = TypeAdapter(Goal)
