"""The command `init`: writes a configuration for what a user has, each part of it tested."""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer
from typer import Argument, Option

from trajmill.schemas.errors import BadInputError, TrajmillError

app = typer.Typer()

_CHECKOUT, _INSTALLED = Path(__file__).parents[3] / "docs/examples", Path(sys.prefix) / "share/trajmill/examples"
_EXAMPLES = _CHECKOUT if _CHECKOUT.is_dir() else _INSTALLED
_SECONDS = 10.0
_TITLE_PARTS = re.compile(r"\s+[-–—|·]\s+")
_FIRST_PAGES = frozenset({"home", "start", "welcome", "index", "dashboard", "login", "log in", "sign in"})
_DEFAULT_FILE = Path("trajmill.toml")
_QUESTIONS = {
    "web": "Address of the web app",
    "phone": "Package of the Android app, e.g. org.example.notes",
    "desktop": "Command that starts the program",
    "apps": "Folder of app files (YAML)",
}


class ServedModel(NamedTuple):
    url: str
    name: str
    family: str
    weights: str | None


class World(NamedTuple):
    kind: str = ""
    """Kind of environment whose app is to be explored; empty for simulated apps."""
    app: str = "default"
    title: str = ""
    """What instructions call the app."""
    place: str = ""
    """Address, package or command of the app."""
    files: tuple[str, ...] = ()


@app.command(epilog="Example: trajmill init --web http://127.0.0.1:8000/ --model http://gpu-1:8000/v1")
def init(
    file: Annotated[Path, Argument(metavar="FILE", help="The configuration to write.")] = _DEFAULT_FILE,
    model: str = Option("", metavar="URL", help="The policy's server, e.g. vLLM at http://gpu-1:8000/v1."),
    name: str = Option("", metavar="NAME", help="The model's name there, if it serves several."),
    family: str = Option("", metavar="NAME", help="The model's family, if its name does not show it."),
    weights: str = Option("", metavar="FOLDER", help="The model's weights, to train it on this machine."),
    web: str = Option("", metavar="URL", help="A web app to operate."),
    phone: str = Option("", metavar="PACKAGE", help="An app on the Android device that adb lists."),
    desktop: str = Option("", metavar="COMMAND", help="A desktop program."),
    apps: str = Option("", metavar="FOLDER", help="App files of your own for the simulated phone."),
    root: str = Option("", metavar="PLACE", help="Folder or s3://, gs://, abfs:// URL for the rows."),
    example: str = Option("", metavar="NAME", help="Write a worked example; `list` names them."),
) -> None:
    """Write a configuration for your model, app and warehouse.

    On a terminal, without options, it asks. Each answer is tested, and nothing is written if a test fails.
    """
    if example == "list":
        print("\n".join(example_names()))
        return
    if file.exists():
        raise BadInputError(f"{file} exists; name another file, or remove it")
    named = {kind: place for kind, place in zip(_QUESTIONS, (web, phone, desktop, apps), strict=True) if place}
    world = World()
    if example and (named or model or root):
        raise BadInputError("--example copies a configuration as it is; leave out the other options")
    if example:
        _copy_example(example, file)
    elif len(named) > 1:
        raise BadInputError(f"--{' and --'.join(named)}: a run has one environment; name one of them")
    elif (name or family or weights) and not model:
        raise BadInputError("--name, --family and --weights describe the model of --model; name its address")
    elif sys.stdin.isatty() and not (model or named or root):
        world = _ask(file)
    else:
        served = _tested_model(model, name, family, weights) if model else None
        world = next((_tested_world(kind, place) for kind, place in named.items()), world)
        _write(file, served, world, _tested_root(root or "trajmill-data"))
    print(f"wrote {file}")
    evolve = "trajmill evolve" + ("" if file == _DEFAULT_FILE else f" --config {file}")
    if world.kind:
        print(f"next  trajmill graph explore {file} --app {world.app}")
        print(f"then  name the slots in graphs/{world.app}.yaml, and run {evolve}")
    else:
        print(f"next  {f'read the first lines of {file}, then run ' if example else ''}{evolve}")


