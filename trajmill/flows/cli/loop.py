"""Commands that move a run forward: the whole loop, each stage alone, judging and deriving."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from trajmill.schemas.errors import TrajmillError

if TYPE_CHECKING:
    from rich.console import Console

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
JudgeName = Annotated[
    str | None,
    typer.Option("--judge", metavar="NAME", help="With --again: a [judges.NAME]; the run's own judge if none."),
]

_FILE_WIDTH = 160


@contextmanager
def progress_shown() -> Iterator[Console]:
    """Show the progress of the work inside on the console that it yields."""
    from rich.console import Console

    from trajmill.flows.progress import ConsoleWatcher, watched_by

    console = Console()
    with watched_by(ConsoleWatcher(console)):
        yield console


@app.command(epilog="Example: trajmill evolve --config trajmill.toml --workers 2")
def evolve(config: ConfigFile = None, new_run: NewRun = False, workers: Workers = None) -> None:
    """Run the loop, round after round; a second call continues where the first stopped."""
    from trajmill.flows.configuration.check import tasks_unknown_to_judge
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import set_quiet_defaults

    settings = with_workers(load_config(config), workers)
    begin_or_ask(settings, new_run)
    set_quiet_defaults()
    from trajmill.flows.evolve import evolve as run_rounds

    with progress_shown() as console:
        warning = tasks_unknown_to_judge(settings)
        if warning is not None:
            console.print(warning, style="yellow", soft_wrap=True, highlight=False)
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
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import set_quiet_defaults

    settings = load_config(config)
    set_quiet_defaults()
    from trajmill.flows.walk import walk as walk_queries

    with progress_shown() as console:
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
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import set_quiet_defaults

    settings = load_config(config)
    set_quiet_defaults()
    from trajmill.flows.walk import walk_for_pathways

    with progress_shown() as console:
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
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import names_a_server, set_quiet_defaults

    settings = load_config(config_file)
    begin_or_ask(settings, new_run)
    set_quiet_defaults()
    from trajmill.flows.landed_event import announce_landed
    from trajmill.flows.round import run_stage

    with progress_shown() as console:
        done = run_stage(stage, settings)
    if done.waiting:
        console.print(done.waiting, style="yellow", soft_wrap=True, highlight=False, markup=False)
        return
    count = done.count
    console.print(
        f"{count.stage}: {count.rows_in:,} in, {count.rows_out:,} out, {count.seconds:.1f} s", highlight=False
    )
    if stage in ("judge", "guide") and names_a_server():
        announce_landed(settings)


@app.command(epilog="Example: trajmill judge --again --judge NAME --round 3")
def judge(
    config: ConfigFile = None,
    again: Annotated[
        bool, typer.Option("--again", help="Judge stored trajectories again; the verdicts that they have are kept.")
    ] = False,
    name: JudgeName = None,
    round_number: Annotated[
        int | None,
        typer.Option("--round", metavar="N", min=1, max=9999, help="With --again: only trajectories of this round."),
    ] = None,
) -> None:
    """Judge the steps and the outcome of the current round's trajectories; a second call does nothing.

    With --again, judge all stored finished trajectories of the run again, without any environment. The new verdicts
    carry the judge's name (view judgements_side_by_side), and nothing is trained on them.
    """
    if not again and (name is not None or round_number is not None):
        raise typer.BadParameter("--judge and --round go with --again")
    if not again:
        run_alone("judge", config)
        return
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.judging.rejudge import rejudge

    with progress_shown() as console:
        made = rejudge(load_config(config), name, round_number)
    apart = f", {made.unjudged:,} could not be judged (see failures)" if made.unjudged else ""
    console.print(
        f"{made.trajectories:,} trajectories: {made.judged:,} judged, {made.before:,} judged before{apart}",
        highlight=False,
    )


@app.command(epilog="Example: trajmill calibrate --judge NAME --labels trajectories")
def calibrate(
    config: ConfigFile = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--judge", metavar="NAME", help="A [judges.NAME], once for each; the run's own judge if none."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", metavar="FOLDER", help="A labelled set in AgentRewardBench's layout."),
    ] = None,
) -> None:
    """Measure how good judges are, ingredient by ingredient, and what a verdict costs.

    The labels are the programmatic rewards of the run's stored trajectories, or those of a labelled set.
    """
    from rich.console import Console

    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.judging.calibrate import calibrate as measure
    from trajmill.flows.progress import ConsoleWatcher, watched_by
    from trajmill.flows.terminal.calibration_table import calibration_table

    console = Console()
    # Without a terminal, the table need not fit into a width.
    console = console if console.is_terminal else Console(width=_FILE_WIDTH)
    with watched_by(ConsoleWatcher(console)):
        for calibrated in measure(load_config(config), names or (), labels):
            console.print(calibration_table(calibrated))


@app.command(epilog="Example: trajmill derive step")
def derive(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            help="step, grounding, action_semantics, reasoning, planning, roles, ces, coda or rft; none for the stage.",
        ),
    ] = None,
    config: ConfigFile = None,
    new_run: NewRun = False,
) -> None:
    """Derive training data from stored trajectories; a second call derives only from what is new.

    Without a KIND: the examples and RL rows of the current round, which is a stage of it. With a KIND: further training
    data of that kind from all judged trajectories of the run, in table `examples` beside those; what was refused is in
    table `refusals` with the reason.
    """
    if kind is None:
        run_alone("derive", config, new_run)
        return
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.deriving.derive_kind import derive_kind

    with progress_shown() as console:
        made = derive_kind(load_config(config), kind)
    lines = [f"{kind}: {made.examples:,} examples from {made.trajectories:,} trajectories"]
    lines += [f"refused   {count:,} {reason}" for reason, count in sorted(made.refused.items(), key=_most_first)]
    lines += [f"failed    {made.failures:,} (see failures)"] if made.failures else []
    console.print(*lines, sep="\n", highlight=False, soft_wrap=True)


def _most_first(entry: tuple[str, int]) -> tuple[int, str]:
    reason, count = entry
    return -count, reason
