"""The distance of a simulated device to a goal: the fewest actions left, over all paths through its apps.

Apps share no state, so their distances add up, with the way through the launcher. Within an app, a uniform-cost search
runs over pages and values; it tries only values that the goal can need (`relevant.py`). Looking costs nothing:
scrolling, typing into a search, and closing a message that appeared by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count, product
from typing import NamedTuple

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import EnvironmentFailure
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.kinds import DevicesSpec, FaultRates
from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AnyWidget, Item
from trajmill.stages.environments.simulated.app_files.references import bind_text, place_of
from trajmill.stages.environments.simulated.device import Device, lists_of, stack_after
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.layout.profile import DeviceProfile
from trajmill.stages.environments.simulated.layout.view import PreparedApp
from trajmill.stages.environments.simulated.layout.widgets import is_shown, list_items
from trajmill.stages.environments.simulated.relevant import AppAim, Reading, relevant_values
from trajmill.stages.environments.simulated.world import (
    Store,
    World,
    apply_effects,
    copied,
    prepared_store,
    read_episode_goal,
    wanted_store,
)

_MOST_STATES = 4_000
"""States of one search; a search that needs more counts as unreachable."""
_OPEN, _LEAVE = 1, 1


class SimulatedDistances:
    def __init__(self, world: World, faults: FaultRates, devices: DevicesSpec) -> None:
        self._world, self._faults, self._devices = world, faults, devices
        self._goals: dict[str, GoalDistance] = {}

    def __call__(self, episode: Episode) -> list[int | None] | None:
        """Return the distance before each step and after the last one.

        None in the list: the goal can no longer be reached. None for the list: the query has no goal check, or the
        episode was recorded on other devices, so that its screens differ from the replayed ones.
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
        self._world = world
        self._goal = read_episode_goal(query, world, query.platform)
        self._readings = _readings(world, query)
        self._known: dict[object, int | None] = {}

    @property
    def has_goal(self) -> bool:
        return self._goal.goal is not None

    def unread(self, device: Device, before: frozenset[Reading] | None = None) -> frozenset[Reading]:
        """Return the values still to be read on a page of another app: `before` without those on the screen."""
        left = self._readings if before is None else before
        running = device.running.get(device.foreground)
        if running is None or running.popup or device.loading:
            return left
        state = _State((running.stack[-1].screen,), running.store, left)
        return _after_reading(running.prepared, device.profile, state).unread

    def measure(self, device: Device, unread: frozenset[Reading]) -> int | None:
        """Return the fewest actions to the goal, without the one that ends the episode; None if unreachable."""
        apps = {*device.running, *(place_of(name).app for name in self._goal.goal or ()), *(r.app for r in unread)}
        total, trips = 0, 0
        for app in apps:
            left = self._in_app(app, device, frozenset(each for each in unread if each.app == app))
            if left is None:
                return None
            total += left
            trips += left > 0 and app != device.foreground
        first = 0 if device.foreground or not trips else -_LEAVE
        return total + trips * (_OPEN + _LEAVE) + first

    def _in_app(self, app: str, device: Device, unread: frozenset[Reading]) -> int | None:
        prepared, running = self._world.prepared_apps[app], device.running.get(app)
        if running is None:
            start = _State((prepared.app.first,), prepared_store(self._world, app, self._goal.start), unread)
        else:
            menu, focus = (device.menu, device.focus) if app == device.foreground else ("", "")
            start = _State(tuple(page.screen for page in running.stack), running.store, unread, menu, focus)
        key = (app, device.profile.number, start.key)
        if key not in self._known:
            aim = AppAim(prepared.app, wanted_store(self._world, app, self._goal.start, self._goal.goal or {}))
            self._known[key] = _AppSearch(prepared, device.profile, aim, start).distance()
        return self._known[key]


class _State(NamedTuple):
    """The state of one app, as far as the distance depends on it."""

    stack: tuple[str, ...]
    store: Store
    unread: frozenset[Reading]
    menu: str = ""
    focus: str = ""

    @property
    def key(self) -> object:
        lists = tuple([records.key for records in self.store.lists.values()])
        return (self.stack, tuple(self.store.values.items()), lists, self.unread, self.menu, self.focus)


