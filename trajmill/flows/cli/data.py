"""Commands on a warehouse: show what it has, write data from it, bring data in, and keep it small."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from trajmill.flows.cli.options import (
    ConfigFile,
    ReleaseName,
    Root,
    load,
    print_lines,
    progress_shown,
    tell_server,
    warehouse_of,
)
from trajmill.schemas.errors import BadInputError, TrajmillError

app = typer.Typer()
releases = typer.Typer(help="List, make, compare and drop releases.", no_args_is_help=True)
app.add_typer(releases, name="releases")

_MOST_NAMED = 20
_DAYS = "Age below which nothing is deleted, instead of retention.unused_days."
Name = Annotated[str, Argument(metavar="NAME", help="Name of a release; `trajmill releases list` shows them.")]
_HOST = "Address to listen on; readers elsewhere need the printed link with its token."


@app.command(epilog='Example: trajmill sql "SELECT * FROM funnel WHERE round = 1" --format csv')
def sql(
    query: str | None = Argument(None, help="One SELECT; SHOW TABLES lists tables and views. A prompt without one."),
    form: Literal["table", "csv", "json"] = Option("table", "--format", "-f", help="How to print the rows."),
    seconds: float = Option(600.0, min=0.1, help="Longest time of a query."),
    memory: int = Option(4096, min=64, help="Most memory of a query, in MB."),
    config: ConfigFile = None,
    root: Root = None,
) -> None:
    """Query the committed rows of a warehouse with SQL (DuckDB)."""
    from trajmill.flows.sql.prompt import run_prompt
    from trajmill.warehouse.sql import QueryLimits, answer_sql, format_rows

    warehouse, limits = warehouse_of(config, root), QueryLimits(seconds, memory)
    if query is None:
        run_prompt(warehouse, form, limits)
        return
    print(format_rows(answer_sql(warehouse, query, limits).rows, form), end="")


@app.command(epilog="Example: trajmill report")
def report(
    config: ConfigFile = None,
    root: Root = None,
    run: str | None = Option(None, metavar="RUN", help="Run, if there are several."),
    out: Path | None = Option(None, metavar="FILE", help="HTML file; in the warehouse by default."),
) -> None:
    """Write the report of a run as one HTML file. With --root, writes one for each run of that warehouse."""
    from trajmill.flows.report.page import runs_to_report, write_report
    from trajmill.warehouse.views import fresh_views

    with fresh_views(warehouse_of(config, root)) as warehouse:
        configured = load(config).run_id if root is None or config is not None else None
        runs = runs_to_report(warehouse, run, configured)
        if out is not None and len(runs) > 1:
            raise BadInputError(f"--out takes the report of one run: name it with --run: {', '.join(runs)}")
        for each in runs:
            print(write_report(warehouse, each, out))


@app.command(epilog="Example: trajmill show 3f2a9c --images pictures")
def show(
    trajectory: str = Argument(..., help="Id of a trajectory, or its first characters."),
    images: Path | None = Option(None, metavar="FOLDER", help="Write each screen there, with the action drawn on it."),
    roles: bool = Option(False, "--roles", help="Also print the requests and replies of the agent's roles."),
    config: ConfigFile = None,
    root: Root = None,
) -> None:
    """Print a trajectory: steps, thoughts, role outputs, verdicts."""
    from rich.console import Console

    from trajmill.flows.terminal.show import find_trajectory, trajectory_lines, write_images

    warehouse = warehouse_of(config, root)
    found = find_trajectory(warehouse, trajectory, with_calls=roles)
    Console().print(*trajectory_lines(found), sep="\n", soft_wrap=True)
    if images is not None:
        print(f"{write_images(found, warehouse, images)} pictures in {images}")


@app.command(epilog="Example: trajmill view --root trajmill-data --port 8080")
def view(
    host: str = Option("127.0.0.1", help=_HOST),
    port: int = Option(8080, min=0, max=65535, help="Port; 0 picks a free one."),
    token_file: Path | None = Option(None, metavar="FILE", help="File with the token that readers must send."),
    config: ConfigFile = None,
    root: Root = None,
) -> None:
    """Serve the viewer of runs and trajectories, until Ctrl-C."""
    from trajmill.flows.viewer.app import serve_viewer

    warehouse = warehouse_of(config, root)
    serve_viewer(warehouse, host, port, token_file, lambda link: print(f"{link} (Ctrl-C ends it)", flush=True))


@app.command(epilog="Example: trajmill status")
def status(
    config: ConfigFile = None,
    root: Root = None,
    live: bool = Option(False, "--live", help="Show what each rollout slot waits for, every second, until Ctrl-C."),
    server: bool = Option(False, "--server", help="Show all runs of the Prefect server that PREFECT_API_URL names."),
) -> None:
    """Show what runs now, results, and what needs a person. Also the last and next flows, judge, cost and disk."""
    warehouse = None if server else warehouse_of(config, root)  # fails before the imports, which take seconds
    from trajmill.flows.new_run import runs_to_show
    from trajmill.flows.status.page import server_lines, status_of, watch

    if warehouse is None:
        print("\n".join(server_lines()))
        return
    runs = runs_to_show(config, warehouse, root)
    if live:
        from rich.console import Console

        watch(runs[-1], Console(highlight=False))
        return
    found = list(map(status_of, runs))
    print("\n\n".join("\n".join(status.lines) for status in found))
    if any(status.damaged for status in found):
        raise BadInputError("the warehouse is damaged, see `to do`; `trajmill verify` reads all its rows")


@app.command(epilog="Example: trajmill doctor")
def doctor(config: ConfigFile = None) -> None:
    """Check installation, disk, servers and warehouse. Prints how to fix what is wrong."""
    from trajmill.flows.doctor import examine

    wrong = 0
    for finding in examine(load(config)):
        print(finding.line(), flush=True)
        wrong += bool(finding.mend)
    if wrong:
        raise TrajmillError(f"{wrong} {'things are' if wrong > 1 else 'thing is'} wrong")


@app.command(epilog="Example: trajmill vacuum --dry-run")
def vacuum(
    days: float | None = Option(None, min=0, help=_DAYS),
    dry_run: bool = Option(False, "--dry-run", help="Only list the files."),
    config: ConfigFile = None,
    root: Root = None,
) -> None:
    """Delete unreferenced files. These are leftovers of killed processes and table versions that no release uses."""
    from trajmill.warehouse import upkeep

    warehouse = warehouse_of(config, root)
    age = load(config).retention.unused_days if days is None else days
    files = (upkeep.unused_files if dry_run else upkeep.vacuum)(warehouse, older_than_days=age, now=time.time())
    for file in files:
        print(file.name)
    size = sum(file.size for file in files)
    print(f"{len(files):,} unused files, {size / 1e6:,.1f} MB{'' if dry_run else ': deleted'}")


@app.command(epilog="Example: trajmill compact")
def compact(config: ConfigFile = None, root: Root = None) -> None:
    """Join small files of the tables into larger ones. No row changes; `trajmill vacuum` deletes the small files."""
    from trajmill.warehouse import upkeep

    done = upkeep.compact(warehouse_of(config, root))
    lines = [f"{table.table}: {table.files_before:,} files joined into {table.files_after:,}" for table in done]
    print("\n".join(lines or ["no table has small files to join"]))


@app.command(epilog="Example: trajmill verify")
def verify(config: ConfigFile = None, root: Root = None) -> None:
    """Read all stored files, and name damaged ones. Lists what is lost with each; `maintain` reads a part."""
    from trajmill.warehouse.upkeep import damage

    lines = list(damage(warehouse_of(config, root)))
    files = {line.partition(": ")[0] for line in lines}  # several releases may name one
    print("\n".join([*lines, f"damaged files: {len(files):,}" if lines else "everything is whole"]))
    raise typer.Exit(1 if lines else 0)


@releases.command("list", epilog="Example: trajmill releases list")
def list_releases(config: ConfigFile = None, root: Root = None) -> None:
    """List the releases with their rows and sizes. The newest of a run comes last."""
    from trajmill.warehouse.releases import read_release, release_names

    warehouse = warehouse_of(config, root)
    for name in release_names(warehouse):
        release = read_release(warehouse, name)
        rows = ", ".join(f"{file.rows:,} {file.path}" for file in release.files if file.rows)
        own, shared = (sum(file.bytes for file in files) / 1e6 for files in (release.files, release.shards))
        size = f"{own:,.1f} MB" + (f" and {shared:,.1f} MB in shards" if release.shards else "")
        print(f"{name}  {release.created_at}  round {release.round}  {size}  {rows}")


@releases.command(epilog="Example: trajmill derive grounding; trajmill releases make")
def make(config: ConfigFile = None) -> None:
    """Release the newest round again, with new derived kinds. Its first release stays."""
    from trajmill.flows.tasks.release import release_again
    from trajmill.warehouse.releases import read_release

    name = release_again(load(config))
    warehouse = warehouse_of(config, None)
    print(f"{name}  round {read_release(warehouse, name).round}  {warehouse.store.uri(f'releases/{name}')}")


@releases.command(epilog="Example: trajmill releases diff default-0a1b2c3d-r0001 default-0a1b2c3d-r0002")
def diff(
    first: Name,
    second: str = Argument(..., metavar="OTHER", help="Name of another release."),
    config: ConfigFile = None,
    root: Root = None,
) -> None:
    """Count the supervised rows in both or one of two releases."""
    from trajmill.stages.export.release import compare_releases
    from trajmill.warehouse.releases import release_folder

    warehouse = warehouse_of(config, root)
    found = compare_releases(release_folder(warehouse, first), release_folder(warehouse, second))
    print(f"{found.both:,} rows in both\n{found.only_first:,} only in {first}\n{found.only_second:,} only in {second}")


@releases.command(epilog="Example: trajmill releases drop default-0a1b2c3d-r0001")
def drop(name: Name, config: ConfigFile = None, root: Root = None) -> None:
    """Delete a release. Rows and screens stay in the tables."""
    from trajmill.warehouse.layout import sole_keeper
    from trajmill.warehouse.releases import drop_release, run_of_release

    warehouse = warehouse_of(config, root)
    with sole_keeper(warehouse, run_of_release(warehouse, name)):
        drop_release(warehouse, name)
    print(f"{name} is dropped; `trajmill vacuum` deletes what only it has named")


@releases.command(epilog="Example: trajmill releases push my-team/phone-trajectories --upload")
def push(
    repository: str = Argument(..., metavar="REPO", help="Dataset repository of the hub, as OWNER/NAME."),
    release: ReleaseName = None,
    upload: bool = Option(False, "--upload", help="Send the files; without it they are only listed."),
    public: bool = Option(False, "--public", help="Make a new repository public."),
    config: ConfigFile = None,
    root: Root = None,
) -> None:
    """Push a release to a Hugging Face hub. Lists the files; with --upload, sends them in one commit.

    HF_TOKEN has the token, HF_ENDPOINT the address of a hub other than huggingface.co.
    """
    from trajmill.flows.publishing.push import plan_push, push_planned
    from trajmill.warehouse.releases import newest_release

    warehouse = warehouse_of(config, root)
    plan = plan_push(warehouse, release if release is not None else newest_release(warehouse), repository)
    print("\n".join(plan.files))
    done = f"nothing was sent; --upload sends it to {repository}"
    done = f"pushed to {push_planned(plan, private=not public)}" if upload else done
    print(f"{len(plan.files):,} files of {plan.release}, {plan.bytes / 1e6:,.1f} MB: {done}")


@app.command(epilog="Example: trajmill export --format trl --family qwen2.5-vl --out for_trl")
def export(
    form: str = Option(
        ..., "--format", "-f", metavar="FORMAT", help="trl, grpo, verl, verl-sft, llamafactory, swift, dpo, atif, adp."
    ),
    family: str | None = Option(
        None,
        metavar="FAMILY",
        help="Model family, e.g. qwen3-vl; docs/models.md lists all. The formats atif and adp need none.",
    ),
    out: Path = Option(..., "--out", "-o", metavar="FOLDER", help="Where to write; new or empty."),
    release: ReleaseName = None,
    kind: str = Option("", metavar="KIND", help="A kind of `trajmill derive` instead of steps of attempts."),
    max_pixels: int | None = Option(None, min=1, help="Largest number of pixels of an image in training."),
    screens: int | None = Option(None, min=1, max=16, help="Screens in a prompt, as in `endpoints.NAME.screens`."),
    config: ConfigFile = None,
    root: Root = None,
) -> None:
    """Export a release in a trainer's format. The formats atif and adp export its attempts for other projects."""
    from trajmill.pipelines.export import ExportRequest, exchange_release, export_release_to
    from trajmill.schemas.dialects.families import FAMILIES, family_named
    from trajmill.schemas.names import refuse_unknown
    from trajmill.stages.export.formats.base import FORMATS, format_spec
    from trajmill.stages.export.formats.exchange import EXCHANGES, ExchangeFormat
    from trajmill.warehouse.releases import newest_release

    refuse_unknown([form], [*FORMATS.kinds(), *EXCHANGES.kinds()], "there is no export format")
    if form in EXCHANGES.kinds():
        if family or kind or max_pixels or screens:
            raise BadInputError(
                f"{form} has whole attempts in pixels: leave out --family, --kind, --max-pixels, --screens"
            )
        warehouse = warehouse_of(config, root)
        name = release if release is not None else newest_release(warehouse)
        attempts = exchange_release(warehouse, name, EXCHANGES.default_spec(form, ExchangeFormat), out)
        print(f"{name}: {attempts:,} attempts, {out}")
        return
    spec = format_spec(form)
    if family is None:
        raise BadInputError(f"{form} needs --family, the model family to train: {', '.join(FAMILIES)}")
    chosen = family_named(family).showing(screens)
    if max_pixels is not None:
        chosen = chosen.within(max_pixels)
    warehouse = warehouse_of(config, root)
    name = release if release is not None else newest_release(warehouse)
    exported = export_release_to(warehouse, ExportRequest(name, spec, chosen, out, kind))
    written, counts = exported.written, exported.counts
    steps = f"{counts.examples:,} distinct steps ({exported.repeated_rows:,} repeated rows)"
    print(f"{name}: {written.rows:,} rows of {steps}, shards: {len(written.shards)}, {out}")
    if exported.rl_written.rows:
        groups = len(exported.rl_counts.group_sizes)
        print(f"{exported.rl_written.rows:,} stored replies of {groups:,} groups with their advantages, {out}/rl_steps")
    for reason, count in (counts.left_out + exported.rl_counts.left_out).most_common():
        print(f"left out  {count:,} steps: {reason}")


