"""Compile simulated apps to a static web app, which any browser opens without a server, or serve it on loopback."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import urlsplit

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.app_files.check import builtin_files
from trajmill.stages.environments.simulated.app_files.loader import AppFile, ErrandFile, Mistake, read_spec, read_yaml
from trajmill.stages.environments.simulated.layout.profile import PROFILES, DeviceProfile
from trajmill.stages.environments.simulated.world import World, load_world

INDEX = "index.html"
_SCRIPTS = ("binding.js", "device.js", "rows.js", "screen.js", "patch.js", "main.js")
HOST = "127.0.0.1"


WebApp = Mapping[str, str]
"""The texts of its files, by their names."""


def compile_world(world: World, platform: Platform = Platform.PHONE) -> WebApp:
    """Compile a world; the address of the page may choose another device: `#platform=desktop&profile=3`."""
    source = files(__package__) / "app"
    texts = {name: (source / name).read_text(encoding="utf-8") for name in (*_SCRIPTS, "style.css", INDEX)}
    # The data block has no `<`, so nothing in it can end the block.
    data = json.dumps(_world_data(world, platform), separators=(",", ":")).replace("<", "\\u003c")
    texts[INDEX] = Template(texts[INDEX]).substitute(world=data)
    return texts


def compile_files(paths: Sequence[Path]) -> WebApp:
    """Compile files with the built-in ones, on the platform of the first; raises BadInputError for mistakes."""
    builtin = {path.resolve() for path in builtin_files()}
    world = load_world([path for path in paths if path.resolve() not in builtin])
    return compile_world(world, _platform_of(paths[0], world) if paths else Platform.PHONE)


def media_type(name: str) -> str:
    kind = {"html": "html", "js": "javascript", "css": "css"}[name.rpartition(".")[2]]
    return f"text/{kind}; charset=utf-8"


def write_web_app(app: WebApp, folder: Path) -> Path:
    """Write a web app into a folder and return its page; raises BadInputError if the folder has other files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strange = sorted(path.name for path in folder.iterdir() if path.name not in app)
        if strange:
            text = f"{folder}: holds other files, such as {strange[0]!r}; name a new or empty folder"
            raise BadInputError(text)
        for name, text in app.items():
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
    platforms = (Platform.PHONE, Platform.DESKTOP)
    profiles = []
    for profile in map(DeviceProfile, range(PROFILES)):
        launcher = {each.value: profile.arrange("launcher", world.apps_on(each)) for each in platforms}
        # Lists are the indices of their items.
        orders: dict[str, dict[str, list[int]]] = {}
        for name, app in world.apps.items():
            arranged = profile.fixed_lists(app)
            orders[name] = {key: [items.index(item) for item in arranged[key]] for key, items in app.lists.items()}
        profiles.append(
            {
                "dark": profile.dark,
                "scale": profile.scale,
                "launcher": {name: [app.app for app in apps] for name, apps in launcher.items()},
                "lists": orders,
            }
        )
    excluded = {"tasks", "description"}
    apps = {name: app.model_dump(mode="json", exclude=excluded) for name, app in world.apps.items()}
    return {"platform": platform.value, "apps": apps, "profiles": profiles}


def web_app_server(app: WebApp, port: int) -> ThreadingHTTPServer:
    """Listen on a port of loopback, 0 for a free one; raises BadInputError if the port cannot be used."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = urlsplit(self.path).path.removeprefix("/") or INDEX
            if name not in app:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = app[name].encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", media_type(name))
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        text = f"--port {port}: {error.strerror or error}; name another port, or 0 for any that is free"
        raise BadInputError(text) from error