def _write(file: Path, served: ServedModel | None, world: World, root: str) -> None:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from trajmill.flows.configuration.file import load_config

    environment = Environment(loader=PackageLoader(__package__, "."), undefined=StrictUndefined, autoescape=False)
    # JSON's strings and lists are TOML's, but for DEL.
    environment.filters["toml"] = lambda value: json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    command = shlex.split(world.place) if world.kind == "desktop" else []
    values = {**world._asdict(), "command": command, "port": _adb_port(), "model": served, "root": root}
    text, draft = environment.get_template("init.toml.jinja").render(values), file.with_name(f".{file.name}.draft")
    try:
        draft.write_text(f"{text}\n", encoding="utf-8")
        load_config(draft, unneeded="graphs.files")
        draft.replace(file)
    except OSError as error:
        raise BadInputError(f"{file} cannot be written ({error.strerror})") from None
    finally:
        draft.unlink(missing_ok=True)


def _ask(file: Path) -> World:
    def answer(question: str, default: str = "") -> str:
        return str(typer.prompt(question, default=default, show_default=bool(default))).strip()

    def asked(question: str, tested: Callable[[str], Any], default: str = "") -> Any:
        while text := answer(question, default):
            try:
                return tested(text)
            except TrajmillError as error:
                print(error, file=sys.stderr)
        return None

    def model(url: str) -> ServedModel:
        names = _served_names(url)
        name = answer(f"Which of {', '.join(names)}", names[0]) if len(names) > 1 else names[0]
        family = answer("Its family: qwen2.5-vl, qwen3-vl, gui-owl, gui-owl-1.5, ui-tars or gui-r1", _family_in(name))
        return _tested_model(url, name, family, answer("Folder of its weights, to train it here (empty: not here)"))

    served = asked("Address of your model server (empty: the small embedded policy)", model)
    kinds = ", ".join(_QUESTIONS)
    while (kind := answer(f"What to operate: {kinds} (empty: the built-in apps)")) and kind not in _QUESTIONS:
        print(f"{kind!r:.60} is none of {kinds}", file=sys.stderr)
    found = asked(_QUESTIONS[kind], lambda place: _tested_world(kind, place)) if kind else None
    world: World = found or World()
    _write(file, served, world, asked("Folder or bucket for the rows", _tested_root, "trajmill-data"))
    return world


def _address(url: str) -> str:
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return url
    raise BadInputError(f"{url!r:.100} is no address: it begins with http:// or https://")


def _served_names(url: str) -> list[str]:
    from trajmill.flows.serving.model_server import served_models

    found = served_models(_address(url).rstrip("/"), os.environ.get("OPENAI_API_KEY", ""))
    if not isinstance(found, frozenset) or not found:
        reason = "its list is empty" if isinstance(found, frozenset) else found.status_text
        raise BadInputError(f"{url} lists no models ({reason}); start the server, and give its address up to /v1")
    return sorted(found)


def _family_in(name: str) -> str:
    """The longest family name in a model's name, e.g. `qwen2.5-vl` in `Qwen/Qwen2.5-VL-7B-Instruct`; or nothing."""
    from trajmill.schemas.dialects.families import family_names

    return max((family for family in family_names() if family in name.lower()), key=len, default="")


def _tested_model(url: str, name: str, family: str, weights: str) -> ServedModel:
    from trajmill.schemas.dialects.families import family_named, family_names

    names = _served_names(url)
    if name not in names and (name or len(names) > 1):
        raise BadInputError(f"{url} serves {', '.join(names)}; choose one with --name")
    name = name or names[0]
    if not (family := family or _family_in(name)):
        raise BadInputError(f"{name} does not show its family; name it with --family: {', '.join(family_names())}")
    family_named(family)
    if weights and not (Path(weights) / "config.json").is_file():
        raise BadInputError(f"{weights} has no config.json; the weights are a folder of Hugging Face's format")
    print(f"ok    {url} serves {name} ({family})")
    return ServedModel(url, name, family, str(Path(weights).absolute()) if weights else None)


