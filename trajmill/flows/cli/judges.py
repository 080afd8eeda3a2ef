"""Commands about judges: judge the current round, judge stored trajectories again, measure how good a judge is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trajmill.flows.cli.loop import ConfigFile, run_alone

app = typer.Typer()

_FILE_WIDTH = 160

JudgeName = Annotated[
    str | None,
    typer.Option("--judge", metavar="NAME", help="With --again: a [judges.NAME]; the run's own judge if none."),
]


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
    from rich.console import Console

    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.judging.rejudge import rejudge
    from trajmill.flows.progress import ConsoleWatcher, watched_by

    console = Console()
    with watched_by(ConsoleWatcher(console)):
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
