"""Commands on app files: check them, and turn them into a web app."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from trajmill.schemas.errors import TrajmillError

app = typer.Typer(help="App files of the simulated phone and desktop.", no_args_is_help=True, rich_markup_mode=None)

AppFiles = Annotated[list[Path], typer.Argument(metavar="FILE...", help="YAML files, read with the built-in apps.")]


@app.callback()
def apps_group() -> None:
    """App files of the simulated phone and desktop."""


@app.command("check", epilog="Example: trajmill apps check my_app.yaml")
def check_apps(files: AppFiles) -> None:
    """Find the mistakes of app files, each with its line; the paths of their tasks are walked."""
    from trajmill.stages.queries.tasks.check_app_files import check_app_files

    mistakes = check_app_files(files)
    if mistakes:
        raise TrajmillError("\n".join(str(mistake) for mistake in mistakes))
    print(f"{len(files)} file{'s' if len(files) != 1 else ''} without mistakes")


@app.command("build", epilog="Example: trajmill apps build my_app.yaml --out site")
def build_apps(
    files: AppFiles,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where to write; a new or empty folder.")],
) -> None:
    """Write app files and the built-in apps as a static web app, and print the page to open in a browser."""
    from trajmill.stages.environments.webapp.compile import compile_files, write_web_app

    print(write_web_app(compile_files(files), out))


@app.command("serve", epilog="Example: trajmill apps serve my_app.yaml --port 8000")
def serve_apps(
    files: AppFiles,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="On loopback; 0 for any that is free.")] = 8000,
) -> None:
    """Serve app files and the built-in apps as a web app, for this machine only, until Ctrl-C."""
    from trajmill.stages.environments.webapp.compile import HOST, compile_files, web_app_server

    with web_app_server(compile_files(files), port) as server, suppress(KeyboardInterrupt):
        print(f"http://{HOST}:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        server.serve_forever()
