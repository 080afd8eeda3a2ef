"""The command that writes a release as the folder that a trainer reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trajmill.flows.cli.loop import ConfigFile
from trajmill.flows.cli.results import Root, warehouse_of

app = typer.Typer()


@app.command(epilog="Example: trajmill export --format trl --family qwen2.5-vl --out for_trl")
def export(
    form: Annotated[
        str, typer.Option("--format", "-f", metavar="FORMAT", help="trl, grpo, verl, verl-sft, llamafactory or swift.")
    ],
    family: Annotated[
        str,
        typer.Option(
            "--family", metavar="FAMILY", help="gui-owl, gui-owl-1.5, qwen2.5-vl, qwen3-vl or ui-tars: whose words."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where to write; new or empty.")],
    release: Annotated[
        str | None, typer.Option("--release", metavar="NAME", help="The newest release if none.")
    ] = None,
    kind: Annotated[
        str,
        typer.Option("--kind", metavar="KIND", help="A derived kind instead of steps of attempts."),
    ] = "",
    max_pixels: Annotated[
        int | None,
        typer.Option("--max-pixels", min=1, help="Bound on a picture's pixels that the model is trained with."),
    ] = None,
    config: ConfigFile = None,
    root: Root = None,
) -> None:
    """Write a release as the folder that a trainer reads, for one family of models."""
    from trajmill.pipelines.export import ExportRequest, export_release_to
    from trajmill.schemas.dialects.families import family_named
    from trajmill.stages.export.formats.base import format_spec
    from trajmill.warehouse.releases import newest_release

    spec, chosen = format_spec(form), family_named(family)
    if max_pixels is not None:
        chosen = chosen.within(max_pixels)
    warehouse = warehouse_of(config, root)
    name = release if release is not None else newest_release(warehouse)
    exported = export_release_to(warehouse, ExportRequest(name, spec, chosen, out, kind))
    written, counts = exported.written, exported.counts
    print(
        f"{name}: {written.rows:,} rows of {counts.examples:,} distinct steps ({exported.repeated_rows:,} repeated "
        f"rows) in {len(written.shards)} shards, {out}"
    )
    if exported.rl_written.rows:
        groups = len(exported.rl_counts.group_sizes)
        print(f"{exported.rl_written.rows:,} stored replies of {groups:,} groups with their advantages, {out}/rl_steps")
    for reason, count in (counts.left_out + exported.rl_counts.left_out).most_common():
        print(f"left out  {count:,} steps: {reason}")