@app.command("import", epilog="Example: trajmill import agentnet ~/AgentNet/ubuntu")
def import_(
    layout: str = Argument(
        ...,
        metavar="FORMAT",
        help="atif, trajmill (our own export), agentnet, android-control, gui-odyssey, amex or aitz.",
    ),
    folder: Path = Argument(..., metavar="FOLDER", help="Where the trajectories lie."),
    family: str | None = Option(
        None,
        metavar="FAMILY",
        help="atif: the model family of computer_use and mobile_use calls that are not in pixels.",
    ),
    config: ConfigFile = None,
) -> None:
    """Import trajectories and judge them. Accepted ones become training data.

    Import a folder again when it has grown: known trajectories are skipped.
    """
    from trajmill.stages.importing.base import layout_spec

    spec = layout_spec(layout, {} if family is None else {"family": family})
    settings = load(config)
    from trajmill.flows.importing.import_folder import import_folder

    with progress_shown():
        done = import_folder(settings, spec, folder)
    lines = [f"left out  {bad.name}: {bad.reason}" for bad in done.bad[:_MOST_NAMED]]
    more = len(done.bad) - _MOST_NAMED
    lines += [f"left out  {more:,} more; table failures names all"] if more > 0 else []
    unjudged = max(done.trajectories - done.judged, 0)
    not_judged = f"; {unjudged:,} could not be judged, see table failures" if unjudged else ""
    print_lines(
        *lines,
        f"imported  {done.trajectories:,} trajectories, {done.steps:,} steps, into round {done.round}; "
        f"{done.known:,} were there already, {len(done.bad):,} left out",
        f"judged    {done.judged:,}, accepted {done.accepted:,}; "
        f"{done.accepted_since_training:,} accepted since the last training{not_judged}",
    )
    if done.bad and not (done.trajectories or done.known):
        raise BadInputError(f"nothing of {folder} could be imported; the lines above say why")
    tell_server(settings)
