"""The process that runs `desktop-env`: one JSON request a line on stdin, one JSON answer a line on stdout.

The interpreter of OSWorld's environment runs this file as a script. It has none of our packages, so only the standard
library is imported at the top; the client imports the same records from here.

A task file is untrusted. Its commands go to the machine's server; what would run, read or write elsewhere on this
computer is a reason against the task, or is replaced (`_disarm`).
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import logging
import os
import re
import shutil
import sys
import tarfile
import textwrap
import types
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

Task = dict[str, Any]


@dataclass(frozen=True)
class Machine:
    """Where the server of a machine listens, and what tasks have to know of the machine."""

    host: str = "127.0.0.1"
    port: int = 5000
    chromium_port: int = 9222
    vlc_port: int = 8080
    password: str = "password"
    """Password of the machine's user, for `{CLIENT_PASSWORD}`."""
    width: int = 1920
    height: int = 1080


@dataclass(frozen=True)
class Request:
    do: Literal["check", "setup", "evaluate", "restore"]
    task: Task = dataclasses.field(default_factory=dict)
    machine: Machine = Machine()
    files: str = ""
    """Folder of the task's local files."""
    mirror: str = ""
    """Folder with copies of downloads, at HOST/PATH; empty to download."""
    proxy: bool = False
    gave_up: bool = False
    """The agent ended with failure: right for an infeasible task, wrong for all others."""
    snapshot: tuple[str, str, str] = ("", "", "")
    """Provider, VM and snapshot to restore."""


@dataclass(frozen=True)
class Answer:
    error: str = ""
    reasons: tuple[str, ...] = ()
    """What the task lacks."""
    score: float = 0.0
    address: str = ""
    """Address of the restored machine, as the provider writes it."""


_OPTIONAL = ("easyocr", "pydrive")
"""Packages that few metrics need and that are large: imported if installed."""
STOOD_IN: set[str] = set()
_STOOD_IN_NAMES = ("GoogleAuth", "GoogleDrive", "GoogleDriveFile", "GoogleDriveFileList", "Reader")
_ACCOUNTS = {"googledrive", "login", "googledrive_file"}
_NEED_EASYOCR = {"compare_image_text"}
_RUN_CODE = {"check_python_file_by_test_suite"}
"""Metrics that import Python files of the machine on this computer."""
_UNFINISHED = {"act", "replay", "tidy_desktop", "proxy"}
_FILLED_IN = ("execute", "command")
_PLACEHOLDER = re.compile(r"\{(CLIENT_PASSWORD|SCREEN_(?:WIDTH|HEIGHT)(?:_HALF)?)\}")
_CONDITIONAL = (ast.If, ast.IfExp, ast.Try, ast.For, ast.FunctionDef)
_KEYS = {"vm_file": ("path", "dest"), "cloud_file": ("path", "dest")}
"""Required keys that the code reads under a condition which never lacks them."""


def reasons(request: Request) -> Iterator[str]:
    """Yield what makes a task incomplete, as far as no machine is needed to know."""
    task = request.task
    steps, evaluator = task.get("config", []), task.get("evaluator")
    if not isinstance(task.get("instruction"), str) or not isinstance(steps, list) or not isinstance(evaluator, dict):
        yield "no OSWorld task: it needs `instruction` (a text), `config` (a list) and `evaluator` (a table)"
        return
    if task.get("proxy") and not request.proxy:
        yield "needs a proxy; name a file of proxies (`proxy_file`)"
    for part, listed in (("config", steps), ("postconfig", evaluator.get("postconfig", []))):
        for number, step in enumerate(listed, 1):
            for reason in _step_reasons(step):
                yield f"{part} {number}: {reason}"
    if evaluator.get("func") != "infeasible":
        yield from _evaluator_reasons(evaluator)
    yield from _file_reasons(request)


