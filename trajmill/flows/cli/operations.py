"""Commands to operate a run: its deployments, here or at workers of a Prefect server, and its policy versions."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from trajmill.flows.cli.options import ConfigFile, NewRun, begin, begin_or_ask, load, print_lines
from trajmill.schemas.errors import BadInputError

app = typer.Typer()
policy = typer.Typer(help="Show the policy versions of a run, add one, promote one or roll back.", no_args_is_help=True)

Replace = Annotated[bool, Option("--replace", help="Take the place of another run's deployments of this name.")]


@app.command(epilog="Example: PREFECT_API_URL=http://127.0.0.1:4200/api trajmill serve")
def serve(
    config: ConfigFile = None,
    port: int = Option(4200, min=1, max=65535, help="Port of the Prefect server that is started if none is named."),
    replace: Replace = False,
    new_run: NewRun = False,
) -> None:
    """Serve three deployments: collecting every night, retraining when enough has landed, and maintenance.

    Uses the Prefect server that PREFECT_API_URL names; without one, it starts one here.
    """
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import long_lived_server, names_a_server, set_talkative_defaults
    from trajmill.warehouse.layout import create_warehouse

    settings = load_config(config)
    begin_or_ask(settings, new_run)
    set_talkative_defaults()
    warehouse, is_own = create_warehouse(settings.run.root), not names_a_server()
    with long_lived_server(warehouse.run(settings.run_id) / "prefect-server.log", port) as address:
        from trajmill.flows.new_run import run_resource
        from trajmill.flows.nights.deployments import refuse_to_replace, serve_deployments
        from trajmill.flows.nights.log import remember_server
        from trajmill.flows.nights.notices import end_lost_runs

        if not replace:
            refuse_to_replace(settings)
        remember_server(warehouse, settings.run_id, address, datetime.now(UTC))
        export = f"Let other commands report to it: export PREFECT_API_URL={address}"
        print_lines(f"Prefect server: {address}", export)
        if is_own:
            end_lost_runs(run_resource(warehouse, settings.run_id))
        # With Python's default handling of the signal, Prefect's event loop ends cleanly on Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        serve_deployments(settings, _file_of(config))


@app.command(epilog="Example: PREFECT_API_URL=http://prefect:4200/api trajmill deploy --pool gpu-machines")
def deploy(
    pool: str = Option(..., metavar="NAME", help="Work pool whose workers run the deployments."),
    image: str | None = Option(None, metavar="IMAGE", help="Docker image with trajmill, for a Docker pool."),
    worker_config: Path | None = Option(
        None, metavar="FILE", help="Where the workers find the configuration; here if none."
    ),
    job: list[str] | None = Option(None, metavar="NAME=JSON", help="A variable of the pool's jobs; may be repeated."),
    replace: Replace = False,
    config: ConfigFile = None,
    new_run: NewRun = False,
) -> None:
    """Register the deployments of `serve` at a Prefect server of yours, to be run by the workers of a work pool.

    The server is the one that PREFECT_API_URL names. A second call changes what the first has registered.
    """
    here = _file_of(config)
    if worker_config is not None and (here is None or not worker_config.is_absolute()):
        raise BadInputError("--worker-config is an absolute path, and needs the same file here: name it with --config")
    variables = _job_variables(job or [])
    settings = begin(config, new_run)
    from trajmill.flows.prefect_settings import named_server

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


@policy.command("list", epilog="Example: trajmill policy list --config trajmill.toml")
def list_versions(config: ConfigFile = None) -> None:
    """Show the versions of the run, where each came from, and what was decided about it last."""
    settings = load(config)
    from trajmill.flows.policies.addition import list_policies

    for listed in list_policies(settings):
        row = listed.row
        decided = "promoted" if row.promoted else "not promoted"
        validation = f", validation {listed.validation}" if listed.validation else ""
        print(f"{'*' if listed.in_force else ' '} {row.model_version}")
        print(f"    round {row.round}{validation}: {decided}, {row.reason}")
        if row.parent:
            print(f"    child of {row.parent}" + (f", trained on {row.release}" if row.release else ""))
    print("* in force")


@policy.command(epilog="Example: trajmill policy add --adapter adapters/round-3 --config trajmill.toml")
def add(
    config: ConfigFile = None,
    model: str | None = Option(
        None, metavar="NAME", help="Its name at the policy's servers, or the folder of its weights."
    ),
    adapter: Path | None = Option(None, metavar="DIR", help="A LoRA adapter on the policy's weights."),
    release: str | None = Option(
        None, metavar="NAME", help="What it was trained on; by default the release of the round that awaits it."
    ),
) -> None:
    """Add a version that you have trained, measure it, and promote it or not.

    It replaces the training of a round that awaits a policy; between two rounds it is compared at once.
    """
    settings = load(config)
    from trajmill.flows.policies.addition import Addition, add_and_evaluate
    from trajmill.flows.policies.policy import PolicyInForce

    report = add_and_evaluate(settings, Addition(model, adapter, release))
    if report.waiting:
        print(report.waiting)
        return
    decided = PolicyInForce.of(report)
    print(f"{'promoted' if decided.promoted else 'not promoted'}: {decided.reason}")


@policy.command(epilog="Example: trajmill policy promote embedded-434fda10d3c1abd0")
def promote(
    version: str = Argument(..., help="A version that `trajmill policy list` shows."),
    config: ConfigFile = None,
) -> None:
    """Put a version in force whatever its success; it acts from the next stage on."""
    settings = load(config)
    from trajmill.flows.policies.addition import promote_policy

    promote_policy(settings, version)
    print(f"{version} is in force")


@policy.command(epilog="Example: trajmill policy rollback --config trajmill.toml")
def rollback(config: ConfigFile = None) -> None:
    """Replace the version in force by its parent, which acts from the next stage on."""
    settings = load(config)
    from trajmill.flows.policies.addition import roll_back_policy
    from trajmill.flows.policies.policy import PolicyInForce

    print(f"{PolicyInForce.of(roll_back_policy(settings)).policy_row.model_version} is in force")
