"""Commands on environments: app files, graphs of apps, environments for trainers, an untrained policy."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from trajmill.flows.cli.options import ConfigFile, load, print_lines
from trajmill.schemas.errors import TrajmillError

apps = typer.Typer(help="App files of the simulated phone and desktop.", no_args_is_help=True)
env = typer.Typer(help="Environments for trainers and other machines.", no_args_is_help=True)
tasks = typer.Typer(help="Task files of OSWorld.", no_args_is_help=True)
graph = typer.Typer(help="Graphs of apps: pages, elements, slots, transitions.", no_args_is_help=True)
app = typer.Typer()

AppFiles = Annotated[list[Path], Argument(metavar="FILE", help="YAML files, read with the built-in apps.")]
ConfigArgument = Annotated[Path, Argument(metavar="CONFIG", help="Configuration with a section [explore].")]
GraphFileArgument = Annotated[Path, Argument(metavar="GRAPH", help="YAML file of a graph.")]
AppOption = Annotated[str, Option("--app", metavar="NAME", help="An app of [explore.apps].")]
_MOST_LISTED = 20


@apps.command("check", epilog="Example: trajmill apps check my_app.yaml")
def check_apps(files: AppFiles) -> None:
    """List the mistakes of app files by line. Also walks the paths of their tasks."""
    from trajmill.stages.queries.tasks.source import check_app_files

    if mistakes := check_app_files(files):
        raise TrajmillError("\n".join(map(str, mistakes)))
    print(f"{len(files)} file{'s' if len(files) != 1 else ''} without mistakes")


@apps.command("generate", epilog="Example: trajmill apps generate --count 20 --seed 1 --out more-apps")
def generate_apps(
    out: Path = Option(..., metavar="FOLDER", help="Where to write; a new or empty folder."),
    count: int = Option(200, min=1, max=10_000, help="Apps to make; the first ones are the same for any count."),
    seed: int = Option(0, min=0, help="Seed; another one makes other apps."),
) -> None:
    """Generate app files from a grammar. Walks every task of them."""
    from trajmill.stages.environments.simulated.generated.generate import generated_apps, write_apps
    from trajmill.stages.queries.tasks.source import check_app_files

    made = list(islice(generated_apps(seed), count))
    if mistakes := check_app_files(write_apps(made, out)):
        raise TrajmillError("\n".join(map(str, mistakes)))
    print(f"{count} apps with {sum(len(app.file['tasks']) for app in made)} tasks, each walked, in {out}")


@apps.command("build", epilog="Example: trajmill apps build my_app.yaml --out site")
def build_apps(
    files: AppFiles, out: Path = Option(..., metavar="FOLDER", help="Where to write; a new or empty folder.")
) -> None:
    """Write app files as a static web app. It has the built-in apps, too; prints the page to open in a browser."""
    from trajmill.stages.environments.webapp.compile import compile_files, write_web_app

    print(write_web_app(compile_files(files), out))


@apps.command("serve", epilog="Example: trajmill apps serve my_app.yaml --port 8000")
def serve_apps(
    files: AppFiles, port: int = Option(8000, min=0, max=65535, help="Port on loopback; 0 picks a free one.")
) -> None:
    """Serve app files as a web app, until Ctrl-C. It has the built-in apps, too, and is for this machine only."""
    from trajmill.stages.environments.webapp.compile import HOST, compile_files, web_app_server

    with web_app_server(compile_files(files), port) as server, suppress(KeyboardInterrupt):
        print(f"http://{HOST}:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        server.serve_forever()


@tasks.command("check", epilog="Example: trajmill tasks check OSWorld/evaluation_examples/examples")
def check_task_files(
    folder: Path = Argument(..., metavar="FOLDER", help="Folder with OSWorld's task files (*.json)."),
    config: ConfigFile = None,
) -> None:
    """List task files that OSWorld's own code cannot run. Names the reasons; reads [environment.osworld]."""
    from trajmill.stages.environments.desktop.osworld.tasks import check_tasks
    from trajmill.stages.environments.desktop.spec import DesktopSpec, OsworldSpec

    environment = load(config).environment if config is not None else None
    spec = environment.osworld if isinstance(environment, DesktopSpec) else None
    checked = asyncio.run(check_tasks(folder, spec or OsworldSpec()))
    for each in checked:
        if each.reasons:
            print(f"{each.file}: {'; '.join(each.reasons)}")
    complete = sum(not each.reasons for each in checked)
    print(f"{complete} of {len(checked)} tasks are complete (checked without a machine)")


