"""All apps and errands of a run: environments run them, and queries are sampled from their graphs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import networkx as nx
from pydantic import TypeAdapter

from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.record import Record, content_id
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.kinds import GeneratedAppsSpec
from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AnyWidget, AppSpec, Effect, Item, Scalar
from trajmill.stages.environments.simulated.app_files.check import builtin_files, read_files
from trajmill.stages.environments.simulated.app_files.references import AppPlace, bind, bind_record, offered, place_of
from trajmill.stages.environments.simulated.generated.generate import app_files_in, generated_apps
from trajmill.stages.environments.simulated.layout.view import PreparedApp, ViewCache, prepare_app
from trajmill.stages.environments.tasks import read_part

_HOUSEHOLD = 4
"""Most generated apps on one device: they are strange among the drawn apps, as held-out apps will be."""


class TaskSlot(NamedTuple):
    spec: app_spec.SlotSpec
    page: str
    widget: AnyWidget
    default: Scalar
    """The start value of its variable; the value of the slot if it is not asked for."""
    values: tuple[Scalar, ...]
    """The values that can be asked for, without the default; empty for a slot that follows from another one."""

    @property
    def is_free(self) -> bool:
        """Whether its value can be chosen; the values of other slots follow from it."""
        return self.spec.implied_by is None


@dataclass(frozen=True)
class TaskGraph:
    """A family of tasks as a navigation DAG (paper 6.2)."""

    name: str
    apps: tuple[AppSpec, ...]
    platform: Platform
    spec: app_spec.TaskSpec
    graph: nx.DiGraph[str]
    """The graph; its nodes are pages (`app.screen`) with a `description`, without the launcher."""
    start: str
    slots: tuple[TaskSlot, ...]

    def app(self, name: str) -> AppSpec:
        return {app.app: app for app in self.apps}[name]

    def place(self, reference: str) -> AppPlace:
        """Parse a name of the task; an app's own tasks have names without the app."""
        return place_of(reference, self.apps[0].app)


@dataclass(frozen=True)
class World:
    """Apps and errands by id; it is immutable, and cheap to pickle and share."""

    apps: Mapping[str, AppSpec]
    errands: Mapping[str, app_spec.ErrandSpec]
    generated: tuple[str, ...] = ()
    """Ids of the apps that nobody drew: training alone uses them, on devices of their own."""

    def apps_on(self, platform: Platform, beside: str = "") -> tuple[AppSpec, ...]:
        """Return the apps of a device: those that are not generated, with a generated app and its neighbours."""
        return self._households[platform, beside]

    @cached_property
    def prepared_apps(self) -> dict[str, PreparedApp]:
        return {name: prepare_app(app) for name, app in self.apps.items()}

    @cached_property
    def _households(self) -> dict[tuple[Platform, str], tuple[AppSpec, ...]]:
        found = {}
        for platform in Platform:
            on_platform = [app for app in self.apps.values() if app.platform is platform]
            drawn = found[platform, ""] = tuple(app for app in on_platform if app.app not in self.generated)
            strange = [app for app in on_platform if app.app in self.generated]
            for start in range(0, len(strange), _HOUSEHOLD):
                together = strange[start : start + _HOUSEHOLD]
                found.update({(platform, app.app): (*drawn, *together) for app in together})
        return found

    def generated_of(self, apps: Sequence[str]) -> str:
        """Return the first generated app among some, or nothing."""
        return next((app for app in apps if app in self.generated), "")

    @cached_property
    def views(self) -> ViewCache:
        return ViewCache()

    @cached_property
    def tasks(self) -> tuple[TaskGraph, ...]:
        own = [(app.app, (app,), app.tasks) for app in self.apps.values()]
        crossing = [(each.errand, tuple(self.apps[a] for a in each.apps), each.tasks) for each in self.errands.values()]
        return tuple(
            _task_graph(f"{prefix}.{name}", apps, task)
            for prefix, apps, tasks in (*own, *crossing)
            for name, task in tasks.items()
        )

    def __getstate__(self) -> dict[str, object]:
        return {"apps": self.apps, "errands": self.errands, "generated": self.generated}


def load_world(
    extra: Sequence[Path] = (), builtin: Collection[str] | None = None, generated: GeneratedAppsSpec | None = None
) -> World:
    """Load the `builtin` apps (None: all), the user's files, generated apps; BadInputError has one line per mistake."""
    strange = tuple(path for folder in generated.folders for path in app_files_in(folder)) if generated else ()
    reading = read_files((*builtin_files(), *extra, *strange))
    if reading.mistakes:
        raise BadInputError("\n".join(str(mistake) for mistake in reading.mistakes))
    apps = {file.spec.app: file.spec for file in reading.apps}
    errands = {file.spec.errand: file.spec for file in reading.errands}
    if builtin is not None:
        known = {path.stem for path in builtin_files()} & apps.keys()
        apps = {name: app for name, app in apps.items() if name in builtin or name not in known}
        errands = {name: errand for name, errand in errands.items() if apps.keys() >= set(errand.apps)}
    new = [app.spec for app in islice(generated_apps(generated.seed), generated.count)] if generated else []
    named = {str(path) for path in strange}
    ids = [file.spec.app for file in reading.apps if file.source.file in named]
    return World(apps | {app.app: app for app in new}, errands, (*ids, *(app.app for app in new)))


shared_world = lru_cache(maxsize=2)(load_world)
"""Loads a world once in a process, so that all its environments share the cache of screens."""


