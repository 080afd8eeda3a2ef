"""Check the navigation DAG, slots, goal and phrasings of a task (paper 6.2, step 1)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import networkx as nx

from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec, ScreenSpec, SlotSpec, TaskSpec
from trajmill.stages.environments.simulated.app_files.loader import Mistake, YamlFile
from trajmill.stages.environments.simulated.app_files.references import AppPlace, names_in, offered, place_of

_SLOT_NAME = re.compile(r"\{(\w+)\}")
_CLAUSES = "clauses"


def one_of(names: Iterable[str]) -> str:
    known = sorted(names)
    return f"use one of {', '.join(known)}" if known else "there is none yet, add one"


class TaskScope(NamedTuple):
    source: YamlFile
    name: str
    task: TaskSpec
    apps: Mapping[str, AppSpec]
    home: str
    """The app of names without an app; empty in an errand."""

    def mistake(self, path: tuple[str | int, ...], text: str) -> Mistake:
        return self.source.mistake(("tasks", self.name, *path), text)

    def place(self, reference: str) -> AppPlace:
        return place_of(reference, self.home)

    def screen(self, reference: str) -> ScreenSpec | None:
        place = self.place(reference)
        return self.apps[place.app].screens.get(place.name) if place.app in self.apps else None

    def screens(self) -> str:
        return self._all((app.app, name) for app in self.apps.values() for name in app.screens)

    def states(self) -> str:
        return self._all((app.app, name) for app in self.apps.values() for name in app.state)

    def slots(self) -> str:
        return one_of(slot.name for slot in self.task.slots)

    def _all(self, names: Iterable[tuple[str, str]]) -> str:
        return one_of(name if self.home else f"{app}.{name}" for app, name in names)


def check_task(scope: TaskScope) -> Iterator[Mistake]:
    """Find all mistakes of one task; slots and goal are checked only if the pages are right."""
    unknown = list(_check_pages(scope))
    yield from unknown
    if unknown:
        return
    yield from _check_graph(scope)
    yield from _check_transitions(scope)
    for index, slot in enumerate(scope.task.slots):
        yield from _check_slot(scope, ("slots", index), slot)
    for name, count in Counter(slot.name for slot in scope.task.slots).items():
        if count > 1:
            yield scope.mistake(("slots",), f"{count} slots have the name `{name}`; rename all but one")
    yield from _check_always_and_setup(scope)
    yield from _check_goal(scope)
    yield from _check_templates(scope)


def _check_pages(scope: TaskScope) -> Iterator[Mistake]:
    pages = scope.task.pages
    if not pages:
        yield scope.mistake(("pages",), "a task needs at least one page; add the screens that it passes")
    for page, following in pages.items():
        if scope.screen(page) is None:
            yield scope.mistake(("pages", page), f"unknown screen `{page}`; {scope.screens()}")
        for target in following:
            if scope.screen(target) is None:
                yield scope.mistake(("pages", page), f"unknown screen `{target}`; {scope.screens()}")
            elif target not in pages:
                yield scope.mistake(("pages", page), f"`{target}` is not among the pages; add `{target}: []`")


def _check_graph(scope: TaskScope) -> Iterator[Mistake]:
    graph = nx.DiGraph((page, target) for page, targets in scope.task.pages.items() for target in targets)
    graph.add_nodes_from(scope.task.pages)
    first = next(iter(scope.task.pages))
    if not nx.is_directed_acyclic_graph(graph):
        cycle = " -> ".join(edge[0] for edge in nx.find_cycle(graph))
        yield scope.mistake(("pages",), f"the pages go in a circle ({cycle}); leave out the edge that goes back")
    for page in graph.nodes - nx.descendants(graph, first) - {first}:
        what = "the goal page" if not graph.out_degree(page) else "the page"
        yield scope.mistake(("pages", page), f"{what} `{page}` cannot be reached from `{first}`; add an edge to it")
    place = scope.place(first)
    opens = scope.apps[place.app].first
    if opens != place.name:
        yield scope.mistake(("pages", first), f"the first page must be the one that opens; start with `{opens}`")


def _check_transitions(scope: TaskScope) -> Iterator[Mistake]:
    for page, target in ((page, target) for page, following in scope.task.pages.items() for target in following):
        here, there, screen = scope.place(page), scope.place(target), scope.screen(page)
        if here.app != there.app:
            opens = scope.apps[there.app].first
            if opens != there.name:
                text = f"another app is entered on the screen that opens; lead to `{there.app}.{opens}`"
                yield scope.mistake(("pages", page), text)
            continue
        leading = [widget for widget in screen.all_widgets() if there.name in widget.leads_to] if screen else []
        operated = {slot.widget for slot in scope.task.slots if slot.page == page} | {*scope.task.always.get(page, {})}
        if not leading:
            text = f"no widget on `{page}` leads to `{target}`; give one `to: {there.name}` or leave out the edge"
            yield scope.mistake(("pages", page), text)
        elif all(isinstance(widget, app_spec.ItemList) and widget.id not in operated for widget in leading):
            text = f"the way from `{page}` to `{target}` is a list; add a slot that says which item is picked"
            yield scope.mistake(("pages", page), text)


def _check_slot(scope: TaskScope, path: tuple[str, int], slot: SlotSpec) -> Iterator[Mistake]:
    screen = scope.screen(slot.page)
    if slot.page not in scope.task.pages or screen is None:
        yield scope.mistake(path, f"`{slot.page}` is not among the pages; {one_of(scope.task.pages)}")
        return
    widget = screen.find(slot.widget)
    if widget is None or not widget.sets:
        known = one_of(each.id for each in screen.all_widgets() if each.id and each.sets)
        yield scope.mistake(path, f"`{slot.widget}` is no widget of `{slot.page}` that sets a variable; {known}")
        return
    if slot.carried_from and scope.screen(slot.carried_from) is None:
        yield scope.mistake(path, f"unknown screen `{slot.carried_from}`; {scope.screens()}")
    app = scope.apps[scope.place(slot.page).app]
    offers = offered(widget, app)
    filled = {scope.place(name) for name in scope.task.setup}
    lacks_values = f"the slot `{slot.name}` has no values; add `values: [...]`"
    if isinstance(widget, app_spec.Input):
        if any(not isinstance(value, str) for value in slot.values):
            yield scope.mistake(path, "an input takes text; put the values in quotes")
        if not slot.values and slot.implied_by is None:
            yield scope.mistake(path, lacks_values)
    elif isinstance(widget, app_spec.ItemList) and AppPlace(app.app, widget.items) in filled:
        if not slot.values and slot.implied_by is None and not offers:
            yield scope.mistake(path, lacks_values)
    else:
        if not offers and slot.implied_by is None:
            yield scope.mistake(path, f"the slot `{slot.name}` has no values; `{slot.widget}` offers nothing")
        for value in slot.values:
            if not any(value == each and type(value) is type(each) for each in offers):
                yield scope.mistake(path, f"`{slot.widget}` does not offer `{value}`; {one_of(map(str, offers))}")
    if slot.implied_by is not None:
        yield from _check_implied(scope, path, slot.implied_by, app)


def _check_implied(
    scope: TaskScope, path: tuple[str, int], implied: app_spec.ImpliedBy, app: AppSpec
) -> Iterator[Mistake]:
    if implied.slot not in {each.name for each in scope.task.slots if each.implied_by is None}:
        yield scope.mistake(path, f"unknown slot `{implied.slot}`; {scope.slots()}")
    place = place_of(implied.list, app.app)
    items = scope.apps[place.app].all_lists().get(place.name) if place.app in scope.apps else None
    if items is None:
        yield scope.mistake(path, f"unknown list `{implied.list}`; {one_of(app.all_lists())}")
    elif any(implied.field not in item for item in items):
        yield scope.mistake(path, f"not every item of `{implied.list}` has the field `{implied.field}`; add it")


def _check_always_and_setup(scope: TaskScope) -> Iterator[Mistake]:
    for page, widgets in scope.task.always.items():
        screen = scope.screen(page)
        if page not in scope.task.pages or screen is None:
            yield scope.mistake(("always", page), f"`{page}` is not among the pages; {one_of(scope.task.pages)}")
            continue
        for widget_id in widgets:
            if screen.find(widget_id) is None:
                known = one_of(widget.id for widget in screen.all_widgets() if widget.id)
                yield scope.mistake(("always", page), f"unknown widget `{widget_id}`; {known}")
    for name, record in scope.task.setup.items():
        place = scope.place(name)
        if place.app not in scope.apps or place.name not in scope.apps[place.app].state_lists():
            yield scope.mistake(("setup", name), f"unknown list of the state `{name}`; {scope.states()}")
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
            yield scope.mistake(path, f"unknown state `{name}`; {scope.states()}")
            continue
        is_list = place.name in app.state_lists()
        if not isinstance(change, app_spec.ListChange):
            if is_list:
                yield scope.mistake(path, f"`{name}` is a list; say `append`, `update` or `remove`")
            elif not any(names_in(change)) and type(change) is not type(start := app.start_values()[place.name]):
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


def _unknown_slots(scope: TaskScope, path: tuple[str | int, ...], record: app_spec.Item) -> Iterator[Mistake]:
    known = {slot.name for slot in scope.task.slots}
    for name in sorted({name for value in record.values() for name in names_in(value)} - known):
        yield scope.mistake(path, f"unknown slot `${name}`; {scope.slots()}")


def _check_templates(scope: TaskScope) -> Iterator[Mistake]:
    task = scope.task
    stated = [slot for slot in task.slots if slot.implied_by is None and not slot.carried_from]
    optional = {slot.name: slot for slot in stated if slot.optional}
    needed = {slot.name for slot in stated if not slot.optional} | ({_CLAUSES} if optional else set())
    for key, templates in (("phrasings", task.phrasings), ("heldout_phrasings", task.heldout_phrasings)):
        if not templates:
            yield scope.mistake((key,), f"`{key}` is empty; add at least one template")
        for index, template in enumerate(templates):
            yield from _check_template(scope, (key, index), template, needed, needed)
    for key, clauses in (("clauses", task.clauses), ("heldout_clauses", task.heldout_clauses)):
        for name, templates in clauses.items():
            if name not in optional:
                yield scope.mistake((key, name), f"`{name}` is no optional slot that is said; {one_of(optional)}")
                continue
            screen = scope.screen(optional[name].page)
            switch = screen is not None and isinstance(screen.find(optional[name].widget), app_spec.Toggle)
            for index, template in enumerate(templates):
                yield from _check_template(scope, (key, name, index), template, set() if switch else {name}, {name})
    for index, slot in enumerate(task.slots):
        if slot.name in optional and not task.clauses.get(slot.name):
            text = f"the optional slot `{slot.name}` has no clause; add `clauses: {{{slot.name}: [...]}}`"
            yield scope.mistake(("slots", index), text)


def _check_template(
    scope: TaskScope, path: tuple[str | int, ...], template: str, required: set[str], allowed: set[str]
) -> Iterator[Mistake]:
    named = set(_SLOT_NAME.findall(template))
    for name in sorted(named - allowed):
        text = f"the template names `{{{name}}}`, which is no slot to be said here; {one_of(allowed)}"
        yield scope.mistake(path, text)
    for name in sorted(required - named):
        yield scope.mistake(path, f"the template lacks `{{{name}}}`; add it")
    for opening, closing in ("()", "[]", "{}"):
        if template.count(opening) != template.count(closing):
            yield scope.mistake(path, f"`{opening}` and `{closing}` do not pair up; close what is open")