@env.command("serve", epilog="Example: trajmill env serve --port 8000 --slots 4")
def serve_env(
    config: ConfigFile = None,
    host: str = Option("127.0.0.1", help="Address to listen on; any but loopback needs --token-file."),
    port: int = Option(8000, min=0, max=65535, help="Port; 0 picks a free one."),
    slots: int = Option(8, min=1, max=1000, help="Sessions at once."),
    splits: list[str] | None = Option(None, "--split", help="Split to serve, repeatable. Default: train."),
    family: str = Option("", help="Family of the trainer's model. Default: that of models.policy."),
    judge: str = Option(
        "", metavar="NAME", help="Judge that gives the reward: `judge` (the run's own) or a [judges.NAME]."
    ),
    token_file: Path | None = Option(None, metavar="FILE", help="File with the token that clients must send."),
) -> None:
    """Serve an environment with the OpenEnv protocol, until Ctrl-C.

    Trainers step episodes of the run's queries; each becomes rows of the warehouse with purpose `online`.
    """
    settings = load(config)
    from trajmill.flows.environment_server import serve_environment

    serve = partial(serve_environment, settings, lambda address: print(f"{address} (Ctrl-C ends it)", flush=True))
    serve(slots=slots, splits=splits or (), family=family, judge=judge, host=host, port=port, token_file=token_file)


@app.command(epilog="Example: trajmill untrained --config docs/examples/pixels.toml")
def untrained(
    config: ConfigFile = None, blind: bool = Option(False, help="Make a control whose pictures are always black.")
) -> None:
    """Make a small untrained vision-language model. It is that of the policy's endpoint; an existing one stays."""
    from trajmill.flows.policies.commands import make_untrained_policy

    made = make_untrained_policy(load(config), blind)
    print(f"{made.folder.resolve()}: {made.version}" + ("" if made.is_new else " was there already"))


@graph.command("explore", epilog="Example: trajmill graph explore docs/examples/graphs.toml --app galculator")
def explore_graph(
    config: ConfigArgument,
    name: AppOption,
    out: Path | None = Option(None, metavar="FILE", help="YAML file; explore.folder/NAME.yaml by default."),
    resume: bool = Option(False, help="Continue an earlier call; fail if there is none."),
    allow_destructive: bool = Option(False, help="Also press what may delete, send, buy or log out."),
) -> None:
    """Explore a running app and write its graph. A second call continues and keeps your edits.

    At a terminal it asks before it presses what may delete, send, buy or log out.
    """
    from rich.console import Console

    from trajmill.flows.graphs.explore import explore_app
    from trajmill.stages.graphs.asked import asked_line

    settings = load(config, unneeded="graphs.files")
    while True:
        with Console().status(f"exploring {name}") as status:

            def show(pages: int, tried: int, left: int) -> None:
                status.update(f"{name}: tried {tried} of about {tried + left} on {pages} pages")

            report = explore_app(settings, name, out, show, resume, allow_destructive)
        denied = "" if allow_destructive else ", ".join(report.denied[:_MOST_LISTED])
        if not (denied and sys.stdin.isatty() and typer.confirm(f"Not pressed: {denied}. Press them, too?")):
            break
        allow_destructive = True
    found = report.explored
    print_lines(
        f"pages     {len(report.graph.pages)}",
        f"trials    {len(found.trials)}, {found.actions} actions in this call",
        f"queries   {asked_line(report.graph)}",
        f"graph     {report.path}",
    )
    notes = [f"failure   {failure}" for failure in found.failures]
    if report.left:
        places = ", ".join(f"{page} ({count})" for page, count in islice(report.left.items(), _MOST_LISTED))
        about = len(found.trials) + sum(report.left.values())
        notes += [f"left      tried {len(found.trials)} of about {about}; --resume continues; left on {places}"]
    notes += [f"denied    {denied}; --allow-destructive presses them"] if denied else []
    print_lines(*notes, style="yellow")


