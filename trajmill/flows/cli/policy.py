"""Commands about the policy versions of a run: list, add, promote, rollback."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trajmill.flows.cli.loop import ConfigFile

app = typer.Typer(help="Show the policy versions of a run, add one, promote one or roll back.", no_args_is_help=True)


@app.command("list", epilog="Example: trajmill policy list --config trajmill.toml")
def list_versions(config: ConfigFile = None) -> None:
    """Show the versions of the run, where each came from, and what was decided about it last."""
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.policies.addition import list_policies

    for listed in list_policies(load_config(config)):
        row = listed.row
        decided = "promoted" if row.promoted else "not promoted"
        validation = f", validation {listed.validation}" if listed.validation else ""
        print(f"{'*' if listed.in_force else ' '} {row.model_version}")
        print(f"    round {row.round}{validation}: {decided}, {row.reason}")
        if row.parent:
            print(f"    child of {row.parent}" + (f", trained on {row.release}" if row.release else ""))
    print("* in force")


@app.command(epilog="Example: trajmill policy add --adapter adapters/round-3 --config trajmill.toml")
def add(
    config: ConfigFile = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="Its name at the policy's servers, or the folder of its weights."),
    ] = None,
    adapter: Annotated[
        Path | None, typer.Option("--adapter", metavar="DIR", help="A LoRA adapter on the policy's weights.")
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(
            "--release",
            metavar="NAME",
            help="What it was trained on; by default the release of the round that awaits it.",
        ),
    ] = None,
) -> None:
    """Add a version that you have trained, measure it, and promote it or not.

    It takes the place of the training of a round that awaits a policy; between two rounds it is compared at once.
    """
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.prefect_settings import set_quiet_defaults

    settings = load_config(config)
    set_quiet_defaults()
    from trajmill.flows.policies.addition import Addition, add_and_evaluate
    from trajmill.flows.policies.policy import PolicyInForce

    report = add_and_evaluate(settings, Addition(model, adapter, release))
    if report.waiting:
        print(report.waiting)
        return
    decided = PolicyInForce.of(report)
    print(f"{'promoted' if decided.promoted else 'not promoted'}: {decided.reason}")


@app.command(epilog="Example: trajmill policy promote embedded-434fda10d3c1abd0")
def promote(
    version: Annotated[str, typer.Argument(help="A version that `trajmill policy list` shows.")],
    config: ConfigFile = None,
) -> None:
    """Put a version in force without regard to its measured success; it acts from the next stage on."""
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.policies.addition import promote_policy

    promote_policy(load_config(config), version)
    print(f"{version} is in force")


@app.command(epilog="Example: trajmill policy rollback --config trajmill.toml")
def rollback(config: ConfigFile = None) -> None:
    """Replace the version in force by its parent, which acts from the next stage on."""
    from trajmill.flows.configuration.file import load_config
    from trajmill.flows.policies.addition import roll_back_policy
    from trajmill.flows.policies.policy import PolicyInForce

    report = roll_back_policy(load_config(config))
    print(f"{PolicyInForce.of(report).policy_row.model_version} is in force")
