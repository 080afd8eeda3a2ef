"""Commands for what runs unattended: the deployments, here or at workers of a Prefect server."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from trajmill.flows.cli.loop import ConfigFile, NewRun, begin_or_ask
from trajmill.schemas.errors import BadInputError

app = typer.Typer()

Replace = Annotated[bool, typer.Option("--replace", help="Take the place of another run's deployments of this name.")]


@app.command(epilog="Example: PREFECT_API_URL=http://127.0.0.1:4200/api trajmill serve")
def serve(
    config: ConfigFile = None,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of the Prefect server that is started if none is named.")
    ] = 4200,
    replace: Replace = False,
    new_run: NewRun = False,
) -> None:
    """Serve three deployments: collecting every night, retraining when enough has landed, and maintenance.

    Uses the Prefect server that PREFECT_API_URL names; without one, it starts one here.
    """
    from rich.console import Console

    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import long_lived_server, names_a_server, set_talkative_defaults

    settings = load_config(config)
    begin_or_ask(settings, new_run)
    set_talkative_defaults()
    from trajmill.warehouse.layout import create_warehouse

    warehouse, is_own = create_warehouse(settings.run.root), not names_a_server()
    with long_lived_server(warehouse.run(settings.run_id) / "prefect-server.log", port) as address:
        from trajmill.flows.new_run import run_resource
        from trajmill.flows.nights.deployments import refuse_to_replace, serve_deployments
        from trajmill.flows.nights.log import remember_server
        from trajmill.flows.nights.notices import end_lost_runs

        if not replace:
            refuse_to_replace(settings)
        remember_server(warehouse, settings.run_id, address, datetime.now(UTC))

        Console().print(
            f"Prefect server: {address}\nLet other commands report to it: export PREFECT_API_URL={address}",
            highlight=False,
            soft_wrap=True,
        )
        if is_own:
            end_lost_runs(run_resource(warehouse, settings.run_id))
        # With Python's default handling of the signal, Prefect's event loop ends cleanly on Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        serve_deployments(settings, _file_of(config))


@app.command(epilog="Example: PREFECT_API_URL=http://prefect:4200/api trajmill deploy --pool gpu-machines")
def deploy(
    pool: Annotated[str, typer.Option("--pool", metavar="NAME", help="Work pool whose workers run the deployments.")],
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="Docker image with trajmill, for a Docker pool.")
    ] = None,
    worker_config: Annotated[
        Path | None,
        typer.Option("--worker-config", metavar="FILE", help="Where the workers find the configuration; here if none."),
    ] = None,
    job: Annotated[
        list[str] | None,
        typer.Option("--job", metavar="NAME=JSON", help="A variable of the pool's jobs; may be repeated."),
    ] = None,
    replace: Replace = False,
    config: ConfigFile = None,
    new_run: NewRun = False,
) -> None:
    """Register the deployments of `serve` at a Prefect server of yours, to be run by the workers of a work pool.

    The server is the one that PREFECT_API_URL names. A second call changes what the first has registered.
    """
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import named_server, set_quiet_defaults

    settings, here = load_config(config), _file_of(config)
    if worker_config is not None and (here is None or not worker_config.is_absolute()):
        raise BadInputError("--worker-config is an absolute path, and needs the same file here: name it with --config")
    variables = _job_variables(job or [])
    begin_or_ask(settings, new_run)
    set_quiet_defaults()
    address = named_server()
    from trajmill.flows.nights.deployments import WorkPool, deploy_to, refuse_to_replace
    from trajmill.flows.nights.log import remember_server
    from trajmill.warehouse.layout import create_warehouse

    if not replace:
        refuse_to_replace(settings)
    names = deploy_to(WorkPool(pool, image, variables), settings, worker_config or here)
    remember_server(create_warehouse(settings.run.root), settings.run_id, address, datetime.now(UTC))
    print(f"deployed  {', '.join(names)} to work pool {pool} of {address}")
    print(f"worker    prefect worker start --pool {pool}")


def _file_of(config: Path | None) -> Path | None:
    """The configuration file that is read."""
    from trajmill.flows.configuration.file import DEFAULT_FILE

    return config or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)


def _job_variables(written: list[str]) -> dict[str, Any]:
    variables = {}
    for each in written:
        name, equals, value = each.partition("=")
        try:
            variables[name] = json.loads(value)
        except (ValueError, RecursionError):
            equals = ""
        if not (name and equals):
            raise BadInputError(f"--job {each!r:.80} is not NAME=JSON, e.g. --job 'volumes=[\"/data:/data\"]'")
    return variables
