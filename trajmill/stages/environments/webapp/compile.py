"""Compiles simulated apps to a static web app, which any browser opens without a server; and serves it on loopback."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec
from trajmill.stages.environments.simulated.app_files.check import builtin_files
from trajmill.stages.environments.simulated.app_files.loader import AppFile, ErrandFile, Mistake, read_spec, read_yaml
from trajmill.stages.environments.simulated.layout.profile import PROFILES, DeviceProfile
from trajmill.stages.environments.simulated.world import World, load_world

INDEX = "index.html"
_SCRIPTS = ("binding.js", "device.js", "rows.js", "screen.js", "patch.js", "main.js")
HOST = "127.0.0.1"


class WebApp(NamedTuple):
    """A compiled world."""

    files: Mapping[str, str]
    """The texts by file name; `INDEX` is the page to open."""


def compile_world(world: World, platform: Platform = Platform.PHONE) -> WebApp:
    """The static web app of a world; the page shows a device of `platform` unless its address names another one.

    The page's address may end with `#platform=desktop&profile=3`.
    """
    source = files(__package__) / "app"
    texts = {name: (source / name).read_text(encoding="utf-8") for name in (*_SCRIPTS, "style.css", INDEX)}
    texts[INDEX] = Template(texts[INDEX]).substitute(world=_as_data_block(_world_data(world, platform)))
    return WebApp(texts)


def compile_files(paths: Sequence[Path]) -> WebApp:
    """The static web app of app and errand files and the built-in ones, on the platform of the first file.

    Raises:
        BadInputError: a file has mistakes; the message has one line for each.
    """
    builtin = {path.resolve() for path in builtin_files()}
    world = load_world([path for path in paths if path.resolve() not in builtin])
    return compile_world(world, _platform_of(paths[0], world) if paths else Platform.PHONE)


def media_type(name: str) -> str:
    """The content type of one of a web app's files."""
    kind = {"html": "html", "js": "javascript", "css": "css"}[name.rpartition(".")[2]]
    return f"text/{kind}; charset=utf-8"


def write_web_app(app: WebApp, folder: Path) -> Path:
    """Write the files of a web app into a folder, which is made if missing; returns the path of the page to open.

    Raises:
        BadInputError: the folder cannot be written, or has other files.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = sorted(path.name for path in folder.iterdir() if path.name not in app.files)
        if strange:
            text = f"{folder}: holds other files, such as {strange[0]!r}; name a new or empty folder"
            raise BadInputError(text)
        for name, text in app.files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{folder}: {error.strerror or error}; name a folder that can be written") from error
    return folder / INDEX


def _platform_of(path: Path, world: World) -> Platform:
    source = read_yaml(path)
    match None if isinstance(source, Mistake) else read_spec(source).file:
        case AppFile(spec=spec):
            return spec.platform
        case ErrandFile(spec=spec):
            return world.apps[spec.apps[0]].platform
        case _:
            raise BadInputError(f"{path}: has changed while it was read; run the same command again")


def _world_data(world: World, platform: Platform) -> dict[str, Any]:
    return {
        "platform": platform.value,
        "apps": {
            name: app.model_dump(mode="json", exclude={"tasks", "description"}) for name, app in world.apps.items()
        },
        "profiles": [_profile_data(world, DeviceProfile(number)) for number in range(PROFILES)],
    }


def _profile_data(world: World, profile: DeviceProfile) -> dict[str, Any]:
    """The differences of one device; lists are the indices of their items."""
    platforms = (Platform.PHONE, Platform.DESKTOP)
    launcher = {each.value: profile.arrange("launcher", world.apps_on(each)) for each in platforms}
    return {
        "dark": profile.dark,
        "scale": profile.scale,
        "launcher": {platform: [app.app for app in apps] for platform, apps in launcher.items()},
        "lists": {name: _list_orders(app, profile) for name, app in world.apps.items()},
    }


def _list_orders(app: AppSpec, profile: DeviceProfile) -> dict[str, list[int]]:
    arranged = profile.fixed_lists(app)
    return {name: [items.index(item) for item in arranged[name]] for name, items in app.lists.items()}


def _as_data_block(data: dict[str, Any]) -> str:
    """JSON for a `<script type="application/json">`; it has no `<`, so that nothing in it can end the block."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def web_app_server(app: WebApp, port: int) -> ThreadingHTTPServer:
    """A server of a web app; it listens already, and `serve_forever` answers requests.

    Args:
        app: the web app.
        port: port on loopback, 0 for a free one.

    Raises:
        BadInputError: the port cannot be used.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = urlsplit(self.path).path.removeprefix("/") or INDEX
            if name not in app.files:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = app.files[name].encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", media_type(name))
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        text = f"--port {port}: {error.strerror or error}; name another port, or 0 for any that is free"
        raise BadInputError(text) from error
