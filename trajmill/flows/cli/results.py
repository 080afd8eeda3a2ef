"""Commands that show what a run does and has reached, and change none of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer
from typer import Argument, Option

from trajmill.flows.cli.options import ConfigFile, Root, load, warehouse_of
from trajmill.schemas.errors import BadInputError, TrajmillError

app = typer.Typer()


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
        paths = write_images(found, warehouse, images)
        print(f"{len(paths)} pictures in {images}")


@app.command(epilog="Example: trajmill view --root trajmill-data --port 8080")
def view(
    host: str = Option(
        "127.0.0.1", help="Address to listen on; readers elsewhere need the printed link with its token."
    ),
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
) -> None:
    """Show what runs now, the last and the next flows, success, judge, money, disk, and what needs a person."""
    from trajmill.flows.new_run import runs_to_show

    warehouse = warehouse_of(config, root)
    runs = runs_to_show(config, warehouse, root)
    if live:
        from rich.console import Console

        from trajmill.flows.status.page import watch

        watch(runs[-1].config, warehouse, Console(highlight=False), runs[-1].run_id)
        return
    from trajmill.flows.status.page import status_lines

    print("\n\n".join("\n".join(status_lines(run.config, warehouse, run.run_id)) for run in runs))


@app.command(epilog="Example: trajmill doctor --config trajmill.toml")
def doctor(config: ConfigFile = None) -> None:
    """Check installation, disk, permissions, servers and the warehouse, and print how to fix what is wrong."""
    from trajmill.flows.doctor import examine

    wrong = 0
    for finding in examine(load(config)):
        print(finding.line(), flush=True)
        wrong += finding.is_wrong
    if wrong:
        raise TrajmillError(f"{wrong} {'things are' if wrong > 1 else 'thing is'} wrong")
