"""All apps and errands of a run: environments run them, and queries are sampled from their graphs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import networkx as nx

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AnyWidget, AppSpec, Scalar
from trajmill.stages.environments.simulated.app_files.check import builtin_files, read_files
from trajmill.stages.environments.simulated.app_files.references import AppPlace, offered, place_of
from trajmill.stages.environments.simulated.layout.view import PreparedApp, ViewCache, prepare_app


class TaskSlot(NamedTuple):
    """A slot of a task with the values of its widget."""

    spec: app_spec.SlotSpec
    page: str
    """`app.screen`."""
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
    """`app.task` or `errand.task`."""
    apps: tuple[AppSpec, ...]
    """The apps, in the order of their use."""
    platform: Platform
    spec: app_spec.TaskSpec
    graph: nx.DiGraph[str]
    """The graph; its nodes are pages (`app.screen`) with a `description`, without the launcher."""
    start: str
    """The first page."""
    slots: tuple[TaskSlot, ...]

    def app(self, name: str) -> AppSpec:
        """Return an app by its id. Raises KeyError if the task does not use it."""
        return {app.app: app for app in self.apps}[name]

    def place(self, reference: str) -> AppPlace:
        """Parse a name of the task; an app's own tasks have names without the app."""
        return place_of(reference, self.apps[0].app)


@dataclass(frozen=True)
class World:
    """Apps and errands by id; it is immutable, and cheap to pickle and share."""

    apps: Mapping[str, AppSpec]
    errands: Mapping[str, app_spec.ErrandSpec]

    def apps_on(self, platform: Platform) -> tuple[AppSpec, ...]:
        return tuple(app for app in self.apps.values() if app.platform is platform)

    def tasks(self) -> tuple[TaskGraph, ...]:
        return self._tasks

    @cached_property
    def prepared_apps(self) -> dict[str, PreparedApp]:
        return {name: prepare_app(app) for name, app in self.apps.items()}

    @cached_property
    def views(self) -> ViewCache:
        return ViewCache()

    @cached_property
    def _tasks(self) -> tuple[TaskGraph, ...]:
        own = [(app.app, (app,), app.tasks) for app in self.apps.values()]
        crossing = [(each.errand, tuple(self.apps[a] for a in each.apps), each.tasks) for each in self.errands.values()]
        return tuple(
            _task_graph(f"{prefix}.{name}", apps, task)
            for prefix, apps, tasks in (*own, *crossing)
            for name, task in tasks.items()
        )

    def __getstate__(self) -> dict[str, object]:
        return {"apps": self.apps, "errands": self.errands}


def load_world(extra: Sequence[Path] = (), builtin: Collection[str] | None = None) -> World:
    """Load the built-in apps and errands, and those of the user's files (`extra`).

    Args:
        extra: app and errand files of the user.
        builtin: ids of the built-in apps to keep, with the errands that need no other; None keeps all.

    Raises:
        BadInputError: a file is wrong (one line per mistake), or there is no such built-in app.
    """
    reading = read_files((*builtin_files(), *extra))
    if reading.mistakes:
        raise BadInputError("\n".join(str(mistake) for mistake in reading.mistakes))
    apps = {file.spec.app: file.spec for file in reading.apps}
    errands = {file.spec.errand: file.spec for file in reading.errands}
    if builtin is not None:
        known = {path.stem for path in builtin_files()} & apps.keys()
        for name in builtin:
            if name not in known:
                raise BadInputError(f"builtin_apps: there is no app {name!r}; {instead_of(name, sorted(known))}")
        apps = {name: app for name, app in apps.items() if name in builtin or name not in known}
        errands = {name: errand for name, errand in errands.items() if apps.keys() >= set(errand.apps)}
    return World(apps, errands)


@lru_cache(maxsize=2)
def shared_world(extra: tuple[Path, ...], builtin: tuple[str, ...] | None = None) -> World:
    """Load a world once in a process, so that all its environments share the cache of screens."""
    return load_world(extra, builtin)


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
