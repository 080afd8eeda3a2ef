"""Finds every mistake in app and errand files, by line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.app_files.app_spec import (
    AnyWidget,
    AppendEffect,
    AppSpec,
    Button,
    Choice,
    Effect,
    Input,
    ItemList,
    Menu,
    RemoveEffect,
    ResetEffect,
    Scalar,
    ScreenSpec,
    SetEffect,
    Stepper,
    Text,
    Toggle,
    UpdateEffect,
)
from trajmill.stages.environments.simulated.app_files.check_task import TaskScope, check_task
from trajmill.stages.environments.simulated.app_files.loader import (
    AppFile,
    ErrandFile,
    Mistake,
    NodePath,
    YamlFile,
    read_spec,
    read_yaml,
)
from trajmill.stages.environments.simulated.app_files.references import (
    BACK,
    all_lists,
    fields_in,
    names_in,
    start_values,
    state_lists,
    target_of,
    widgets_of,
)

_SIMULATED = Path(__file__).parents[1]
_ID = re.compile(r"[a-z][a-z0-9_]*")
_MOST_STEPS = 1000
_COLOR = re.compile(r"#[0-9A-Fa-f]{6}")


class ReadFiles(NamedTuple):
    """The files that could be read, and all mistakes."""

    apps: tuple[AppFile, ...]
    errands: tuple[ErrandFile, ...]
    mistakes: tuple[Mistake, ...]


def builtin_files() -> tuple[Path, ...]:
    """The app and errand files of the package, in order of their names."""
    return (*sorted((_SIMULATED / "apps").glob("*.yaml")), *sorted((_SIMULATED / "errands").glob("*.yaml")))


def check_files(paths: Sequence[Path]) -> list[Mistake]:
    """The mistakes in these files, which are read together with the built-in ones."""
    return list(read_with_builtin(paths).mistakes)


def read_with_builtin(paths: Sequence[Path]) -> ReadFiles:
    """Read and check these files together with the built-in ones; the mistakes are those of these files."""
    own = {path.resolve() for path in paths}
    others = [path for path in builtin_files() if path.resolve() not in own]
    named = {str(path) for path in paths}
    found = read_files((*others, *paths))
    return found._replace(mistakes=tuple(mistake for mistake in found.mistakes if mistake.file in named))


def read_files(paths: Sequence[Path]) -> ReadFiles:
    """Read and check the files of one world."""
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
    mistakes.extend(_check_apps(apps))
    mistakes.extend(_check_errands(errands, {file.spec.app: file.spec for file in apps}))
    return ReadFiles(tuple(apps), tuple(errands), tuple(mistakes))


def _check_apps(apps: Sequence[AppFile]) -> Iterator[Mistake]:
    for index, file in enumerate(apps):
        yield from _check_unique(file, apps[:index])
        yield from check_app(file)
        for name, task in file.spec.tasks.items():
            yield from check_task(TaskScope(file.source, name, task, {file.spec.app: file.spec}, file.spec.app))


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
    for index, file in enumerate(errands):
        for other in errands[:index]:
            if other.spec.errand == file.spec.errand:
                text = f"the errand `{file.spec.errand}` is already defined in {other.source.file}; choose another id"
                yield file.source.mistake(("errand",), text)
                break
        unknown = [name for name in file.spec.apps if name not in apps]
        for name in unknown:
            yield file.source.mistake(("apps",), f"unknown app `{name}`; use one of {', '.join(sorted(apps))}")
        if unknown:
            continue
        used = {name: apps[name] for name in file.spec.apps}
        if len({app.platform for app in used.values()}) != 1:
            yield file.source.mistake(("apps",), "the apps are not all for one platform; leave out those of the other")
        for name, task in file.spec.tasks.items():
            yield from check_task(TaskScope(file.source, name, task, used, ""))


def check_app(file: AppFile) -> Iterator[Mistake]:
    """All mistakes of an app file, except those of its tasks."""
    source, app = file
    yield from _check_names(source, app)
    yield from _check_lists(source, app)
    if app.first not in app.screens:
        yield source.mistake(("first",), f"unknown screen `{app.first}`; {_one_of(app.screens)}")
    for name, screen in app.screens.items():
        path: NodePath = ("screens", name)
        yield from _unknown_names(source, app, (*path, "title"), (screen.title,))
        yield from _check_ids(source, tuple(_placed(screen, path)))
        for index, widget in enumerate(screen.widgets):
            yield from _check_widget(source, app, (*path, "widgets", index), widget)
    yield from _check_reachable(source, app)


def _check_names(source: YamlFile, app: AppSpec) -> Iterator[Mistake]:
    for key, found in (("app", app.app), *(("screens", name) for name in app.screens)):
        path = (key,) if key == "app" else (key, found)
        if not _ID.fullmatch(found) or found in (BACK, "launcher", "popup", "loading"):
            yield source.mistake(path, f"`{found}` cannot be a name here; use small letters, digits and _ (not `back`)")
    if app.platform is Platform.WEB:
        yield source.mistake(("platform",), "an app is for the `phone` or the `desktop`; choose one")
    if not _COLOR.fullmatch(app.color):
        yield source.mistake(("color",), f'`{app.color}` is no colour; write it as "#RRGGBB"')
    if not 1 <= len(app.symbol) <= 2:
        yield source.mistake(("symbol",), "the symbol is drawn on the icon; use one or two letters")
    for name, count in Counter(chain(app.variables, app.lists, app.state)).items():
        if count > 1:
            at = ("state", name) if name in app.state else ("lists", name)
            yield source.mistake(at, f"the name `{name}` is used twice; rename one")
    for name in app.ordered:
        if name not in app.lists:
            yield source.mistake(("ordered",), f"unknown list `{name}`; {_one_of(app.lists)}")


def _check_lists(source: YamlFile, app: AppSpec) -> Iterator[Mistake]:
    for key, lists in (("lists", app.lists), ("state", state_lists(app))):
        for name, items in lists.items():
            seen: set[Scalar] = set()
            for index, item in enumerate(items):
                if "name" not in item:
                    yield source.mistake((key, name, index), "an item needs a `name`; add one")
                elif item["name"] in seen:
                    yield source.mistake(
                        (key, name, index), f"the name `{item['name']}` is twice in `{name}`; rename one"
                    )
                else:
                    seen.add(item["name"])


def _placed(screen: ScreenSpec, path: NodePath) -> Iterator[tuple[NodePath, AnyWidget]]:
    for index, widget in enumerate(screen.widgets):
        yield (*path, "widgets", index), widget
        for below, item in enumerate(widget.items if isinstance(widget, Menu) else ()):
            yield (*path, "widgets", index, "items", below), item


def _check_ids(source: YamlFile, widgets: tuple[tuple[NodePath, AnyWidget], ...]) -> Iterator[Mistake]:
    seen = set()
    for path, widget in widgets:
        if not widget.id and not isinstance(widget, Text):
            yield source.mistake(path, f"a widget of kind `{widget.kind}` has no `id`; add one")
        elif widget.id and not _ID.fullmatch(widget.id):
            yield source.mistake(path, f"`{widget.id}` cannot be an id; use small letters, digits and _")
        elif widget.id in seen:
            yield source.mistake((*path, "id"), f"another widget of the screen has the id `{widget.id}`; rename one")
        elif widget.id:
            seen.add(widget.id)


def _check_widget(source: YamlFile, app: AppSpec, path: NodePath, widget: AnyWidget) -> Iterator[Mistake]:
    yield from _unknown_values(source, app, path, widget.show_if)
    if target_of(widget) not in ("", BACK, *app.screens):
        yield source.mistake((*path, "to"), f"unknown screen `{target_of(widget)}`; {_one_of(app.screens)}")
    match widget:
        case Text():
            yield from _unknown_names(source, app, path, (widget.text,))
        case Button():
            yield from _unknown_names(source, app, path, (widget.text,))
            yield from _unknown_values(source, app, (*path, "needs"), widget.needs)
            yield from _check_effects(source, app, path, widget.do, None)
        case ItemList():
            yield from _check_item_list(source, app, path, widget)
        case Menu():
            if app.platform is not Platform.DESKTOP:
                yield source.mistake(path, "menus are for desktop programs; use buttons")
            for index, item in enumerate(widget.items):
                yield from _check_widget(source, app, (*path, "items", index), item)
        case _:
            yield from _check_control(source, app, path, widget)


def _check_control(
    source: YamlFile, app: AppSpec, path: NodePath, widget: Choice | Toggle | Stepper | Input
) -> Iterator[Mistake]:
    values = start_values(app)
    if widget.variable not in values:
        yield from _unknown_values(source, app, (*path, "variable"), (widget.variable,))
        return
    start = values[widget.variable]
    at = (*path, "variable")
    match widget:
        case Toggle() if not isinstance(start, bool):
            yield source.mistake(at, f"`{widget.variable}` starts as `{start}`; a {widget.kind} needs true or false")
        case Stepper() if isinstance(start, bool) or not isinstance(start, int):
            yield source.mistake(at, f"`{widget.variable}` starts as `{start}`; a stepper needs a whole number")
        case Stepper() if widget.maximum - widget.minimum > _MOST_STEPS:
            yield source.mistake(path, f"a stepper has at most {_MOST_STEPS} steps; move its limits together")
        case Stepper() if not widget.minimum <= int(start) <= widget.maximum:
            yield source.mistake(at, f"`{widget.variable}` starts at {start}, outside the stepper; move its limits")
        case Input() if not isinstance(start, str):
            yield source.mistake(at, f"`{widget.variable}` starts as `{start}`; an input needs text")
        case Choice() if start not in ("", *widget.options):
            yield source.mistake(
                at, f"`{widget.variable}` starts as `{start}`, which is no option; add it or change it"
            )
        case _:
            return


def _check_item_list(source: YamlFile, app: AppSpec, path: NodePath, widget: ItemList) -> Iterator[Mistake]:
    lists = all_lists(app)
    if widget.items not in lists:
        yield source.mistake((*path, "items"), f"unknown list `{widget.items}`; {_one_of(lists)}")
        return
    yield from _unknown_values(source, app, path, [name for name in (widget.variable, widget.search) if name])
    yield from _unknown_names(source, app, path, (widget.text, widget.note, *widget.where.values()))
    wanted = {*fields_in(widget.text), *fields_in(widget.note), *widget.where}
    items = lists[widget.items]
    for item in items:
        for field in sorted(wanted - item.keys()):
            yield source.mistake(path, f"the item `{item.get('name', '')}` has no field `{field}`; add it to the item")
    yield from _check_effects(source, app, path, widget.do, set(items[0]) if items else None)


def _check_effects(
    source: YamlFile, app: AppSpec, path: NodePath, effects: tuple[Effect, ...], fields: set[str] | None
) -> Iterator[Mistake]:
    for index, effect in enumerate(effects):
        at: NodePath = (*path, "do", index)
        used = _values_used(effect)
        yield from _unknown_names(source, app, at, used)
        for field in sorted({field for value in used for field in fields_in(value)}):
            if fields is not None and field not in fields:
                yield source.mistake(at, f"no item has the field `{field}`; {_one_of(fields)}")
        match effect:
            case SetEffect():
                yield from _unknown_values(source, app, at, effect.set)
                yield from _check_types(source, app, at, effect)
            case ResetEffect():
                yield from _unknown_values(source, app, at, effect.reset)
            case AppendEffect():
                yield from _unknown_lists(source, app, at, effect.append)
            case UpdateEffect():
                yield from _unknown_lists(source, app, at, (effect.update,))
            case RemoveEffect():
                yield from _unknown_lists(source, app, at, (effect.remove,))


def _values_used(effect: Effect) -> tuple[Scalar, ...]:
    match effect:
        case SetEffect():
            return tuple(effect.set.values())
        case AppendEffect():
            return tuple(value for record in effect.append.values() for value in record.values())
        case UpdateEffect():
            return (effect.name, *effect.fields.values())
        case RemoveEffect():
            return (effect.name,)
        case ResetEffect():
            return ()


def _check_types(source: YamlFile, app: AppSpec, path: NodePath, effect: SetEffect) -> Iterator[Mistake]:
    values = start_values(app)
    for name, value in effect.set.items():
        is_bound = any(names_in(value)) or any(fields_in(value))
        if name in values and not is_bound and type(value) is not type(values[name]):
            yield source.mistake(path, f"`{name}` starts as `{values[name]}`; it cannot become `{value}`")


def _check_reachable(source: YamlFile, app: AppSpec) -> Iterator[Mistake]:
    found, todo = {app.first}, [app.first]
    while todo:
        screen = app.screens.get(todo.pop())
        for target in (target_of(widget) for widget in widgets_of(screen)) if screen else ():
            if target not in found:
                found.add(target)
                todo.append(target)
    for name in app.screens.keys() - found:
        yield source.mistake(("screens", name), f"no widget leads to the screen `{name}`; add one or remove the screen")


def _unknown_names(source: YamlFile, app: AppSpec, path: NodePath, texts: Iterable[Scalar]) -> Iterator[Mistake]:
    yield from _unknown_values(source, app, path, sorted({name for text in texts for name in names_in(text)}))


def _unknown_values(source: YamlFile, app: AppSpec, path: NodePath, names: Iterable[str]) -> Iterator[Mistake]:
    known = start_values(app)
    for name in names:
        if name not in known:
            yield source.mistake(path, f"unknown variable `{name}`; {_one_of(known)}")


def _unknown_lists(source: YamlFile, app: AppSpec, path: NodePath, names: Iterable[str]) -> Iterator[Mistake]:
    known = state_lists(app)
    for name in names:
        if name not in known:
            yield source.mistake(path, f"unknown list of the state `{name}`; {_one_of(known)}")


def _one_of(names: Iterable[str]) -> str:
    known = sorted(names)
    return f"use one of {', '.join(known)}" if known else "there is none yet, add one"
