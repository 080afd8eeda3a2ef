"""The distance of a simulated device to a goal: the fewest actions left, over all paths through its apps.

Apps do not share state, so that the distances of the apps add up, with the way through the launcher. Within an app, a
uniform-cost search runs over its pages and values. It tries only values that the goal can need (`relevant.py`).
Looking costs nothing: scrolling, typing into a search, and closing a message that appeared by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.simulated.app_files.app_spec import (
    AnyWidget,
    Button,
    Choice,
    Input,
    Item,
    ItemList,
    Menu,
    Scalar,
    Stepper,
    Text,
    Toggle,
)
from trajmill.stages.environments.simulated.app_files.references import BACK, bind_text, place_of
from trajmill.stages.environments.simulated.device import Device
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.layout.profile import DeviceProfile
from trajmill.stages.environments.simulated.layout.view import PreparedApp
from trajmill.stages.environments.simulated.layout.widgets import is_shown, list_items
from trajmill.stages.environments.simulated.relevant import AppAim, Reading, RelevantValues, relevant_values
from trajmill.stages.environments.simulated.spec import DevicesSpec, FaultRates
from trajmill.stages.environments.simulated.state import (
    Store,
    apply_effects,
    prepared_store,
    read_episode_goal,
    wanted_store,
)
from trajmill.stages.environments.simulated.world import World

_MOST_STATES = 4_000
"""States of one search; a search that needs more counts as unreachable."""
_OPEN, _LEAVE = 1, 1


class SimulatedDistances:
    """The distances to the goal along stored episodes, which are replayed on simulated devices."""

    def __init__(self, world: World, faults: FaultRates, devices: DevicesSpec) -> None:
        """Take what decided the screens of the episodes."""
        self._world, self._faults, self._devices = world, faults, devices
        self._goals: dict[str, GoalDistance] = {}

    def __call__(self, episode: Episode) -> list[int | None] | None:
        """The distance before each step and after the last one.

        None in the list: the goal can no longer be reached. None for the list: the query has no goal check, or the
        episode was not made on these devices, so that its screens are not the replayed ones.
        """
        try:
            return self._replayed(episode)
        except EnvironmentFailure:
            return None

    def _replayed(self, episode: Episode) -> list[int | None] | None:
        query = episode.query
        environment = SimulatedEnvironment(self._world, query.platform, self._faults, self._devices)
        shown = environment.reset_now(query, episode.trajectory.seed)
        key = query.goal_key()
        goal = self._goals.get(key) or self._goals.setdefault(key, GoalDistance(self._world, query))
        if not goal.has_goal:
            return None
        unread = goal.unread(environment.device())
        found = [goal.measure(environment.device(), unread)]
        for step in episode.steps:
            if shown.screen.screen_id != step.screen_before:
                return None
            if step.action is not None:
                shown = environment.step_now(action_from_json(step.action))
            unread = goal.unread(environment.device(), unread)
            found.append(goal.measure(environment.device(), unread))
        return found


class GoalDistance:
    """Measures how far devices are from the goal of one query; equal states are searched once."""

    def __init__(self, world: World, query: Query) -> None:
        """Read the goal.

        Raises:
            EnvironmentFailure: the start state or the goal is malformed.
        """
        self._world = world
        self._goal = read_episode_goal(query, world, query.platform)
        self._readings = _readings(world, query)
        self._known: dict[object, int | None] = {}

    @property
    def has_goal(self) -> bool:
        """Whether the query has a goal check."""
        return self._goal.goal is not None

    def unread(self, device: Device, before: frozenset[Reading] | None = None) -> frozenset[Reading]:
        """The values that the agent must still read on a page of another app: `before` without what is shown now."""
        left = self._readings if before is None else before
        running = device.running.get(device.foreground)
        if running is None or running.popup or device.loading:
            return left
        state = _State((running.stack[-1].screen,), running.store, frozenset(left))
        return left - _shown_readings(running.prepared, device.profile, state, left)

    def measure(self, device: Device, unread: frozenset[Reading]) -> int | None:
        """The fewest actions to the goal, without the one that ends the episode; None if it cannot be reached."""
        apps = {*device.running, *(place_of(name).app for name in self._goal.goal or ()), *(r.app for r in unread)}
        total, trips, here = 0, 0, 0
        for app in apps:
            left = self._in_app(app, device, frozenset(each for each in unread if each.app == app))
            if left is None:
                return None
            total += left
            trips += left > 0 and app != device.foreground
            here += left > 0 and app == device.foreground
        first = 0 if device.foreground or not trips else -_LEAVE
        return total + trips * (_OPEN + _LEAVE) + first

    def _in_app(self, app: str, device: Device, unread: frozenset[Reading]) -> int | None:
        prepared, running = self._world.prepared_apps[app], device.running.get(app)
        if running is None:
            start = _State((prepared.app.first,), prepared_store(self._world, app, self._goal.start), unread)
        else:
            here = app == device.foreground
            stack = tuple(page.screen for page in running.stack)
            menu, focus = (device.menu, device.focus) if here else ("", "")
            start = _State(stack, running.store, unread, menu, focus)
        key = (app, device.profile.number, start.key)
        if key not in self._known:
            self._known[key] = self._searched(prepared, device.profile, start)
        return self._known[key]

    def _searched(self, prepared: PreparedApp, profile: DeviceProfile, start: _State) -> int | None:
        goal = self._goal
        aim = AppAim(prepared.app, wanted_store(self._world, prepared.app.app, goal.start, goal.goal or {}))
        return _AppSearch(prepared, profile, aim, start).distance()


class _State(NamedTuple):
    """The state of one app, as far as the distance depends on it."""

    stack: tuple[str, ...]
    store: Store
    unread: frozenset[Reading]
    menu: str = ""
    """The open menu; only at the start of a search."""
    focus: str = ""
    """The focused input; only at the start of a search."""

    @property
    def key(self) -> object:
        """Identifies the state."""
        lists = tuple([records.key for records in self.store.lists.values()])
        return (self.stack, tuple(self.store.values.items()), lists, self.unread, self.menu, self.focus)


class _AppSearch:
    """A search from one state of one app."""

    def __init__(self, prepared: PreparedApp, profile: DeviceProfile, aim: AppAim, start: _State) -> None:
        self._prepared, self._profile, self._aim, self._start = prepared, profile, aim, start
        self._app = prepared.app
        self._relevant: RelevantValues = relevant_values(aim, start.store, start.unread)

    def distance(self) -> int | None:
        """The least number of actions, or None."""
        if self._aim.is_lost(self._start.store):
            return None
        number = count()
        queue: list[tuple[int, int, _State]] = [(0, next(number), self._read(self._start))]
        done: set[object] = set()
        while queue and len(done) < _MOST_STATES:
            cost, _, state = heappop(queue)
            if not state.unread and self._aim.is_reached(state.store):
                return cost
            if state.key in done:
                continue
            done.add(state.key)
            for more, following in self._moves(state):
                heappush(queue, (cost + more, next(number), self._read(following)))
        return None

    def _read(self, state: _State) -> _State:
        if not state.unread:
            return state
        return state._replace(unread=state.unread - _shown_readings(self._prepared, self._profile, state, state.unread))

    def _moves(self, state: _State) -> Iterator[tuple[int, _State]]:
        if len(state.stack) > 1:
            yield 1, _State(state.stack[:-1], state.store, state.unread)
        for widget in self._app.screens[state.stack[-1]].widgets:
            if is_shown(widget, state.store.values):
                yield from self._moves_at(widget, state)

    def _moves_at(self, widget: AnyWidget, state: _State) -> Iterator[tuple[int, _State]]:
        values = state.store.values
        match widget:
            case Menu():
                for button in widget.items:
                    yield from self._pressing(button, state, 1 if state.menu == widget.id else 2)
            case Button():
                yield from self._pressing(widget, state, 1)
            case ItemList():
                for item in self._picks(widget, state):
                    yield from self._picking(widget, item, state)
            case Toggle() | Choice() | Stepper() | Input():
                held = values[widget.variable]
                for value in self._relevant.values.get(widget.variable, ()):
                    if value != held and self._can_hold(widget, value):
                        store = _copied(state.store)
                        store.values[widget.variable] = value
                        yield self._cost(widget, held, value, state), _State(state.stack, store, state.unread)

    def _can_hold(self, widget: Toggle | Choice | Stepper | Input, value: Scalar) -> bool:
        match widget:
            case Choice():
                return value in widget.options
            case Toggle():
                return isinstance(value, bool)
            case Stepper():
                return isinstance(value, int) and widget.minimum <= value <= widget.maximum
            case Input():
                return isinstance(value, str)

    def _cost(self, widget: AnyWidget, held: Scalar, value: Scalar, state: _State) -> int:
        match widget:
            case Stepper():
                return abs(int(value) - int(held))
            case Input(kind="search"):
                return 0
            case Input():
                return 1 if state.focus == widget.id else 2
            case _:
                return 1

    def _pressing(self, button: Button, state: _State, cost: int) -> Iterator[tuple[int, _State]]:
        values = state.store.values
        if any(values[name] in ("", 0, False) for name in button.needs):
            return
        store = _copied(state.store)
        apply_effects(button.do, self._app, store)
        if self._aim.advances(state.store, store) and (button.to or store.values != values or button.do):
            yield cost, _State(self._stack_after(state.stack, button.to), store, state.unread)

    def _picks(self, widget: ItemList, state: _State) -> Iterator[Item]:
        shown = list_items(widget, state.store.values, self._lists(state.store))
        wanted = self._relevant.values.get(widget.variable, frozenset())
        if widget.do or wanted:
            for item in shown:
                if widget.do or item.get("name") in wanted:
                    yield item
        elif widget.to and shown:
            yield shown[0]

    def _picking(self, widget: ItemList, item: Item, state: _State) -> Iterator[tuple[int, _State]]:
        store = _copied(state.store)
        if widget.variable and "name" in item:
            store.values[widget.variable] = item["name"]
        apply_effects(widget.do, self._app, store, item)
        if self._aim.advances(state.store, store):
            yield 1, _State(self._stack_after(state.stack, widget.to), store, state.unread)

    def _stack_after(self, stack: tuple[str, ...], to: str) -> tuple[str, ...]:
        """As `Device` goes to a screen."""
        if not to:
            return stack
        if to == BACK:
            return stack[:-1] if len(stack) > 1 else stack
        if to in stack:
            return stack[: stack.index(to) + 1]
        if len(stack) > 1 and self._app.screens[stack[-1]].dialog:
            stack = stack[:-1]
        return (*stack, to)

    def _lists(self, store: Store) -> Mapping[str, tuple[Item, ...]]:
        return _lists_of(self._prepared, self._profile, store)


def _lists_of(prepared: PreparedApp, profile: DeviceProfile, store: Store) -> dict[str, tuple[Item, ...]]:
    return {**prepared.fixed_lists(profile), **{name: records.items for name, records in store.lists.items()}}


def _copied(store: Store) -> Store:
    return Store(dict(store.values), dict(store.lists))


def _readings(world: World, query: Query) -> frozenset[Reading]:
    """The values that the task's annotations carry from a page of one app to another app."""
    task = next((task for task in world.tasks() if task.name == query.task), None)
    if task is None:
        return frozenset()
    asked = {slot.name: slot.value for slot in query.slots}
    found = []
    for slot in task.slots:
        if slot.spec.carried_from and slot.spec.name in asked:
            place = task.place(slot.spec.carried_from)
            found.append(Reading(place.app, place.name, asked[slot.spec.name]))
    return frozenset(found)


def _shown_readings(
    prepared: PreparedApp, profile: DeviceProfile, state: _State, readings: frozenset[Reading]
) -> frozenset[Reading]:
    screen = state.stack[-1]
    here = [each for each in readings if each.app == prepared.app.app and each.screen == screen]
    if not here:
        return frozenset()
    texts = list(_texts(prepared, profile, state.store, screen))
    return frozenset(each for each in here if any(each.text in text for text in texts))


def _texts(prepared: PreparedApp, profile: DeviceProfile, store: Store, screen: str) -> Iterator[str]:
    spec, values = prepared.app.screens[screen], store.values
    yield bind_text(spec.title, values)
    for widget in spec.widgets:
        if not is_shown(widget, values):
            continue
        if isinstance(widget, Text):
            yield bind_text(widget.text, values)
        elif isinstance(widget, ItemList):
            for item in list_items(widget, values, _lists_of(prepared, profile, store)):
                yield bind_text(widget.text, values, item)
                yield bind_text(widget.note, values, item)
