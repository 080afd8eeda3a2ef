"""Finds every mistake in app and errand files, by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec
from trajmill.stages.environments.simulated.app_files.check_app import check_app
from trajmill.stages.environments.simulated.app_files.check_task import TaskScope, check_task
from trajmill.stages.environments.simulated.app_files.loader import AppFile, ErrandFile, read_spec
from trajmill.stages.environments.simulated.app_files.yaml_file import Mistake, read_yaml

_SIMULATED = Path(__file__).parents[1]


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
