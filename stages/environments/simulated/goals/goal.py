"""The start state and the goal of a query, as JSON, and whether a device has reached the goal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.simulated.app_files.app_spec import Item, ListChange, Scalar
from trajmill.stages.environments.simulated.app_files.pages import AppPlace, place_of
from trajmill.stages.environments.simulated.device.effects import (
    Store,
    append_record,
    make_store,
    remove_records,
    update_records,
)
from trajmill.stages.environments.simulated.world import World

Goal = dict[str, ListChange | Scalar]
"""`app.state`: the wanted scalar, or the change of a list."""


class StartState(Record):
    """What a reset adds to the state in which all apps start."""

    setup: dict[str, Item] = {}
    """`app.list`: a record appended to it."""


class EpisodeGoal(NamedTuple):
    """Where the episode of a query starts, and what it is to reach."""

    start: StartState
    goal: Goal | None
    """None for a query without a goal check."""

    def score(self, world: World, stores: Mapping[str, Store]) -> float | None:
        """Whether the goal is reached, as 1.0 or 0.0; None without a goal.

        It is reached when every app's whole state is the start state with exactly the goal's changes.
        """
        return None if self.goal is None else float(is_reached(world, self.start, self.goal, stores))


def read_episode_goal(query: Query, world: World, platform: Platform) -> EpisodeGoal:
    """The start state and the goal of a query.

    Raises:
        EnvironmentFailure: of class `setup`: the query is for another platform, or its start state or goal is
            malformed or names unknown state.
    """
    if query.platform is not platform:
        text = f"the query is for the platform {query.platform}, this is a {platform}"
        raise EnvironmentFailure(text, FailureClass.SETUP)
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
        EnvironmentFailure: of class `setup`: it is malformed or names an unknown list.
    """
    try:
        start = StartState.model_validate_json(text)
    except ValidationError as error:
        raise _setup_failure("start state", text, error) from error
    for name in start.setup:
        place = place_of(name)
        if not isinstance(_state(world, platform, place), tuple):
            raise EnvironmentFailure(f"the start state names an unknown list `{name}`", FailureClass.SETUP)
    return start


def read_goal(text: str, world: World, platform: Platform) -> Goal:
    """Read the goal check of a query.

    Raises:
        EnvironmentFailure: of class `setup`: it is malformed or names unknown state.
    """
    try:
        goal = _GOAL.validate_json(text)
    except ValidationError as error:
        raise _setup_failure("goal", text, error) from error
    for name, change in goal.items():
        place = place_of(name)
        state = _state(world, platform, place)
        if state is None or isinstance(state, tuple) != isinstance(change, ListChange):
            raise EnvironmentFailure(f"the goal names unknown state `{name}`", FailureClass.SETUP)
    return goal


def prepared_store(world: World, app: str, start: StartState) -> Store:
    """What an app remembers when an episode starts."""
    store = make_store(world.apps[app])
    for name, record in start.setup.items():
        place = place_of(name)
        if place.app == app:
            append_record(store, place.name, record)
    return store


def is_reached(world: World, start: StartState, goal: Goal, stores: Mapping[str, Store]) -> bool:
    """Whether every app's whole state is as it started, with exactly the goal's changes.

    `stores` may leave out apps that were never opened.
    """
    for app in {*stores, *(place_of(name).app for name in goal)}:
        before = prepared_store(world, app, start)
        wanted = prepared_store(world, app, start)
        for name, change in goal.items():
            place = place_of(name)
            if place.app == app:
                _change(wanted, place, change)
        reached = stores.get(app, before)
        lasting = [name for name in world.apps[app].state if name in wanted.values]
        # Compared as JSON, in which true and 1 differ.
        if any(json.dumps(wanted.values[name]) != json.dumps(reached.values[name]) for name in lasting):
            return False
        if any(wanted.lists[name].key != reached.lists[name].key for name in wanted.lists):
            return False
    return True


def _state(world: World, platform: Platform, place: AppPlace) -> Scalar | tuple[Item, ...] | None:
    """The state a place names as it starts, None where this platform has no such thing."""
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


def _setup_failure(what: str, text: str, error: ValidationError) -> EnvironmentFailure:
    first = error.errors(include_url=False)[0]["msg"]
    return EnvironmentFailure(f"the {what} `{text[:80]}` is malformed: {first}", FailureClass.SETUP)


_GOAL: TypeAdapter[Goal] = TypeAdapter(Goal)