def _step_reasons(step: Any) -> Iterator[str]:
    from desktop_env.controllers.setup import SetupController

    kind, parameters = step.get("type"), step.get("parameters")
    method = getattr(SetupController, f"_{kind}_setup", None)
    if method is None or kind in _UNFINISHED:
        yield f"desktop-env has no setup step {kind!r}"
        return
    if kind in _ACCOUNTS:
        yield f"{kind}: needs a Google account"
    if problem := _call_problem(method, (None,), parameters):
        yield f"{kind}: {problem}"
    for key in ("stdout", "stderr"):
        if not _is_plain(parameters.get(key, "")):
            yield f"{kind}: {key} {parameters[key]!r} is not a plain file name"
    if kind not in _FILLED_IN and (found := _PLACEHOLDER.search(json.dumps(parameters))):
        yield f"{kind}: {found[0]} is filled in only in {' and '.join(_FILLED_IN)}"


def _evaluator_reasons(evaluator: Task) -> Iterator[str]:
    from desktop_env.evaluators import getters, metrics

    names = _listed(evaluator.get("func"))
    results = _listed(evaluator.get("result"))
    expected = _listed(evaluator.get("expected")) or [None] * len(names)
    options = _listed(evaluator.get("options")) or [{}] * len(names)
    if not names or not len(names) == len(results) == len(expected) == len(options):
        yield "evaluator: func, result, expected and options differ in length"
        return
    for name, result, wanted, chosen in zip(names, results, expected, options, strict=True):
        metric = _function(metrics, name)
        if metric is None:
            yield f"desktop-env has no metric {name!r}"
        elif problem := _call_problem(metric, (None,) * (2 if evaluator.get("expected") else 1), chosen or {}):
            yield f"metric {name}: {problem}"
        if name in _RUN_CODE:
            yield f"metric {name} would run Python files of the machine on this computer"
        if name in _NEED_EASYOCR and "easyocr" in STOOD_IN:
            yield f"metric {name} needs the package easyocr in OSWorld's environment"
        if name == "run_sqlite3" and not str((wanted or {}).get("rules", {}).get("sql", "")).lower().startswith(
            "select"
        ):
            yield f"metric {name} takes one SELECT"
        if evaluator.get("expected") and not wanted:
            yield f"metric {name} has no `expected`, which desktop-env asks of all metrics if it asks it of one"
        for getter in (result, wanted):
            if getter:
                yield from _getter_reasons(getters, getter)


def _getter_reasons(getters: types.ModuleType, config: Task) -> Iterator[str]:
    kind = config.get("type")
    getter = _function(getters, f"get_{kind}")
    if getter is None:
        yield f"desktop-env has no getter {kind!r}"
        return
    if kind in _ACCOUNTS:
        yield f"getter {kind} needs a Google account"
    for key in (*_KEYS.get(str(kind), ()), *_required_keys(getter)):
        if key not in config:
            yield f"getter {kind} lacks {key!r}"
    for key in ("dest", "path") if kind == "cache_file" else ("dest",):
        if not all(map(_is_plain, _listed(config.get(key)))):
            yield f"getter {kind}: {key} {config[key]!r} is not a plain file name"


def _file_reasons(request: Request) -> Iterator[str]:
    if request.mirror:
        missing = [url for url, _ in _downloads(request.task) if _mirrored(request.mirror, url) is None]
        if missing:
            yield f"the mirror lacks {len(missing)} of its files: {missing[0]}"
    for url, _ in _downloads(request.task):
        if urlsplit(url).scheme not in ("http", "https"):
            yield f"downloads {url!r}, which is no http address"
    for step in _steps(request.task):
        for file in step.get("parameters", {}).get("files", ()) if step.get("type") == "upload_file" else ():
            if _within(request.files, str(file.get("local_path"))) is None:
                yield f"its file {file.get('local_path')!r} is not in {request.files}"


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _steps(task: Task) -> list[Any]:
    return [*task.get("config", []), *task.get("evaluator", {}).get("postconfig", [])]


