"""Options and steps that commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

if TYPE_CHECKING:
    from rich.console import Console

    from trajmill.flows.configuration.config import Config
    from trajmill.warehouse.layout import Warehouse

ConfigFile = Annotated[
    Path | None,
    Option("--config", "-c", metavar="FILE", help="Configuration file. Default: ./trajmill.toml, if it exists."),
]
NewRun = Annotated[bool, Option("--new-run", help="Begin a new run if the configuration has changed.")]
_ROOT = "Folder or s3://, gs://, abfs:// URL of the warehouse. Default: configured one."
Root = Annotated[str | None, Option("--root", metavar="PLACE", help=_ROOT)]
ReleaseName = Annotated[str | None, Option("--release", metavar="NAME", help="The newest release if none.")]


def load(config_file: Path | None, unneeded: str = "") -> Config:
    """Read the configuration and quieten Prefect; call before importing modules that import Prefect."""
    # All specs take a quarter of a second to import.
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import set_quiet_defaults

    config = load_config(config_file, unneeded)
    set_quiet_defaults()
    return config


def begin(config_file: Path | None, new_run: bool, store: bool = True) -> Config:
    """Begin or continue the run; confirm a second run of its name on a terminal, elsewhere require `--new-run`.

    Without `store`, leave the storing to the caller's `begin_or_continue`: a refusal until then leaves no run behind.
    """
    config = load(config_file)
    from trajmill.flows.new_run import NewRunError, begin_or_continue, refuse_new_run

    try:
        if not new_run:
            refuse_new_run(config)
    except NewRunError as error:
        if not (sys.stdin.isatty() and typer.confirm(f"{error}\nBegin it?", err=True)):
            raise
    if store:
        begin_or_continue(config, new_run=True)
    return config


def warehouse_of(config_file: Path | None, root: str | None) -> Warehouse:
    from trajmill.warehouse.layout import open_warehouse

    return open_warehouse(load(config_file, unneeded="beam").run.root if root is None else root)


@contextmanager
def progress_shown(width_of_file: int | None = None) -> Iterator[Console]:
    """Show progress on the yielded console, which has this width if it is no terminal."""
    from rich.console import Console

    from trajmill.flows.progress import ConsoleWatcher, watched_by

    console = Console(markup=False)
    console = console if console.is_terminal else Console(width=width_of_file, markup=False)
    with watched_by(ConsoleWatcher(console)):
        yield console


def tell_server(config: Config) -> None:
    """Tell a named Prefect server what has landed, so that it may start the retraining."""
    from trajmill.flows.prefect_settings import names_a_server

    if names_a_server():
        from trajmill.flows.evolve import announce_landed
        from trajmill.flows.stage import RoundContext

        announce_landed(RoundContext.of(config))


def print_lines(*lines: str, style: str = "") -> None:
    """Print lines as they are: no wrapping, markup or highlighting."""
    from rich.console import Console

    if lines:
        Console().print(*lines, sep="\n", style=style, soft_wrap=True, highlight=False, markup=False)
