"""Commands for whoever operates a run."""

from __future__ import annotations

from typing import Annotated

import typer

from trajmill.flows.cli.loop import ConfigFile
from trajmill.flows.cli.results import Root, warehouse_of
from trajmill.schemas.errors import TrajmillError

app = typer.Typer()


@app.command(epilog="Example: trajmill status --config trajmill.toml")
def status(
    config: ConfigFile = None,
    root: Root = None,
    live: Annotated[
        bool, typer.Option("--live", help="Show what each rollout slot waits for, every second, until Ctrl-C.")
    ] = False,
) -> None:
    """Show what runs now, the last and the next flows, success, judge, money, disk, and what needs a person."""
    from trajmill.flows.configuration.file import load_config

    settings, warehouse = load_config(config), warehouse_of(config, root)
    if live:
        from rich.console import Console

        from trajmill.flows.status.live import watch

        watch(settings, warehouse, Console(highlight=False))
        return
    from trajmill.flows.status.page import status_lines

    print("\n".join(status_lines(settings, warehouse)))


@app.command(epilog="Example: trajmill doctor --config trajmill.toml")
def doctor(config: ConfigFile = None) -> None:
    """Check installation, disk, permissions, servers and the warehouse; say what is wrong, and what mends it."""
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.doctor.examination import examine

    wrong = 0
    for finding in examine(load_config(config)):
        print(finding.line(), flush=True)
        wrong += finding.is_wrong
    if wrong:
        raise TrajmillError(f"{wrong} {'things are' if wrong > 1 else 'thing is'} wrong")
