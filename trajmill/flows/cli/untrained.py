"""The command that makes an untrained policy."""

from __future__ import annotations

from typing import Annotated

import typer

from trajmill.flows.cli.loop import ConfigFile

app = typer.Typer()


@app.command(epilog="Example: trajmill untrained --config docs/examples/pixels.toml")
def untrained(
    config: ConfigFile = None,
    blind: Annotated[bool, typer.Option(help="Make a control whose pictures are always black.")] = False,
) -> None:
    """Make the small untrained vision-language model of the policy's endpoint, if it does not exist."""
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.configuration.untrained_policy import make_untrained_policy

    made = make_untrained_policy(load_config(config), blind)
    print(f"{made.folder.resolve()}: {made.version}" + ("" if made.is_new else " was there already"))
