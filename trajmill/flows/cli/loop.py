"""Commands that move a run forward: the whole loop, and each stage alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from trajmill.schemas.errors import TrajmillError

if TYPE_CHECKING:
    from trajmill.flows.configuration.config import Config

app = typer.Typer()

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Configuration; trajmill.toml of this folder if there is one."),
]


NewRun = Annotated[
    bool,
    typer.Option("--new-run", help="Begin a new run if the configuration has changed."),
]


Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, max=256, help="Worker processes side by side, instead of rollout.workers."),
]


@app.command(epilog="Example: trajmill evolve --config trajmill.toml --workers 2")
def evolve(config: ConfigFile = None, new_run: NewRun = False, workers: Workers = None) -> None:
    """Run the loop, round after round; a second call continues where the first stopped."""
    from rich.console import Console

    from trajmill.flows.configuration.check import tasks_unknown_to_judge
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import set_quiet_defaults
    from trajmill.flows.progress import ConsoleWatcher, watched_by

    settings = with_workers(load_config(config), workers)
    begin_or_ask(settings, new_run)
    set_quiet_defaults()
    from trajmill.flows.evolve import evolve as run_rounds

    console = Console()
    warning = tasks_unknown_to_judge(settings)
    if warning is not None:
        console.print(warning, style="yellow", soft_wrap=True, highlight=False)
    with watched_by(ConsoleWatcher(console)):
        report = run_rounds(settings)
    run = settings.run_id
    console.print(f"\nreport    {report.report_path}", f"release   {report.release}", sep="\n", soft_wrap=True)
    query = f"SELECT round, split, success_rate, low, high FROM success_by_round WHERE run_id = '{run}'"
    at = "" if config is None else f" --config {config}"
    console.print(f'ask       trajmill sql "{query}"{at}', soft_wrap=True, highlight=False)
    if report.waiting:
        console.print(f"\n{report.waiting}", style="yellow", soft_wrap=True, highlight=False, markup=False)


@app.command(epilog="Example: trajmill walk --config docs/examples/desktop.toml")
def walk(
    config: ConfigFile = None,
    queries: Annotated[int, typer.Option(min=1, max=10_000, help="How many queries to try.")] = 12,
    source: Annotated[str, typer.Option(help="Only queries made in one way, e.g. atomic or pathway.")] = "",
) -> None:
    """Try an environment: walk the annotated paths of some queries in it; explore where a query has none."""
    from rich.console import Console

    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import set_quiet_defaults
    from trajmill.flows.progress import ConsoleWatcher, watched_by

    settings = load_config(config)
    set_quiet_defaults()
    from trajmill.flows.walk import walk as walk_queries

    console = Console()
    with watched_by(ConsoleWatcher(console)):
        walked = walk_queries(settings, queries, source)
    console.print(walked.table)
    console.print(f"report    {walked.report_path}", soft_wrap=True, highlight=False)
    if walked.all_failed:
        raise TrajmillError("every walk failed; the table and the report say why")


@app.command(epilog="Example: trajmill pathways mousepad pcmanfm --config docs/examples/desktop.toml")
def pathways(
    programs: Annotated[list[str] | None, typer.Argument(metavar="[PROGRAM]...", help="Programs to walk.")] = None,
    config: ConfigFile = None,
) -> None:
    """Walk the menus, dialogs and tabs of programs, and make queries from them; a second call does nothing."""
    from rich.console import Console

    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import set_quiet_defaults
    from trajmill.flows.progress import ConsoleWatcher, watched_by

    settings = load_config(config)
    set_quiet_defaults()
    from trajmill.flows.pathways import walk_for_pathways

    console = Console()
    with watched_by(ConsoleWatcher(console)):
        found = walk_for_pathways(settings, tuple(programs or ()))
    console.print(found.table)
    made = ", ".join(f"{count} {split}" for split, count in found.queries.items())
    lines = (f"queries   {made}", f"failures  {found.failures}", f"report    {found.report_path}")
    console.print(*lines, sep="\n", soft_wrap=True, highlight=False)


class StageCommand(NamedTuple):
    """A stage that can be run alone."""

    name: str
    purpose: str


STAGE_COMMANDS = (
    StageCommand("generate", "Sample queries from the navigation graphs, and measure the untrained policy."),
    StageCommand("rollout", "Attempt training queries with the policy in force."),
    StageCommand("guide", "Write guidance for queries that failed, attempt them again, and judge that."),
    StageCommand("release", "Write the release: Parquet files for the trainers, card and manifest."),
    StageCommand("train", "Train the policy on the release."),
    StageCommand("evaluate", "Measure the new policy on held-out queries, and promote it or not."),
)


def _stage_command(stage: StageCommand) -> Callable[[Path | None, bool], None]:
    def command(config: ConfigFile = None, new_run: NewRun = False) -> None:
        run_alone(stage.name, config, new_run)

    command.__doc__ = f"{stage.purpose} (One stage of the current round; done once, however often it is asked for.)"
    return command


for _stage in STAGE_COMMANDS:
    app.command(_stage.name, epilog=f"Example: trajmill {_stage.name} --config trajmill.toml")(_stage_command(_stage))


def with_workers(config: Config, workers: int | None) -> Config:
    """The configuration with another number of workers; the same one for None."""
    if workers is None:
        return config
    return config.model_copy(update={"rollout": config.rollout.model_copy(update={"workers": workers})})


def begin_or_ask(config: Config, new_run: bool) -> None:
    """Ask on a terminal before a new run is begun beside the last one; elsewhere refuse to, without `--new-run`."""
    from trajmill.flows.new_run import NewRunError, begin_or_continue

    try:
        begin_or_continue(config, new_run)
    except NewRunError as error:
        if not (sys.stdin.isatty() and typer.confirm(f"{error}\nBegin it?", err=True)):
            raise
        begin_or_continue(config, new_run=True)


def run_alone(stage: str, config_file: Path | None, new_run: bool = False) -> None:
    """Run one stage of the current round and print its counts."""
    from rich.console import Console

    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import names_a_server, set_quiet_defaults
    from trajmill.flows.progress import ConsoleWatcher, watched_by

    settings = load_config(config_file)
    begin_or_ask(settings, new_run)
    set_quiet_defaults()
    from trajmill.flows.landed_event import accepted_since_training, announce_landed
    from trajmill.flows.round import run_stage

    console = Console()
    with watched_by(ConsoleWatcher(console)):
        done = run_stage(stage, settings)
    if done.waiting:
        console.print(done.waiting, style="yellow", soft_wrap=True, highlight=False, markup=False)
        return
    count = done.count
    console.print(
        f"{count.stage}: {count.rows_in:,} in, {count.rows_out:,} out, {count.seconds:.1f} s", highlight=False
    )
    if stage in ("judge", "guide") and names_a_server():
        announce_landed(settings.run.root, accepted_since_training(settings), settings.serve.retrain_after_accepted)
