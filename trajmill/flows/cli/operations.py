"""Commands to operate a run, its deployments and its policy versions, and to show what it does and has reached."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from trajmill.flows.cli.options import ConfigFile, NewRun, Root, begin, begin_or_ask, load, print_lines, warehouse_of
from trajmill.schemas.errors import BadInputError, TrajmillError

app = typer.Typer()
policy = typer.Typer(help="Show the policy versions of a run, add one, promote one or roll back.", no_args_is_help=True)

Replace = Annotated[bool, Option("--replace", help="Take the place of another run's deployments of this name.")]
_HOST = "Address to listen on; readers elsewhere need the printed link with its token."


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
        let = f"Let other commands report to it: export PREFECT_API_URL={address}"
        print_lines(f"Prefect server: {address}", let)
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
    from trajmill.flows.nights.deployments import deploy_to, refuse_to_replace
    from trajmill.flows.nights.log import remember_server
    from trajmill.warehouse.layout import create_warehouse

    if not replace:
        refuse_to_replace(settings)
    names = deploy_to(pool, settings, worker_config or here, image, variables)
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
        row, validation = listed.row, f", validation {listed.validation}" if listed.validation else ""
        decided = "promoted" if row.promoted else "not promoted"
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


class RowFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


@app.command(epilog='Example: trajmill sql "SELECT * FROM funnel WHERE round = 1" --format csv')
def sql(
    query: str | None = Argument(None, help="One SELECT; SHOW TABLES lists tables and views. A prompt without one."),
    form: RowFormat = Option(RowFormat.TABLE, "--format", "-f", help="How to print the rows."),
    seconds: float = Option(600.0, min=0.1, help="Longest time of a query."),
    memory: int = Option(4096, min=64, help="Most memory of a query, in MB."),
    config: ConfigFile = None,
    root: Root = None,
) -> None:
    """Query the committed rows of a warehouse with SQL (DuckDB)."""
    from trajmill.flows.sql.prompt import run_prompt
    from trajmill.warehouse.sql import QueryLimits, answer_sql, format_rows

    warehouse, limits = warehouse_of(config, root), QueryLimits(seconds, memory)
    if query is None:
        run_prompt(warehouse, form.value, limits)
        return
    print(format_rows(answer_sql(warehouse, query, limits).rows, form.value), end="")


@app.command(epilog="Example: trajmill report")
def report(
    config: ConfigFile = None,
    root: Root = None,
    run: str | None = Option(None, metavar="RUN", help="Run, if there are several."),
    out: Path | None = Option(None, metavar="FILE", help="HTML file; in the warehouse by default."),
) -> None:
    """Write the report of a run as one HTML file, and print its path; with --root, of each run of that warehouse."""
    from trajmill.flows.report.page import runs_to_report, write_report
    from trajmill.warehouse.views import fresh_views

    with fresh_views(warehouse_of(config, root)) as warehouse:
        configured = load(config).run_id if root is None or config is not None else None
        runs = runs_to_report(warehouse, run, configured)
        if out is not None and len(runs) > 1:
            raise BadInputError(f"--out takes the report of one run: name it with --run: {', '.join(runs)}")
        for each in runs:
            print(write_report(warehouse, each, out))


@app.command(epilog="Example: trajmill show 3f2a9c --images pictures")
def show(
    trajectory: str = Argument(..., help="Id of a trajectory, or how it starts."),
    images: Path | None = Option(None, metavar="FOLDER", help="Write each screen there, with the action drawn on it."),
    roles: bool = Option(False, "--roles", help="Print what each role of the agent was asked and answered, too."),
    config: ConfigFile = None,
    root: Root = None,
) -> None:
    """Print a trajectory: its steps, the thoughts, the outputs of the agent's roles, and the verdicts."""
    from rich.console import Console

    from trajmill.flows.terminal.show import find_trajectory, print_trajectory, write_images

    warehouse = warehouse_of(config, root)
    found = find_trajectory(warehouse, trajectory, with_calls=roles)
    print_trajectory(found, Console())
    if images is not None:
        print(f"{write_images(found, warehouse, images)} pictures in {images}")


@app.command(epilog="Example: trajmill view --root trajmill-data --port 8080")
def view(
    host: str = Option("127.0.0.1", help=_HOST),
    port: int = Option(8080, min=0, max=65535, help="0 for any that is free."),
    token_file: Path | None = Option(None, metavar="FILE", help="File with the token that readers must send."),
    config: ConfigFile = None,
    root: Root = None,
) -> None:
    """Serve pages of runs, rounds and trajectories for a browser, until Ctrl-C."""
    from trajmill.flows.viewer.app import serve_viewer

    warehouse = warehouse_of(config, root)
    serve_viewer(warehouse, host, port, token_file, lambda link: print(f"{link} (Ctrl-C ends it)", flush=True))


@app.command(epilog="Example: trajmill status --config trajmill.toml")
def status(
    config: ConfigFile = None,
    root: Root = None,
    live: bool = Option(False, "--live", help="Show what each rollout slot waits for, every second, until Ctrl-C."),
    server: bool = Option(False, "--server", help="Show all runs of the Prefect server that PREFECT_API_URL names."),
) -> None:
    """Show what runs now, the last and the next flows, success, judge, money, disk, and what needs a person."""
    from trajmill.flows.new_run import runs_to_show
    from trajmill.flows.status.page import server_lines, status_lines, watch

    if server:
        print("\n".join(server_lines()))
        return
    warehouse = warehouse_of(config, root)
    runs = runs_to_show(config, warehouse, root)
    if live:
        from rich.console import Console

        watch(runs[-1].config, warehouse, Console(highlight=False), runs[-1].run_id)
        return
    print("\n\n".join("\n".join(status_lines(run.config, warehouse, run.run_id)) for run in runs))


@app.command(epilog="Example: trajmill doctor --config trajmill.toml")
def doctor(config: ConfigFile = None) -> None:
    """Check installation, disk, permissions, servers and the warehouse, and print how to fix what is wrong."""
    from trajmill.flows.doctor import examine

    wrong = 0
    for finding in examine(load(config)):
        print(finding.line(), flush=True)
        wrong += bool(finding.mend)
    if wrong:
        raise TrajmillError(f"{wrong} {'things are' if wrong > 1 else 'thing is'} wrong")