class _AppSearch:
    def __init__(self, prepared: PreparedApp, profile: DeviceProfile, aim: AppAim, start: _State) -> None:
        self._prepared, self._profile, self._aim, self._start = prepared, profile, aim, start
        self._relevant = relevant_values(aim, start.store, start.unread)

    def distance(self) -> int | None:
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
        return _after_reading(self._prepared, self._profile, state)

    def _moves(self, state: _State) -> Iterator[tuple[int, _State]]:
        if len(state.stack) > 1:
            yield 1, _State(state.stack[:-1], state.store, state.unread)
        for widget in self._prepared.app.screens[state.stack[-1]].widgets:
            if is_shown(widget, state.store.values):
                yield from self._moves_at(widget, state)

    def _moves_at(self, widget: AnyWidget, state: _State) -> Iterator[tuple[int, _State]]:
        values = state.store.values
        match widget:
            case app_spec.Menu():
                for button in widget.items:
                    yield from self._pressing(button, state, 1 if state.menu == widget.id else 2)
            case app_spec.Button():
                yield from self._pressing(widget, state, 1)
            case app_spec.ItemList():
                yield from self._picking(widget, state)
            case app_spec.Toggle() | app_spec.Choice() | app_spec.Stepper() | app_spec.Input():
                held = values[widget.variable]
                for value in self._relevant.get(widget.variable, ()):
                    if value == held:
                        continue
                    match widget:
                        case app_spec.Choice() if value in widget.options:
                            cost = 1
                        case app_spec.Toggle() if isinstance(value, bool):
                            cost = 1
                        case app_spec.Stepper() if isinstance(value, int) and widget.minimum <= value <= widget.maximum:
                            cost = abs(int(value) - int(held))
                        case app_spec.Input() if isinstance(value, str):
                            cost = 0 if widget.kind == "search" else 1 if state.focus == widget.id else 2
                        case _:
                            continue
                    store = copied(state.store)
                    store.values[widget.variable] = value
                    yield cost, _State(state.stack, store, state.unread)

    def _pressing(self, button: app_spec.Button, state: _State, cost: int) -> Iterator[tuple[int, _State]]:
        values = state.store.values
        if not button.is_enabled(values):
            return
        store = copied(state.store)
        apply_effects(button.do, self._prepared.app, store)
        if self._aim.advances(state.store, store) and (button.to or store.values != values or button.do):
            yield cost, self._after(state, button.to, store)

    def _picking(self, widget: app_spec.ItemList, state: _State) -> Iterator[tuple[int, _State]]:
        items = list_items(widget, state.store.values, lists_of(self._prepared, self._profile, state.store))
        wanted = self._relevant.get(widget.variable, frozenset())
        if widget.do:
            picks = items
        elif wanted:
            picks = tuple(item for item in items if item.get("name") in wanted)
        else:
            picks = items[:1] if widget.leads_to else ()
        ways = ((widget.do, widget.to), *([((), widget.hold)] if widget.hold else []))
        for item, (effects, to) in product(picks, ways):
            store = copied(state.store)
            if widget.variable and "name" in item:
                store.values[widget.variable] = item["name"]
            apply_effects(effects, self._prepared.app, store, item)
            if self._aim.advances(state.store, store):
                yield 1, self._after(state, to, store)

    def _after(self, state: _State, to: str, store: Store) -> _State:
        return _State(stack_after(self._prepared.app, state.stack, to), store, state.unread)


def _readings(world: World, query: Query) -> frozenset[Reading]:
    """The values that the task's annotations carry from a page of one app to another app."""
    task = next((task for task in world.tasks if task.name == query.task), None)
    if task is None:
        return frozenset()
    asked = {slot.name: slot.value for slot in query.slots}
    return frozenset(
        Reading(*task.place(slot.spec.carried_from), asked[slot.spec.name])
        for slot in task.slots
        if slot.spec.carried_from and slot.spec.name in asked
    )


def _after_reading(prepared: PreparedApp, profile: DeviceProfile, state: _State) -> _State:
    screen = state.stack[-1]
    here = [each for each in state.unread if each.app == prepared.app.app and each.screen == screen]
    if not here:
        return state
    texts = list(_texts(prepared, profile, state.store, screen))
    return state._replace(unread=state.unread - {each for each in here if any(each.text in text for text in texts)})


def _texts(prepared: PreparedApp, profile: DeviceProfile, store: Store, screen: str) -> Iterator[str]:
    page, values = prepared.app.screens[screen], store.values
    yield bind_text(page.title, values)
    for widget in page.widgets:
        if isinstance(widget, app_spec.Text) and is_shown(widget, values):
            yield bind_text(widget.text, values)
        elif isinstance(widget, app_spec.ItemList) and is_shown(widget, values):
            items: tuple[Item, ...] = list_items(widget, values, lists_of(prepared, profile, store))
            for item in items:
                yield bind_text(widget.text, values, item)
                yield bind_text(widget.note, values, item)
