"""Commands about environments: serve one to trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trajmill.flows.cli.loop import ConfigFile

app = typer.Typer(help="Environments for trainers and other machines.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def env_group() -> None:
    """Environments for trainers and other machines."""


@app.command("serve", epilog="Example: trajmill env serve --config docs/examples/desktop.toml --port 8000 --slots 4")
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
