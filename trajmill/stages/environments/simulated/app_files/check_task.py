"""Checks the navigation DAG, slots, goal and phrasings of a task (paper 6.2, step 1)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import networkx as nx

from trajmill.stages.environments.simulated.app_files.app_spec import (
    AnyWidget,
    AppSpec,
    Input,
    Item,
    ItemList,
    ListChange,
    Scalar,
    ScreenSpec,
    SlotSpec,
    TaskSpec,
    Toggle,
)
from trajmill.stages.environments.simulated.app_files.loader import Mistake, NodePath, YamlFile
from trajmill.stages.environments.simulated.app_files.references import (
    AppPlace,
    all_lists,
    find_widget,
    names_in,
    offered,
    place_of,
    start_values,
    state_lists,
    target_of,
    variable_of,
    widgets_of,
)

_SLOT_NAME = re.compile(r"\{(\w+)\}")
_CLAUSES = "clauses"


class TaskScope(NamedTuple):
    """A task, its place in a file, and the apps that it may name."""

    source: YamlFile
    name: str
    task: TaskSpec
    apps: Mapping[str, AppSpec]
    home: str
    """The app of names without an app; empty in an errand."""

    def at(self, *path: str | int) -> NodePath:
        """The place of a part of the task in its file."""
        return ("tasks", self.name, *path)

    def mistake(self, path: tuple[str | int, ...], text: str) -> Mistake:
        """A mistake in a part of the task."""
        return self.source.mistake(self.at(*path), text)

    def place(self, reference: str) -> AppPlace:
        """Parse a name of the task."""
        return place_of(reference, self.home)

    def screen(self, reference: str) -> ScreenSpec | None:
        """The screen of a reference; None for an unknown one."""
        place = self.place(reference)
        return self.apps[place.app].screens.get(place.name) if place.app in self.apps else None


def check_task(scope: TaskScope) -> Iterator[Mistake]:
    """All mistakes of one task; slots and goal are checked only if the pages are right."""
    unknown = list(_check_pages(scope))
    yield from unknown
    if unknown:
        return
    yield from _check_graph(scope)
    yield from _check_transitions(scope)
    for index, slot in enumerate(scope.task.slots):
        yield from _check_slot(scope, index, slot)
    for name, count in Counter(slot.name for slot in scope.task.slots).items():
        if count > 1:
            yield scope.mistake(("slots",), f"{count} slots have the name `{name}`; rename all but one")
    yield from _check_always(scope)
    yield from _check_records(scope)
    yield from _check_goal(scope)
    yield from _check_templates(scope)


def _check_pages(scope: TaskScope) -> Iterator[Mistake]:
    pages = scope.task.pages
    if not pages:
        yield scope.mistake(("pages",), "a task needs at least one page; add the screens that it passes")
    for page, following in pages.items():
        if scope.screen(page) is None:
            yield scope.mistake(("pages", page), f"unknown screen `{page}`; {_screens(scope)}")
        for target in following:
            if scope.screen(target) is None:
                yield scope.mistake(("pages", page), f"unknown screen `{target}`; {_screens(scope)}")
            elif target not in pages:
                yield scope.mistake(("pages", page), f"`{target}` is not among the pages; add `{target}: []`")


def _check_graph(scope: TaskScope) -> Iterator[Mistake]:
    graph = nx.DiGraph((page, target) for page, targets in scope.task.pages.items() for target in targets)
    graph.add_nodes_from(scope.task.pages)
    first = next(iter(scope.task.pages))
    if not nx.is_directed_acyclic_graph(graph):
        cycle = " -> ".join(edge[0] for edge in nx.find_cycle(graph))
        text = f"the pages go in a circle ({cycle}); leave out the edge that goes back"
        yield scope.mistake(("pages",), text)
    for page in graph.nodes - nx.descendants(graph, first) - {first}:
        what = "the goal page" if not graph.out_degree(page) else "the page"
        yield scope.mistake(("pages", page), f"{what} `{page}` cannot be reached from `{first}`; add an edge to it")
    place = scope.place(first)
    if scope.apps[place.app].first != place.name:
        opens = scope.apps[place.app].first
        yield scope.mistake(("pages", first), f"the first page must be the one that opens; start with `{opens}`")


def _check_transitions(scope: TaskScope) -> Iterator[Mistake]:
    for page, following in scope.task.pages.items():
        for target in following:
            here, there = scope.place(page), scope.place(target)
            if here.app != there.app:
                opens = scope.apps[there.app].first
                if opens != there.name:
                    text = f"another app is entered on the screen that opens; lead to `{there.app}.{opens}`"
                    yield scope.mistake(("pages", page), text)
                continue
            screen = scope.screen(page)
            ways = [widget for widget in widgets_of(screen) if target_of(widget) == there.name] if screen else []
            if not ways:
                text = f"no widget on `{page}` leads to `{target}`; give one `to: {there.name}` or leave out the edge"
                yield scope.mistake(("pages", page), text)
            elif all(isinstance(way, ItemList) and not _is_operated(scope, page, way) for way in ways):
                text = f"the way from `{page}` to `{target}` is a list; add a slot that says which item is picked"
                yield scope.mistake(("pages", page), text)


def _is_operated(scope: TaskScope, page: str, widget: AnyWidget) -> bool:
    by_slot = any(slot.page == page and slot.widget == widget.id for slot in scope.task.slots)
    return by_slot or widget.id in scope.task.always.get(page, {})


def _check_slot(scope: TaskScope, index: int, slot: SlotSpec) -> Iterator[Mistake]:
    path = ("slots", index)
    screen = scope.screen(slot.page)
    if slot.page not in scope.task.pages or screen is None:
        yield scope.mistake(path, f"`{slot.page}` is not among the pages; {_one_of(scope.task.pages)}")
        return
    widget = find_widget(screen, slot.widget)
    if widget is None or not variable_of(widget):
        known = (each.id for each in widgets_of(screen) if each.id and variable_of(each))
        yield scope.mistake(
            path, f"`{slot.widget}` is no widget of `{slot.page}` that sets a variable; {_one_of(known)}"
        )
        return
    if slot.carried_from and scope.screen(slot.carried_from) is None:
        yield scope.mistake(path, f"unknown screen `{slot.carried_from}`; {_screens(scope)}")
    app = scope.apps[scope.place(slot.page).app]
    yield from _check_values(scope, path, slot, widget, offered(widget, app))
    yield from _check_implied(scope, path, slot, app)


def _check_values(
    scope: TaskScope, path: tuple[str, int], slot: SlotSpec, widget: AnyWidget, offers: tuple[Scalar, ...]
) -> Iterator[Mistake]:
    if isinstance(widget, Input):
        if any(not isinstance(value, str) for value in slot.values):
            yield scope.mistake(path, "an input takes text; put the values in quotes")
        if not slot.values and slot.implied_by is None:
            yield scope.mistake(path, f"the slot `{slot.name}` has no values; add `values: [...]`")
        return
    fills = {scope.place(name) for name in scope.task.setup}
    page = scope.place(slot.page)
    if isinstance(widget, ItemList) and AppPlace(page.app, widget.items) in fills:
        if not slot.values and slot.implied_by is None and not offers:
            yield scope.mistake(path, f"the slot `{slot.name}` has no values; add `values: [...]`")
        return
    if not offers and slot.implied_by is None:
        yield scope.mistake(path, f"the slot `{slot.name}` has no values; `{slot.widget}` offers nothing")
    for value in slot.values:
        if not any(value == each and type(value) is type(each) for each in offers):
            yield scope.mistake(path, f"`{slot.widget}` does not offer `{value}`; {_one_of(map(str, offers))}")


def _check_implied(scope: TaskScope, path: tuple[str, int], slot: SlotSpec, app: AppSpec) -> Iterator[Mistake]:
    if slot.implied_by is None:
        return
    implied = slot.implied_by
    if implied.slot not in {each.name for each in scope.task.slots if each.implied_by is None}:
        yield scope.mistake(path, f"unknown slot `{implied.slot}`; {_slot_names(scope)}")
    place = place_of(implied.list, app.app)
    items = all_lists(scope.apps[place.app]).get(place.name) if place.app in scope.apps else None
    if items is None:
        yield scope.mistake(path, f"unknown list `{implied.list}`; {_one_of(all_lists(app))}")
    elif any(implied.field not in item for item in items):
        yield scope.mistake(path, f"not every item of `{implied.list}` has the field `{implied.field}`; add it")


def _check_always(scope: TaskScope) -> Iterator[Mistake]:
    for page, widgets in scope.task.always.items():
        screen = scope.screen(page)
        if page not in scope.task.pages or screen is None:
            yield scope.mistake(("always", page), f"`{page}` is not among the pages; {_one_of(scope.task.pages)}")
            continue
        for widget_id in widgets:
            if find_widget(screen, widget_id) is None:
                known = (widget.id for widget in widgets_of(screen) if widget.id)
                yield scope.mistake(("always", page), f"unknown widget `{widget_id}`; {_one_of(known)}")


def _check_records(scope: TaskScope) -> Iterator[Mistake]:
    for name, record in scope.task.setup.items():
        place = scope.place(name)
        if place.app not in scope.apps or place.name not in state_lists(scope.apps[place.app]):
            yield scope.mistake(("setup", name), f"unknown list of the state `{name}`; {_states(scope)}")
        elif "name" not in record:
            yield scope.mistake(("setup", name), "the record needs a `name`; add one")
        yield from _unknown_slots(scope, ("setup", name), record)


def _check_goal(scope: TaskScope) -> Iterator[Mistake]:
    if not scope.task.goal:
        yield scope.mistake(("goal",), "the goal is empty; name the state that is wanted")
    for name, change in scope.task.goal.items():
        place, path = scope.place(name), ("goal", name)
        app = scope.apps.get(place.app)
        if app is None or place.name not in app.state:
            yield scope.mistake(path, f"unknown state `{name}`; {_states(scope)}")
            continue
        is_list = place.name in state_lists(app)
        if not isinstance(change, ListChange):
            if is_list:
                yield scope.mistake(path, f"`{name}` is a list; say `append`, `update` or `remove`")
            elif not any(names_in(change)) and type(change) is not type(start_values(app)[place.name]):
                start = start_values(app)[place.name]
                yield scope.mistake(path, f"`{name}` starts as `{start}`; write a value of the same type")
            yield from _unknown_slots(scope, path, {"": change})
            continue
        if not is_list:
            yield scope.mistake(path, f"`{name}` is no list; write the wanted value")
        if (change.append is not None) + (change.update is not None) + change.remove != 1:
            yield scope.mistake(path, "a list is changed by one of `append`, `update`, `remove`; leave one")
        if change.append is None and change.name == "":
            yield scope.mistake(path, "which record? add its `name`")
        yield from _unknown_slots(scope, path, {**(change.append or {}), **(change.update or {}), "": change.name})


def _unknown_slots(scope: TaskScope, path: tuple[str | int, ...], record: Item) -> Iterator[Mistake]:
    known = {slot.name for slot in scope.task.slots}
    for name in sorted({name for value in record.values() for name in names_in(value)} - known):
        yield scope.mistake(path, f"unknown slot `${name}`; {_slot_names(scope)}")


def _check_templates(scope: TaskScope) -> Iterator[Mistake]:
    task = scope.task
    said = [slot for slot in task.slots if slot.implied_by is None and not slot.carried_from]
    required = {slot.name for slot in said if not slot.optional}
    optional = {slot.name: slot for slot in said if slot.optional}
    for key, templates in (("phrasings", task.phrasings), ("heldout_phrasings", task.heldout_phrasings)):
        if not templates:
            yield scope.mistake((key,), f"`{key}` is empty; add at least one template")
        for index, template in enumerate(templates):
            needed = required | ({_CLAUSES} if optional else set())
            yield from _check_template(scope, (key, index), template, needed, needed)
    for key, clauses in (("clauses", task.clauses), ("heldout_clauses", task.heldout_clauses)):
        for name, templates in clauses.items():
            if name not in optional:
                yield scope.mistake((key, name), f"`{name}` is no optional slot that is said; {_one_of(optional)}")
                continue
            needed = set() if _is_toggle(scope, optional[name]) else {name}
            for index, template in enumerate(templates):
                yield from _check_template(scope, (key, name, index), template, needed, {name})
    for index, slot in enumerate(task.slots):
        if slot.name in optional and not task.clauses.get(slot.name):
            text = f"the optional slot `{slot.name}` has no clause; add `clauses: {{{slot.name}: [...]}}`"
            yield scope.mistake(("slots", index), text)


def _check_template(
    scope: TaskScope, path: tuple[str | int, ...], template: str, required: set[str], allowed: set[str]
) -> Iterator[Mistake]:
    named = set(_SLOT_NAME.findall(template))
    for name in sorted(named - allowed):
        yield scope.mistake(
            path, f"the template names `{{{name}}}`, which is no slot to be said here; {_one_of(allowed)}"
        )
    for name in sorted(required - named):
        yield scope.mistake(path, f"the template lacks `{{{name}}}`; add it")
    for opening, closing in ("()", "[]", "{}"):
        if template.count(opening) != template.count(closing):
            yield scope.mistake(path, f"`{opening}` and `{closing}` do not pair up; close what is open")


def _is_toggle(scope: TaskScope, slot: SlotSpec) -> bool:
    screen = scope.screen(slot.page)
    return screen is not None and isinstance(find_widget(screen, slot.widget), Toggle)


def _screens(scope: TaskScope) -> str:
    prefix = "" if scope.home else "{}."
    return _one_of(prefix.format(app.app) + name for app in scope.apps.values() for name in app.screens)


def _states(scope: TaskScope) -> str:
    prefix = "" if scope.home else "{}."
    return _one_of(prefix.format(app.app) + name for app in scope.apps.values() for name in app.state)


def _slot_names(scope: TaskScope) -> str:
    return _one_of(slot.name for slot in scope.task.slots)


def _one_of(names: Iterator[str] | Mapping[str, object] | set[str]) -> str:
    known = sorted(names)
    return f"use one of {', '.join(known)}" if known else "there is none yet, add one"
