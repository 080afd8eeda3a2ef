"""Commands on graphs of apps: explore a running app."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Graphs of apps: pages, elements, slots, transitions.", no_args_is_help=True, rich_markup_mode=None
)

ConfigArgument = Annotated[Path, typer.Argument(metavar="CONFIG", help="Configuration with a section [explore].")]
AppOption = Annotated[str, typer.Option("--app", metavar="NAME", help="An app of [explore.apps].")]


@app.callback()
def graph_group() -> None:
    """Graphs of apps: what their pages are and do."""


@app.command("explore", epilog="Example: trajmill graph explore docs/examples/graphs.toml --app galculator")
def explore_graph(
    config: ConfigArgument,
    name: AppOption,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="YAML file; explore.folder/NAME.yaml by default.")
    ] = None,
) -> None:
    """Walk a running app, try its elements, and write its graph; a second call goes on and keeps what people wrote."""
    from rich.console import Console

    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.graphs.explore import explore_app

    console = Console()
    settings = load_config(config)
    with console.status(f"exploring {name}") as status:
        report = explore_app(
            settings, name, out, lambda pages, trials: status.update(f"{name}: {pages} pages, {trials} trials")
        )
    found = report.explored
    console.print(
        f"pages     {len(report.graph.pages)}",
        f"trials    {len(found.trials)}, {found.actions} actions in this call",
        f"graph     {report.path}",
        sep="\n",
        soft_wrap=True,
        highlight=False,
    )
    for failure in found.failures:
        console.print(f"failure   {failure}", style="yellow", soft_wrap=True, highlight=False, markup=False)
    if not found.complete:
        console.print("not all was tried; the same command goes on", style="yellow", highlight=False)