def _task_graph(name: str, apps: tuple[AppSpec, ...], task: app_spec.TaskSpec) -> TaskGraph:
    by_name, home = {app.app: app for app in apps}, apps[0].app
    graph: nx.DiGraph[str] = nx.DiGraph()
    for page, following in task.pages.items():
        place = place_of(page, home)
        graph.add_node(str(place), description=by_name[place.app].screens[place.name].description)
        graph.add_edges_from((str(place), str(place_of(target, home))) for target in following)
    slots = []
    for slot in task.slots:
        place = place_of(slot.page, home)
        app = by_name[place.app]
        widget = app.screens[place.name].find(slot.widget)
        assert widget is not None, "the checker has found the widget of every slot"
        default = app.start_values()[widget.sets]
        values = tuple(value for value in slot.values or offered(widget, app) if value != default)
        slots.append(TaskSlot(slot, str(place), widget, default, () if slot.implied_by else values))
    start = str(place_of(next(iter(task.pages)), home))
    return TaskGraph(name, apps, apps[0].platform, task, graph, start, tuple(slots))


Goal = dict[str, app_spec.ListChange | Scalar]
"""By `app.state`, the wanted scalar or the change of a list."""


class Records(NamedTuple):
    items: tuple[Item, ...]
    key: str


class Store(NamedTuple):
    """The variables and state of a running app; it is changed in place."""

    values: dict[str, Scalar]
    lists: dict[str, Records]
    lacking: tuple[tuple[str, Scalar], ...] = ()
    """Fixed lists, each with the name of an item that it does not have on this device."""


def make_records(items: tuple[Item, ...]) -> Records:
    return Records(items, content_id(items))


def copied(store: Store) -> Store:
    return store._replace(values=dict(store.values), lists=dict(store.lists))


def make_store(app: AppSpec) -> Store:
    return Store(app.start_values(), {name: make_records(items) for name, items in app.state_lists().items()})


def apply_effects(effects: tuple[Effect, ...], app: AppSpec, store: Store, item: Item | None = None) -> None:
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
    setup: dict[str, Item] = {}
    without: dict[str, Scalar] = {}
    """By list (`app.list`), the name of an item that it lacks: what asks for the item cannot be done."""


class EpisodeGoal(NamedTuple):
    """Start and goal of an episode: reached if all apps have the start state with exactly the goal's changes."""

    start: StartState
    goal: Goal | None

    def score(self, world: World, stores: Mapping[str, Store]) -> float | None:
        return None if self.goal is None else float(next(self.differences(world, stores), None) is None)

    def differences(self, world: World, stores: Mapping[str, Store]) -> Iterator[str]:
        """Yield where a state is not as the goal wants it, with both values as JSON."""
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

    def side_effects(self, world: World, stores: Mapping[str, Store]) -> tuple[str, ...] | None:
        """Return the state that changed and that the goal does not name, as `app.state`; None without a goal."""
        if self.goal is None:
            return None
        different = (text.split("`")[1] for text in self.differences(world, stores))
        return tuple(sorted(name for name in different if name not in self.goal))


def read_episode_goal(query: Query, world: World, platform: Platform) -> EpisodeGoal:
    """Read the start state and the goal of a query; raises EnvironmentFailure (`task`) if they are malformed."""
    if query.platform is not platform:
        text = f"the query is for the platform {query.platform}, this is a {platform}"
        raise EnvironmentFailure(text, FailureClass.TASK)

    def state_of(name: str) -> Scalar | tuple[Item, ...] | None:
        place = place_of(name)
        app = world.apps.get(place.app)
        return app.state.get(place.name) if app and app.platform is platform else None

    start = read_part(StartState.model_validate_json, query.start_state, "start state")
    for name in start.setup:
        if not isinstance(state_of(name), tuple):
            raise EnvironmentFailure(f"the start state names an unknown list `{name}`", FailureClass.TASK)
    for name, lacking in start.without.items():
        app = world.apps.get(place_of(name).app)
        items = app.all_lists().get(place_of(name).name, ()) if app and app.platform is platform else ()
        if all(item.get("name") != lacking for item in items):
            raise EnvironmentFailure(f"the start state is without `{lacking}`, unknown in `{name}`", FailureClass.TASK)
    goal = read_part(_GOAL.validate_json, query.goal, "goal")
    for name, change in goal.items():
        state = state_of(name)
        if state is None or isinstance(state, tuple) != isinstance(change, app_spec.ListChange):
            raise EnvironmentFailure(f"the goal names unknown state `{name}`", FailureClass.TASK)
    return EpisodeGoal(start, goal or None)


def start_state_to_json(setup: Mapping[str, Item], without: Mapping[str, Scalar]) -> str:
    parts = {"setup": dict(setup), "without": dict(without)}
    return json.dumps({name: part for name, part in parts.items() if part}, sort_keys=True)


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
    for place, item in ((place_of(name), item) for name, item in start.without.items()):
        if place.app == app and place.name in store.lists:
            remove_records(store, place.name, item)
        elif place.app == app:
            store = store._replace(lacking=(*store.lacking, (place.name, item)))
    return store


def wanted_store(world: World, app: str, start: StartState, goal: Goal) -> Store:
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


def _difference(app: str, name: str, wanted: Scalar | tuple[Item, ...], found: Scalar | tuple[Item, ...]) -> str:
    if isinstance(wanted, tuple) and isinstance(found, tuple):
        # Only the records that the other side lacks; without any, they differ in their order or number.
        missing = tuple(each for each in wanted if each not in found)
        added = tuple(each for each in found if each not in wanted)
        wanted, found = (missing, added) if missing or added else (wanted, found)
    return f"`{app}.{name}` is {json.dumps(found, ensure_ascii=False)}, not {json.dumps(wanted, ensure_ascii=False)}"


_GOAL: TypeAdapter[Goal] = TypeAdapter(Goal)
