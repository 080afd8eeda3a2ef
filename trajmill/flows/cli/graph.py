"""Commands on graphs of apps: explore, annotate, check, show and verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trajmill.flows.cli.loop import ConfigFile
from trajmill.schemas.errors import TrajmillError

app = typer.Typer(
    help="Graphs of apps: pages, elements, slots, transitions.", no_args_is_help=True, rich_markup_mode=None
)

ConfigArgument = Annotated[Path, typer.Argument(metavar="CONFIG", help="Configuration with a section [explore].")]
GraphFileArgument = Annotated[Path, typer.Argument(metavar="GRAPH", help="YAML file of a graph.")]
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
    settings = load_config(config, before_exploring=True)
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


_MOST_TOLD = 20
"""Most texts that are named one by one because no model could write them."""


@app.command("annotate", epilog="Example: trajmill graph annotate graphs/galculator.yaml --config models.toml")
def annotate_graph_file(file: GraphFileArgument, config: ConfigFile = None) -> None:
    """Let models fill what nobody has written: titles, descriptions, what elements do, names of slots.

    The describer looks at the pictures of the pages; the writer names the slots. What people wrote stays. The file is
    written after each page, and a second call fills what is left.
    """
    from rich.console import Console

    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.graphs.annotate import annotate_file

    console = Console()
    with console.status(f"annotating {file}") as status:
        report = annotate_file(
            load_config(config), file, lambda done, pages: status.update(f"{file}: {done} of {pages} pages")
        )
    annotated, use = report.annotated, report.use
    left = annotated.unfilled
    console.print(
        f"written   {annotated.filled}",
        f"left      {len(left)}",
        f"models    {use.calls} calls, {use.input_tokens} + {use.output_tokens} tokens, price {use.price:.4f}",
        sep="\n",
        highlight=False,
    )
    for role in report.embedded:
        console.print(f"models.{role} is embedded: what it would write is left", style="yellow", highlight=False)
    for each in left[:_MOST_TOLD]:
        console.print(f"left      {each}", style="yellow", soft_wrap=True, highlight=False, markup=False)
    if len(left) > _MOST_TOLD:
        console.print(f"left      and {len(left) - _MOST_TOLD} more", style="yellow", highlight=False)
    if left and not annotated.filled:
        raise TrajmillError("the models wrote nothing that can be used; the file is as it was")


@app.command("check", epilog="Example: trajmill graph check graphs/galculator.yaml")
def check_graphs(
    files: Annotated[list[Path], typer.Argument(metavar="GRAPH...", help="YAML files of graphs.")],
) -> None:
    """Find unreachable pages, ambiguous recognisers and slots that cannot be set, by line; tell where paths end."""
    from trajmill.stages.graphs.check import check_graph
    from trajmill.stages.graphs.file import parse_graph

    mistakes: list[str] = []
    for path in files:
        reading = parse_graph(path)
        found = check_graph(reading.file) if reading.file is not None else None
        mistakes += map(str, found.mistakes if found else reading.mistakes)
        for remark in found.remarks if found else ():
            print(f"{remark} (no mistake)")
    if mistakes:
        raise TrajmillError("\n".join(mistakes))
    print(f"{len(files)} graph{'s' if len(files) != 1 else ''} without mistakes")


@app.command("show", epilog="Example: trajmill graph show graphs/galculator.yaml")
def show_graph(
    file: GraphFileArgument,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="HTML file; beside the graph.")] = None,
) -> None:
    """Draw a graph as one HTML file with its screenshots."""
    from trajmill.flows.graphs.show import write_graph_page

    page = out or file.with_suffix(".html")
    write_graph_page(file, page)
    print(page)


@app.command("verify", epilog="Example: trajmill graph verify docs/examples/graphs.toml --app galculator")
def verify_graph_of_app(
    config: ConfigArgument,
    name: AppOption,
    file: Annotated[
        Path | None, typer.Option("--graph", metavar="FILE", help="YAML file; explore.folder/NAME.yaml by default.")
    ] = None,
) -> None:
    """Walk every transition of a graph in the running app, and say what has changed."""
    from rich.console import Console

    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.graphs.verify import verify_app
    from trajmill.stages.graphs.verify import EdgeState

    console = Console()
    settings = load_config(config)
    walked = 0
    with console.status(f"walking {name}") as status:

        def progress(edge: object) -> None:
            nonlocal walked
            walked += 1
            status.update(f"{name}: {walked} transitions walked")

        report = verify_app(settings, file or settings.explore.file(name), progress)
    for note in report.notes:
        console.print(str(note), soft_wrap=True, highlight=False, markup=False)
    console.print(", ".join(f"{report.count(state)} {state}" for state in EdgeState), highlight=False)
    if report.count(EdgeState.CHANGED) or report.count(EdgeState.LOST):
        raise TrajmillError("the app is not as the graph says; correct the graph, or explore again")