@graph.command("annotate", epilog="Example: trajmill graph annotate graphs/galculator.yaml --config models.toml")
def annotate_graph_file(file: GraphFileArgument, config: ConfigFile = None) -> None:
    """Let models write the missing texts of a graph. Your own texts stay.

    The describer writes titles, descriptions and what elements do; the writer names the slots. The file is written
    after each page, and a second call fills what is left.
    """
    from rich.console import Console

    from trajmill.flows.graphs.explore import annotate_file

    settings = load(config)
    with Console().status(f"annotating {file}") as status:
        report = annotate_file(settings, file, lambda done, pages: status.update(f"{file}: {done} of {pages} pages"))
    annotated, calls, left = report.annotated, report.calls, report.annotated.unfilled
    read, written = sum(call.input_tokens for call in calls), sum(call.output_tokens for call in calls)
    print_lines(
        f"written   {annotated.filled}",
        f"left      {len(left)}",
        f"models    {len(calls)} calls, {read} + {written} tokens, price {sum(call.price for call in calls):.4f}",
    )
    notes = [f"models.{role} is embedded: what it would write is left" for role in report.embedded]
    notes += [f"left      {each}" for each in left[:_MOST_LISTED]]
    notes += [f"left      and {len(left) - _MOST_LISTED} more"] if len(left) > _MOST_LISTED else []
    print_lines(*notes, style="yellow")
    if left and not annotated.filled:
        raise TrajmillError("the models wrote nothing that can be used; the file is as it was")


@graph.command("check", epilog="Example: trajmill graph check graphs/galculator.yaml")
def check_graphs(files: list[Path] = Argument(..., metavar="GRAPH", help="YAML files of graphs.")) -> None:
    """List the mistakes of graphs by line. Also lists pages where paths end, and what queries can ask for."""
    from trajmill.stages.graphs.asked import asked_line
    from trajmill.stages.graphs.check import check_graph
    from trajmill.stages.graphs.file import GraphFile, parse_graph

    mistakes: list[str] = []
    for path in files:
        file = parse_graph(path)
        if not isinstance(file, GraphFile):
            mistakes += map(str, file)
            continue
        found = check_graph(file)
        mistakes += map(str, found.mistakes)
        for remark in found.remarks:
            print(f"{remark} (no mistake)")
        print(f"{path}: {asked_line(file.graph)}")
    if mistakes:
        raise TrajmillError("\n".join(mistakes))
    print(f"{len(files)} graph{'s' if len(files) != 1 else ''} without mistakes")


@graph.command("show", epilog="Example: trajmill graph show graphs/galculator.yaml")
def show_graph(
    file: GraphFileArgument, out: Path | None = Option(None, metavar="FILE", help="HTML file; beside the graph.")
) -> None:
    """Draw a graph as one HTML file with its screenshots."""
    from trajmill.flows.graphs.explore import write_graph_page

    write_graph_page(file, page := out or file.with_suffix(".html"))
    print(page)


@graph.command("verify", epilog="Example: trajmill graph verify docs/examples/graphs.toml --app galculator")
def verify_graph_of_app(
    config: ConfigArgument,
    name: AppOption,
    file: Path | None = Option(None, "--graph", metavar="FILE", help="YAML file; explore.folder/NAME.yaml by default."),
) -> None:
    """Walk every transition of a graph, and list what changed."""
    from itertools import count

    from rich.console import Console

    from trajmill.flows.graphs.explore import verify_app
    from trajmill.stages.graphs.verify import EdgeState

    settings, walked = load(config), count(1)
    with Console().status(f"walking {name}") as status:
        place = file or settings.explore.file(name)
        report = verify_app(settings, place, lambda edge: status.update(f"{name}: {next(walked)} transitions walked"))
    print_lines(*map(str, report.notes), ", ".join(f"{report.count(state)} {state}" for state in EdgeState))
    if report.count(EdgeState.CHANGED) or report.count(EdgeState.LOST):
        raise TrajmillError("the app differs from the graph; correct the graph, or explore again")