def _function(module: types.ModuleType, name: str) -> Callable[..., Any] | None:
    """Return a function of desktop-env, never something else that its module happens to import."""
    found = getattr(module, name, None) if isinstance(name, str) and not name.startswith("_") else None
    is_own = inspect.isfunction(found) and str(found.__module__).startswith("desktop_env.")
    return found if is_own else None


def _call_problem(function: Callable[..., Any], given: tuple[Any, ...], named: Any) -> str:
    try:
        inspect.signature(function).bind(*given, **named)
    except TypeError as error:
        return str(error)
    return ""


def _required_keys(getter: Callable[..., Any]) -> list[str]:
    """Return the keys that a getter reads unconditionally: `config["key"]` outside of branches and loops."""
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(getter))).body
    assert isinstance(function, ast.FunctionDef)
    # Some take no config.
    config, keys, left = [each.arg for each in function.args.args[1:2]], list[str](), list[ast.AST](function.body)
    while left:
        node = left.pop()
        if isinstance(node, _CONDITIONAL):
            continue
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) if name in config:
                keys.append(key)
        left += ast.iter_child_nodes(node)
    return keys


def _is_plain(name: Any) -> bool:
    return isinstance(name, str) and "/" not in name and "\\" not in name and name != ".."


def _within(folder: str, name: str) -> Path | None:
    found = (Path(folder) / name).resolve()
    return found if found.is_file() and found.is_relative_to(Path(folder).resolve()) else None


def _mirrored(mirror: str, url: str) -> Path | None:
    parts = urlsplit(url)
    name = Path(parts.netloc) / unquote(parts.path).lstrip("/")
    # Its links may lead elsewhere, unlike those of a task's folder: the mirror is the user's.
    found = Path(mirror) / name
    return found if ".." not in name.parts and found.is_file() else None


def _downloads(task: Task) -> Iterator[tuple[str, str]]:
    """Yield each address that a task downloads, and the name under which desktop-env looks for a copy first."""
    for step in _steps(task):
        for file in step.get("parameters", {}).get("files", ()) if step.get("type") == "download" else ():
            name = Path(str(file.get("path"))).name
            yield str(file.get("url")), f"{uuid.uuid5(uuid.NAMESPACE_URL, str(file.get('url')))}_{name}"
    evaluator = task.get("evaluator", {})
    for getter in (*_listed(evaluator.get("result")), *_listed(evaluator.get("expected"))):
        if getter and getter.get("type") == "cloud_file":
            yield from zip(_listed(getter.get("path")), _listed(getter.get("dest")), strict=False)


def prepare(request: Request) -> None:
    """Take the steps of a task on a fresh machine; raises RuntimeError for a step that failed."""
    shutil.rmtree("task", ignore_errors=True)
    desktop, task = _opened(request), request.task
    for url, name in _downloads(task) if request.mirror else ():
        if (copy := _mirrored(request.mirror, url)) is not None:
            shutil.copyfile(copy, Path("task") / name)
    use_proxy = bool(task.get("proxy")) and request.proxy
    if use_proxy:
        desktop.setup_controller._proxy_setup(request.machine.password)  # noqa: SLF001
    failed = _Errors()
    logger = logging.getLogger("desktopenv.setup")
    logger.addHandler(failed)
    try:
        if not desktop.setup_controller.setup(desktop.config, use_proxy):
            raise RuntimeError("the machine cannot be reached")
    finally:
        logger.removeHandler(failed)
    # desktop-env only logs the failure of most steps.
    if failed.messages:
        raise RuntimeError(failed.messages[0])


def evaluate(request: Request) -> float:
    desktop = _opened(request)
    desktop.action_history.append("FAIL" if request.gave_up else "DONE")
    return float(desktop.evaluate())


