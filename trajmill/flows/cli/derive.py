"""The command `trajmill derive`: a stage of the current round, or further kinds of data from what is stored."""

from __future__ import annotations

from typing import Annotated

import typer

from trajmill.flows.cli.loop import ConfigFile, NewRun, run_alone

app = typer.Typer()


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
    from rich.console import Console

    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.deriving.derive_kind import derive_kind
    from trajmill.flows.progress import ConsoleWatcher, watched_by

    console = Console()
    with watched_by(ConsoleWatcher(console)):
        made = derive_kind(load_config(config), kind)
    lines = [f"{kind}: {made.examples:,} examples from {made.trajectories:,} trajectories"]
    lines += [f"refused   {count:,} {reason}" for reason, count in sorted(made.refused.items(), key=_most_first)]
    lines += [f"failed    {made.failures:,} (see failures)"] if made.failures else []
    console.print(*lines, sep="\n", highlight=False, soft_wrap=True)


def _most_first(entry: tuple[str, int]) -> tuple[int, str]:
    reason, count = entry
    return -count, reason