def _tested_world(kind: str, place: str) -> World:
    match kind:
        case "web":
            from trajmill.flows.serving.model_server import ask_server

            answer = ask_server(_address(place))
            if answer.status != 200:
                raise BadInputError(f"{place} does not answer ({answer.status_text}); start it, or correct the address")
            titles = re.search(r"<title[^>]*>\s*([^<]{1,80})", answer.text, re.IGNORECASE)
            parts = _TITLE_PARTS.split(html.unescape(titles[1]).strip()) if titles else ["the site"]
            # The other parts are a slogan, or the kind of page (`Home`).
            title = next((part for part in parts if part.casefold() not in _FIRST_PAGES), parts[0])
            found, world = f"{place} answers", World("browser", _slug(title), title, place)
        case "phone":
            name = place.rpartition(".")[2]
            found, world = _find_package(place), World("android", _slug(name), f"the app {name}", place)
        case "desktop":
            try:
                program = shlex.split(place)[0]
            except (ValueError, IndexError):
                raise BadInputError(f"{place!r:.100} is no command; close its quotes, or name a program") from None
            missing = [each for each in (program, "Xvfb", "openbox", "dbus-daemon") if shutil.which(each) is None]
            if missing:
                raise BadInputError(f"not in PATH: {', '.join(missing)}; see `make system-deps`")
            found, world = str(shutil.which(program)), World("desktop", _slug(Path(program).stem), program, place)
        case _:
            from trajmill.stages.queries.tasks.source import check_app_files

            files = sorted(Path(place).glob("*.yaml"))
            mistakes = check_app_files(files) if files else [f"{place} has no *.yaml file (see docs/apps.md)"]
            if mistakes:
                raise BadInputError("\n".join(map(str, mistakes)))
            found, world = f"{len(files)} app files without mistakes", World(files=tuple(map(str, files)))
    print(f"ok    {found}")
    return world


def _slug(text: str) -> str:
    from trajmill.stages.graphs.explore.naming import slug

    return slug(text) or "app"


def _find_package(package: str) -> str:
    try:
        from trajmill.stages.environments.android.adb import AdbDevice, ServerAddress, list_devices
    except ImportError:
        raise BadInputError("adbutils is missing: pip install 'trajmill[android]'") from None
    address = ServerAddress("127.0.0.1", _adb_port())
    serial = next((serial for serial, state in list_devices(address, _SECONDS).items() if state == "device"), None)
    if serial is None:
        raise BadInputError("`adb devices` lists no ready device; connect one, or start an emulator")
    device = AdbDevice(address, serial, _SECONDS)
    try:
        listed = asyncio.run(device.run("pm", "list", "packages", package))
    finally:
        device.close()
    if f"package:{package}" not in listed.text.split():
        raise BadInputError(f"{serial} has no {package!r:.100}; `adb shell pm list packages` names what it has")
    return f"{serial} has {package}"


def _adb_port() -> int:
    """The port of the adb server, as adb itself reads it."""
    port = os.environ.get("ANDROID_ADB_SERVER_PORT", "5037")
    if not port.isdecimal():
        raise BadInputError(f"ANDROID_ADB_SERVER_PORT={port!r:.40} is no port; name that of the adb server")
    return int(port)


def _tested_root(root: str) -> str:
    from trajmill.flows.doctor import check_place

    found = check_place(root)
    if found.mend:
        raise BadInputError(f"{found.text}; {found.mend}")
    print(f"ok    {found.text}")
    return root


def example_names() -> list[str]:
    return sorted(path.stem for path in _EXAMPLES.glob("*.toml"))


def _copy_example(name: str, file: Path) -> None:
    """Copy a worked example and the files that it names; its rows go into the file's own folder."""
    if name not in example_names():
        raise BadInputError(f"there is no example {name!r:.60}; there are {', '.join(example_names())}")
    text = (_EXAMPLES / f"{name}.toml").read_text(encoding="utf-8")
    named = {Path(each) for each in re.findall(r'"([^"\n]+)"', text) if ".." not in each and not each.startswith("/")}
    files = sorted(each for each in named if (_EXAMPLES / each).exists())
    if taken := [str(each) for each in files if (file.parent / each).exists()]:
        raise BadInputError(f"{', '.join(taken)} exists; write the example into an empty folder")
    for each in files:
        (file.parent / each).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (_EXAMPLES / each).is_dir() else shutil.copyfile
        copy(_EXAMPLES / each, file.parent / each)
    file.write_text(text.replace(f"docs/examples/{name}.toml", str(file)).replace("../../", ""), encoding="utf-8")