def restore(request: Request) -> str:
    from desktop_env.providers import create_vm_manager_and_provider

    name, machine, snapshot = request.snapshot
    _, provider = create_vm_manager_and_provider(name, os.environ.get("AWS_REGION", ""))
    restored = provider.revert_to_snapshot(machine, snapshot) or machine
    provider.start_emulator(restored, True, "Ubuntu")
    return str(provider.get_ip_address(restored))


def _opened(request: Request) -> Any:
    """Return desktop-env's environment of a task, at a machine that runs: without a provider."""
    from desktop_env.controllers.python import PythonController
    from desktop_env.controllers.setup import SetupController
    from desktop_env.desktop_env import DesktopEnv

    machine, desktop = request.machine, object.__new__(DesktopEnv)
    desktop.vm_ip, desktop.server_port = machine.host, machine.port
    desktop.chromium_port, desktop.vlc_port = machine.chromium_port, machine.vlc_port
    desktop.cache_dir_base, desktop.action_history = str(Path.cwd()), []
    desktop.enable_proxy = desktop.current_use_proxy = bool(request.task.get("proxy")) and request.proxy
    desktop.is_environment_used, desktop.client_password = True, machine.password
    desktop.controller = PythonController(machine.host, machine.port)
    desktop._set_task_info(_with_local_files(request))
    size = {"screen_width": machine.width, "screen_height": machine.height}
    ports = (machine.port, machine.chromium_port, machine.vlc_port)
    desktop.setup_controller = SetupController(machine.host, *ports, desktop.cache_dir, machine.password, **size)
    return desktop


def _with_local_files(request: Request) -> Task:
    """Return the task with absolute paths of its local files; only files in its folder can be uploaded."""
    task: Task = {**json.loads(json.dumps(request.task)), "id": "task"}
    for step in _steps(task):
        for file in step["parameters"]["files"] if step["type"] == "upload_file" else ():
            file["local_path"] = str(_within(request.files, file["local_path"]) or "")
    return task


class _Errors(logging.Handler):
    """Collects logged errors; a window that cannot be found is none, since it may open later."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "activate window" not in message and "close window" not in message:
            self.messages.append(message)


def _disarm() -> None:
    """Stand in for large packages, and keep code and paths from the machine off this computer."""
    for name in _OPTIONAL:
        if find_spec(name) is None:
            STOOD_IN.add(name)
            for module in (name, f"{name}.auth", f"{name}.drive"):
                sys.modules[module] = stand_in = types.ModuleType(module)
                stand_in.__dict__.update(dict.fromkeys(_STOOD_IN_NAMES))
    from desktop_env.evaluators.metrics import basic_os

    # It evaluates what a command of the machine printed.
    basic_os.eval = ast.literal_eval
    tarfile.TarFile.extraction_filter = staticmethod(tarfile.data_filter)


def answer(request: Request) -> Answer:
    match request.do:
        case "check":
            try:
                return Answer(reasons=tuple(dict.fromkeys(reasons(request))))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                return Answer(reasons=(f"is malformed: {error}",))
        case "restore":
            return Answer(address=restore(request))
    if found := tuple(reasons(request)):
        return Answer(error=f"the task is incomplete: {found[0]}")
    if request.do == "evaluate":
        return Answer(score=evaluate(request))
    prepare(request)
    return Answer()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # desktop-env prints.
    try:
        ready = Answer()
        if "restore" not in sys.argv:  # It runs no task, and all of desktop-env takes four seconds to import.
            _disarm()
    except ImportError as error:
        ready = Answer(error=f"desktop-env cannot be imported: {error}")
    answers.write(json.dumps(dataclasses.asdict(ready)) + "\n")
    for line in sys.stdin:
        try:
            fields = json.loads(line)
            found = answer(Request(**{**fields, "machine": Machine(**fields["machine"])}))
        except Exception as error:
            found = Answer(error=" ".join(f"{type(error).__name__}: {error}".split())[:500])
        answers.write(json.dumps(dataclasses.asdict(found)) + "\n")


if __name__ == "__main__":
    main()
