"""Commands for what runs unattended: the deployments, here or at workers of a Prefect server."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from trajmill.flows.cli.loop import ConfigFile, NewRun, begin_or_ask
from trajmill.schemas.errors import BadInputError

app = typer.Typer()


@app.command(epilog="Example: PREFECT_API_URL=http://127.0.0.1:4200/api trajmill serve")
def serve(
    config: ConfigFile = None,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of the Prefect server that is started if none is named.")
    ] = 4200,
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
    with long_lived_server(warehouse.root / "runs" / "prefect.log", port) as address:
        from trajmill.flows.nights.deployments import deployment_names, serve_deployments
        from trajmill.flows.nights.lost_runs import end_lost_runs
        from trajmill.flows.status.flow_runs import remember_server

        remember_server(warehouse.root, address)

        Console().print(
            f"Prefect server: {address}\nLet other commands report to it: export PREFECT_API_URL={address}",
            highlight=False,
            soft_wrap=True,
        )
        if is_own:
            end_lost_runs(deployment_names())
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
    config: ConfigFile = None,
    new_run: NewRun = False,
) -> None:
    """Register the deployments of `serve` at a Prefect server of yours, to be run by the workers of a work pool.

    The server is the one that PREFECT_API_URL names. A second call changes what the first has registered.
    """
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import named_server, set_quiet_defaults

    settings = load_config(config)
    variables = _job_variables(job or [])
    begin_or_ask(settings, new_run)
    set_quiet_defaults()
    address = named_server()
    from trajmill.flows.nights.work_pool import WorkPool, as_workers_see, deploy_to
    from trajmill.flows.status.flow_runs import remember_server
    from trajmill.warehouse.layout import create_warehouse

    seen = as_workers_see(settings, _file_of(config), worker_config)
    names = deploy_to(WorkPool(pool, image, variables), seen)
    remember_server(create_warehouse(settings.run.root).root, address)
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
