"""Commands on environments: check and build app files, make an untrained policy, serve environments to trainers."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from trajmill.flows.cli.loop import ConfigFile
from trajmill.schemas.errors import TrajmillError

apps = typer.Typer(help="App files of the simulated phone and desktop.", no_args_is_help=True, rich_markup_mode=None)

env = typer.Typer(help="Environments for trainers and other machines.", no_args_is_help=True, rich_markup_mode=None)
app = typer.Typer()

AppFiles = Annotated[list[Path], typer.Argument(metavar="FILE...", help="YAML files, read with the built-in apps.")]


@apps.callback()
def apps_group() -> None:
    """App files of the simulated phone and desktop."""


@apps.command("check", epilog="Example: trajmill apps check my_app.yaml")
def check_apps(files: AppFiles) -> None:
    """Find the mistakes of app files, each with its line; the paths of their tasks are walked."""
    from trajmill.stages.queries.tasks.check_app_files import check_app_files

    mistakes = check_app_files(files)
    if mistakes:
        raise TrajmillError("\n".join(str(mistake) for mistake in mistakes))
    print(f"{len(files)} file{'s' if len(files) != 1 else ''} without mistakes")


@apps.command("build", epilog="Example: trajmill apps build my_app.yaml --out site")
def build_apps(
    files: AppFiles,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where to write; a new or empty folder.")],
) -> None:
    """Write app files and the built-in apps as a static web app, and print the page to open in a browser."""
    from trajmill.stages.environments.webapp.compile import compile_files, write_web_app

    print(write_web_app(compile_files(files), out))


@apps.command("serve", epilog="Example: trajmill apps serve my_app.yaml --port 8000")
def serve_apps(
    files: AppFiles,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="On loopback; 0 for any that is free.")] = 8000,
) -> None:
    """Serve app files and the built-in apps as a web app, for this machine only, until Ctrl-C."""
    from trajmill.stages.environments.webapp.compile import HOST, compile_files, web_app_server

    with web_app_server(compile_files(files), port) as server, suppress(KeyboardInterrupt):
        print(f"http://{HOST}:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        server.serve_forever()


@env.callback()
def env_group() -> None:
    """Environments for trainers and other machines."""


@env.command("serve", epilog="Example: trajmill env serve --config docs/examples/desktop.toml --port 8000 --slots 4")
def serve_env(
    config: ConfigFile = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; not loopback only with a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 for any that is free.")] = 8000,
    slots: Annotated[int, typer.Option("--slots", min=1, max=1000, help="Sessions at once.")] = 8,
    splits: Annotated[
        list[str] | None,
        typer.Option("--split", help="Queries that may be asked for, once for each split; train if none."),
    ] = None,
    family: Annotated[
        str, typer.Option("--family", help="Family of the trainer's model; that of models.policy if none.")
    ] = "",
    judge: Annotated[
        str,
        typer.Option(
            "--judge",
            metavar="NAME",
            help="Judge whose word is the reward: `judge`, the run's own, or a [judges.NAME].",
        ),
    ] = "",
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="File with the token that clients must send.")
    ] = None,
) -> None:
    """Serve the environment of a configuration with the OpenEnv protocol, until Ctrl-C.

    Trainers step episodes of the run's queries; each becomes rows of the warehouse with purpose `online`.
    """
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import set_quiet_defaults

    settings = load_config(config)
    set_quiet_defaults()
    from trajmill.flows.environment_server import ServeOptions, serve_environment

    options = ServeOptions(host, port, slots, tuple(splits or ServeOptions.splits), family, judge, token_file)
    serve_environment(settings, options, lambda address: print(f"{address} (Ctrl-C ends it)", flush=True))


@app.command(epilog="Example: trajmill untrained --config docs/examples/pixels.toml")
def untrained(
    config: ConfigFile = None,
    blind: Annotated[bool, typer.Option(help="Make a control whose pictures are always black.")] = False,
) -> None:
    """Make the small untrained vision-language model of the policy's endpoint, if it does not exist."""
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.configuration.untrained_policy import make_untrained_policy

    made = make_untrained_policy(load_config(config), blind)
    print(f"{made.folder.resolve()}: {made.version}" + ("" if made.is_new else " was there already"))
