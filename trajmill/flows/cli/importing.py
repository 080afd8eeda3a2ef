"""The command that brings in trajectories from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trajmill.flows.cli.loop import ConfigFile, NewRun, begin_or_ask

app = typer.Typer()

_MOST_NAMED = 20


@app.command("import", epilog="Example: trajmill import agentnet ~/AgentNet/ubuntu --config trajmill.toml")
def import_(
    layout: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT", help="trajmill (our own export), agentnet, android-control, gui-odyssey or aitz."
        ),
    ],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the trajectories lie.")],
    config: ConfigFile = None,
    new_run: NewRun = False,
) -> None:
    """Bring in trajectories from elsewhere; they are judged, and what the judge accepts is trained on.

    A folder that has grown can be imported again: what is there already is left out.
    """
    from rich.console import Console

    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import names_a_server, set_quiet_defaults
    from trajmill.flows.progress import ConsoleWatcher, watched_by
    from trajmill.stages.importing.base import layout_spec

    settings, spec = load_config(config), layout_spec(layout)
    begin_or_ask(settings, new_run)
    set_quiet_defaults()
    from trajmill.flows.importing.import_folder import import_folder
    from trajmill.flows.landed_event import announce_landed

    console = Console()
    with watched_by(ConsoleWatcher(console)):
        done = import_folder(settings, spec, folder)
    for bad in done.bad[:_MOST_NAMED]:
        console.print(f"left out  {bad.name}: {bad.reason}", soft_wrap=True, highlight=False, markup=False)
    if len(done.bad) > _MOST_NAMED:
        console.print(f"left out  {len(done.bad) - _MOST_NAMED:,} more; table failures names all", highlight=False)
    unjudged = max(done.trajectories - done.judged, 0)
    not_judged = f"; {unjudged:,} could not be judged, table failures says why" if unjudged else ""
    console.print(
        f"imported  {done.trajectories:,} trajectories, {done.steps:,} steps, into round {done.round}; "
        f"{done.known:,} were there already, {len(done.bad):,} left out",
        f"judged    {done.judged:,}, accepted {done.accepted:,}; "
        f"{done.accepted_since_training:,} accepted since the last training{not_judged}",
        sep="\n",
        highlight=False,
        soft_wrap=True,
    )
    if names_a_server():
        announce_landed(settings.run.root, done.accepted_since_training, settings.serve.retrain_after_accepted)
