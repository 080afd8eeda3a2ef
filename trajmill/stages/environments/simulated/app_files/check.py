"""Find every mistake in app and errand files, by line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import networkx as nx

from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.app_files import app_spec
from trajmill.stages.environments.simulated.app_files.app_spec import AnyWidget, AppSpec, Effect, Scalar
from trajmill.stages.environments.simulated.app_files.check_task import TaskScope, check_task, one_of
from trajmill.stages.environments.simulated.app_files.loader import (
    AppFile,
    ErrandFile,
    Mistake,
    NodePath,
    YamlFile,
    read_spec,
    read_yaml,
)
from trajmill.stages.environments.simulated.app_files.references import BACK, fields_in, names_in

_SIMULATED = Path(__file__).parents[1]
_ID = re.compile(r"[a-z][a-z0-9_]*")
_MOST_STEPS = 1000
_COLOR = re.compile(r"#[0-9A-Fa-f]{6}")


class ReadFiles(NamedTuple):
    apps: tuple[AppFile, ...]
    errands: tuple[ErrandFile, ...]
    mistakes: tuple[Mistake, ...]


def builtin_files() -> tuple[Path, ...]:
    return (*sorted((_SIMULATED / "apps").glob("*.yaml")), *sorted((_SIMULATED / "errands").glob("*.yaml")))


def read_with_builtin(paths: Sequence[Path]) -> ReadFiles:
    own = {path.resolve() for path in paths}
    named = {str(path) for path in paths}
    found = read_files([*(path for path in builtin_files() if path.resolve() not in own), *paths])
    return found._replace(mistakes=tuple(mistake for mistake in found.mistakes if mistake.file in named))


def read_files(paths: Sequence[Path]) -> ReadFiles:
    apps: list[AppFile] = []
    errands: list[ErrandFile] = []
    mistakes: list[Mistake] = []
    for path in paths:
        source = read_yaml(path)
        if isinstance(source, Mistake):
            mistakes.append(source)
            continue
        found = read_spec(source)
        mistakes.extend(found.mistakes)
        if isinstance(found.file, AppFile):
            apps.append(found.file)
        elif found.file is not None:
            errands.append(found.file)
    for index, file in enumerate(apps):
        mistakes.extend(_check_unique(file, apps[:index]))
        mistakes.extend(_AppCheck(file.source, file.spec).mistakes())
        for name, task in file.spec.tasks.items():
            scope = TaskScope(file.source, name, task, {file.spec.app: file.spec}, file.spec.app)
            mistakes.extend(check_task(scope))
    mistakes.extend(_check_errands(errands, {file.spec.app: file.spec for file in apps}))
    return ReadFiles(tuple(apps), tuple(errands), tuple(mistakes))


def _check_unique(file: AppFile, before: Sequence[AppFile]) -> Iterator[Mistake]:
    for other in before:
        if other.spec.app == file.spec.app:
            text = f"the app `{file.spec.app}` is already defined in {other.source.file}; choose another id"
            yield file.source.mistake(("app",), text)
            return
        if other.spec.name == file.spec.name and other.spec.platform == file.spec.platform:
            text = f"the name `{file.spec.name}` is already used in {other.source.file}; choose another"
            yield file.source.mistake(("name",), text)
            return


def _check_errands(errands: Sequence[ErrandFile], apps: dict[str, AppSpec]) -> Iterator[Mistake]:
    for index, (source, errand) in enumerate(errands):
        same = next((other for other in errands[:index] if other.spec.errand == errand.errand), None)
        if same is not None:
            text = f"the errand `{errand.errand}` is already defined in {same.source.file}; choose another id"
            yield source.mistake(("errand",), text)
        unknown = [name for name in errand.apps if name not in apps]
        for name in unknown:
            yield source.mistake(("apps",), f"unknown app `{name}`; use one of {', '.join(sorted(apps))}")
        if unknown:
            continue
        used = {name: apps[name] for name in errand.apps}
        if len({app.platform for app in used.values()}) != 1:
            yield source.mistake(("apps",), "the apps are not all for one platform; leave out those of the other")
        for name, task in errand.tasks.items():
            yield from check_task(TaskScope(source, name, task, used, ""))


class _AppCheck:
    def __init__(self, source: YamlFile, app: AppSpec) -> None:
        self._mistake = source.mistake
        self._app = app
        self._start = app.start_values()
        self._lists = app.all_lists()

    def mistakes(self) -> Iterator[Mistake]:
        app = self._app
        yield from self._names()
        yield from self._items()
        if app.first not in app.screens:
            yield self._mistake(("first",), f"unknown screen `{app.first}`; {one_of(app.screens)}")
        for name, screen in app.screens.items():
            path: NodePath = ("screens", name)
            yield from self._unknown_names((*path, "title"), (screen.title,))
            yield from self._ids(path, screen)
            for index, widget in enumerate(screen.widgets):
                yield from self._widget((*path, "widgets", index), widget)
        yield from self._unreachable()

    def _names(self) -> Iterator[Mistake]:
        app = self._app
        for key, found in (("app", app.app), *(("screens", name) for name in app.screens)):
            path = (key,) if key == "app" else (key, found)
            if not _ID.fullmatch(found) or found in (BACK, "launcher", "popup", "loading"):
                text = f"`{found}` cannot be a name here; use small letters, digits and _ (not `back`)"
                yield self._mistake(path, text)
        if app.platform is Platform.WEB:
            yield self._mistake(("platform",), "an app is for the `phone` or the `desktop`; choose one")
        if not _COLOR.fullmatch(app.color):
            yield self._mistake(("color",), f'`{app.color}` is no colour; write it as "#RRGGBB"')
        if not 1 <= len(app.symbol) <= 2:
            yield self._mistake(("symbol",), "the symbol is drawn on the icon; use one or two letters")
        for name, count in Counter(chain(app.variables, app.lists, app.state)).items():
            if count > 1:
                at = ("state", name) if name in app.state else ("lists", name)
                yield self._mistake(at, f"the name `{name}` is used twice; rename one")
        for name in app.ordered:
            if name not in app.lists:
                yield self._mistake(("ordered",), f"unknown list `{name}`; {one_of(app.lists)}")

    def _items(self) -> Iterator[Mistake]:
        for key, lists in (("lists", self._app.lists), ("state", self._app.state_lists())):
            for name, items in lists.items():
                seen: set[Scalar] = set()
                for index, item in enumerate(items):
                    if "name" not in item:
                        yield self._mistake((key, name, index), "an item needs a `name`; add one")
                    elif item["name"] in seen:
                        text = f"the name `{item['name']}` is twice in `{name}`; rename one"
                        yield self._mistake((key, name, index), text)
                    else:
                        seen.add(item["name"])

    def _ids(self, screen_path: NodePath, screen: app_spec.ScreenSpec) -> Iterator[Mistake]:
        placed: list[tuple[NodePath, AnyWidget]] = []
        for index, widget in enumerate(screen.widgets):
            path = (*screen_path, "widgets", index)
            placed.append((path, widget))
            if isinstance(widget, app_spec.Menu):
                placed += [((*path, "items", below), item) for below, item in enumerate(widget.items)]
        seen = set()
        for path, widget in placed:
            if not widget.id and not isinstance(widget, app_spec.Text):
                yield self._mistake(path, f"a widget of kind `{widget.kind}` has no `id`; add one")
            elif widget.id and not _ID.fullmatch(widget.id):
                yield self._mistake(path, f"`{widget.id}` cannot be an id; use small letters, digits and _")
            elif widget.id in seen:
                yield self._mistake((*path, "id"), f"another widget of the screen has the id `{widget.id}`; rename one")
            elif widget.id:
                seen.add(widget.id)
        buttons = [widget.id for _, widget in placed if isinstance(widget, app_spec.Button)]
        for path, widget in placed:
            if isinstance(widget, app_spec.Input) and widget.enter not in ("", *buttons):
                yield self._mistake((*path, "enter"), f"unknown button `{widget.enter}`; {one_of(buttons)}")

    def _widget(self, path: NodePath, widget: AnyWidget) -> Iterator[Mistake]:
        yield from self._unknown_values(path, widget.show_if)
        for to in widget.leads_to:
            if to not in (BACK, *self._app.screens):
                key = "to" if to == getattr(widget, "to", "") else "hold"
                yield self._mistake((*path, key), f"unknown screen `{to}`; {one_of(self._app.screens)}")
        match widget:
            case app_spec.Text():
                yield from self._unknown_names(path, (widget.text,))
            case app_spec.Button():
                yield from self._unknown_names(path, (widget.text,))
                yield from self._unknown_values((*path, "needs"), widget.needs)
                yield from self._effects(path, widget.do, None)
            case app_spec.ItemList() if widget.items not in self._lists:
                yield self._mistake((*path, "items"), f"unknown list `{widget.items}`; {one_of(self._lists)}")
            case app_spec.ItemList():
                yield from self._unknown_values(path, [name for name in (widget.variable, widget.search) if name])
                yield from self._unknown_names(path, (widget.text, widget.note, *widget.where.values()))
                wanted = {*fields_in(widget.text), *fields_in(widget.note), *widget.where}
                items = self._lists[widget.items]
                for item in items:
                    for field in sorted(wanted - item.keys()):
                        text = f"the item `{item.get('name', '')}` has no field `{field}`; add it to the item"
                        yield self._mistake(path, text)
                yield from self._effects(path, widget.do, set(items[0]) if items else None)
            case app_spec.Menu():
                if self._app.platform is not Platform.DESKTOP:
                    yield self._mistake(path, "menus are for desktop programs; use buttons")
                for index, button in enumerate(widget.items):
                    yield from self._widget((*path, "items", index), button)
            case _ if widget.variable not in self._start:
                yield from self._unknown_values((*path, "variable"), (widget.variable,))
            case app_spec.Stepper() if widget.maximum - widget.minimum > _MOST_STEPS:
                yield self._mistake(path, f"a stepper has at most {_MOST_STEPS} steps; move its limits together")
            case _:
                text = _control_mistake(widget, self._start[widget.variable])
                if text:
                    yield self._mistake((*path, "variable"), text)

    def _effects(self, path: NodePath, effects: tuple[Effect, ...], fields: set[str] | None) -> Iterator[Mistake]:
        for index, effect in enumerate(effects):
            at: NodePath = (*path, "do", index)
            used: tuple[Scalar, ...] = ()
            changed: Iterable[str] = ()
            match effect:
                case app_spec.SetEffect():
                    used = tuple(effect.set.values())
                case app_spec.AppendEffect():
                    used = tuple(value for record in effect.append.values() for value in record.values())
                    changed = effect.append
                case app_spec.UpdateEffect():
                    used, changed = (effect.name, *effect.fields.values()), (effect.update,)
                case app_spec.RemoveEffect():
                    used, changed = (effect.name,), (effect.remove,)
            yield from self._unknown_names(at, used)
            for field in sorted({field for value in used for field in fields_in(value)}):
                if fields is not None and field not in fields:
                    yield self._mistake(at, f"no item has the field `{field}`; {one_of(fields)}")
            if isinstance(effect, app_spec.SetEffect):
                yield from self._unknown_values(at, effect.set)
                for name, value in effect.set.items():
                    bound = any(names_in(value)) or any(fields_in(value))
                    if name in self._start and not bound and type(value) is not type(self._start[name]):
                        yield self._mistake(at, f"`{name}` starts as `{self._start[name]}`; it cannot become `{value}`")
            elif isinstance(effect, app_spec.ResetEffect):
                yield from self._unknown_values(at, effect.reset)
            for name in changed:
                if name not in self._app.state_lists():
                    text = f"unknown list of the state `{name}`; {one_of(self._app.state_lists())}"
                    yield self._mistake(at, text)

    def _unreachable(self) -> Iterator[Mistake]:
        screens, first = self._app.screens, self._app.first
        widgets = ((name, widget) for name, screen in screens.items() for widget in screen.all_widgets())
        ways = nx.DiGraph((name, to) for name, widget in widgets for to in widget.leads_to)
        ways.add_node(first)
        for name in screens.keys() - nx.descendants(ways, first) - {first}:
            text = f"no widget leads to the screen `{name}`; add one or remove the screen"
            yield self._mistake(("screens", name), text)

    def _unknown_names(self, path: NodePath, texts: Iterable[Scalar]) -> Iterator[Mistake]:
        yield from self._unknown_values(path, sorted({name for text in texts for name in names_in(text)}))

    def _unknown_values(self, path: NodePath, names: Iterable[str]) -> Iterator[Mistake]:
        for name in names:
            if name not in self._start:
                yield self._mistake(path, f"unknown variable `{name}`; {one_of(self._start)}")


def _control_mistake(
    widget: app_spec.Choice | app_spec.Toggle | app_spec.Stepper | app_spec.Input, start: Scalar
) -> str:
    starts = f"`{widget.variable}` starts as `{start}`"
    match widget:
        case app_spec.Toggle() if not isinstance(start, bool):
            return f"{starts}; a {widget.kind} needs true or false"
        case app_spec.Stepper() if isinstance(start, bool) or not isinstance(start, int):
            return f"{starts}; a stepper needs a whole number"
        case app_spec.Stepper() if not widget.minimum <= int(start) <= widget.maximum:
            return f"`{widget.variable}` starts at {start}, outside the stepper; move its limits"
        case app_spec.Input() if not isinstance(start, str):
            return f"{starts}; an input needs text"
        case app_spec.Choice() if start not in widget.options and (start != "" or widget.kind == "slider"):
            return f"{starts}, which is no option; add it or change it"
        case _:
            return ""
