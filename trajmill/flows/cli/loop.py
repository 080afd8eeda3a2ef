"""Commands that move a run forward: the loop, its stages, judging, deriving, deployments and policy versions."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from trajmill.flows.cli.options import ConfigFile, NewRun, begin, load, print_lines, progress_shown, tell_server
from trajmill.schemas.errors import BadInputError, TrajmillError

app = typer.Typer()
policy = typer.Typer(help="List, add, promote and roll back policy versions.", no_args_is_help=True)

_KIND = "step, grounding, grounding_rl, action_semantics, reasoning, planning, roles, ces, coda, rft, forks, judge, prm"
_WORKERS = "Processes that work side by side, instead of rollout.workers."
Workers = Annotated[int | None, Option("--workers", min=1, max=256, help=_WORKERS)]
Replace = Annotated[bool, Option("--replace", help="Take the place of another run's deployments of this name.")]

STAGE_COMMANDS = {
    "generate": "Sample queries, and measure the untrained policy.",
    "rollout": "Attempt training queries with the policy in force.",
    "guide": "Write hints for failed queries. Then attempt these again and judge the attempts.",
    "release": "Write the release: Parquet files, card and manifest.",
    "evaluate": "Measure the new policy, and promote it or not.",
}
"""The stages that are commands of their own, with their help."""


@app.command(epilog="Example: trajmill evolve --workers 2")
def evolve(config: ConfigFile = None, new_run: NewRun = False, workers: Workers = None) -> None:
    """Run the loop, round after round. A second call continues where the first stopped."""
    settings = begin(config, new_run)
    if workers is not None:
        rollout = settings.rollout.model_copy(update={"workers": workers})
        settings = settings.model_copy(update={"rollout": rollout})
    from trajmill.flows.configuration.file import tasks_unknown_to_judge
    from trajmill.flows.evolve import evolve as run_rounds

    warning = tasks_unknown_to_judge(settings)
    with progress_shown():
        print_lines(*([warning] if warning else []), style="yellow")
        report = run_rounds(settings)
    query = f"SELECT round, split, success_rate, low, high FROM success_by_round WHERE run_id = '{settings.run_id}'"
    ask = f'trajmill sql "{query}"' + ("" if config is None else f" --config {config}")
    print_lines(f"\nreport    {report.report_path}", f"release   {report.release}", f"ask       {ask}")
    print_lines(*([f"\n{report.waiting}"] if report.waiting else []), style="yellow")


@app.command(epilog="Example: trajmill walk --queries 20")
def walk(
    config: ConfigFile = None,
    queries: int = Option(12, min=1, max=10_000, help="How many queries to try."),
    source: str = Option("", help="Only queries made in one way, e.g. atomic or pathway."),
) -> None:
    """Try an environment. Walks the annotated paths of some queries, and explores for queries without one."""
    settings = load(config)
    from trajmill.flows.walk import walk as walk_queries

    with progress_shown() as console:
        walked = walk_queries(settings, queries, source)
    console.print(walked.table)
    print_lines(f"report    {walked.report_path}")
    if walked.all_failed:
        raise TrajmillError("every walk failed; the table and the report say why")


@app.command(epilog="Example: trajmill pathways mousepad pcmanfm --config docs/examples/desktop.toml")
def pathways(
    programs: list[str] | None = Argument(None, metavar="PROGRAM", help="Programs to walk."),
    config: ConfigFile = None,
) -> None:
    """Make queries from menus, dialogs and tabs of programs. A second call does nothing."""
    settings = load(config)
    from trajmill.flows.walk import walk_for_pathways

    with progress_shown() as console:
        found = walk_for_pathways(settings, tuple(programs or ()))
    console.print(found.table)
    made = ", ".join(f"{count} {split}" for split, count in found.queries.items())
    print_lines(f"queries   {made}", f"failures  {found.failures}", f"report    {found.report_path}")


def _add_stage_command(stage: str, purpose: str) -> None:
    about = f"{purpose} (One stage of the current round; a second call does nothing.)"

    @app.command(stage, help=about, epilog=f"Example: trajmill {stage}")
    def command(config: ConfigFile = None, new_run: NewRun = False) -> None:
        _run_alone(stage, config, new_run)


for _stage, _purpose in STAGE_COMMANDS.items():
    _add_stage_command(_stage, _purpose)


@app.command(epilog="Example: trajmill train")
def train(
    config: ConfigFile = None,
    new_run: NewRun = False,
    recipe: str | None = Option(None, metavar="NAME", help="A [recipes.NAME], for a model that is not the policy."),
) -> None:
    """Train the policy on the release of the current round. A second call does nothing.

    With --recipe, train another model, such as a judge, on the run's stored rows. No round and no policy changes.
    """
    if recipe is None:
        _run_alone("train", config, new_run)
        return
    settings = load(config)
    from trajmill.flows.tasks.train import train_beside

    with progress_shown():
        made = train_beside(settings, recipe)
    counts = f"{made.report.rows:,} rows of {made.release}, {made.report.updates:,} updates"
    print_lines(f"trained   {counts}, loss {made.report.loss:.4f}", f"weights   {made.folder}")


def _run_alone(stage: str, config: Path | None, new_run: bool) -> None:
    """Run one stage of the current round and print its counts."""
    settings = begin(config, new_run)
    from trajmill.flows.round import run_stage

    with progress_shown():
        done = run_stage(stage, settings)
    if done.waiting:
        print_lines(done.waiting, style="yellow")
        return
    count = done.count
    print_lines(f"{count.stage}: {count.rows_in:,} in, {count.rows_out:,} out, {count.seconds:.1f} s")
    if stage in ("judge", "guide"):
        tell_server(settings)


@app.command(epilog="Example: trajmill judge --again --judge strict --round 3")
def judge(
    config: ConfigFile = None,
    new_run: NewRun = False,
    again: bool = Option(False, "--again", help="Judge stored trajectories again, and keep their verdicts."),
    name: str | None = Option(
        None, "--judge", metavar="NAME", help="With --again: a [judges.NAME]; the run's own judge if none."
    ),
    round_number: int | None = Option(
        None, "--round", metavar="N", min=1, max=9999, help="With --again: only trajectories of this round."
    ),
) -> None:
    """Judge the trajectories of the current round. A second call does nothing.

    With --again, judge all stored finished trajectories of the run again, without any environment. The new verdicts
    have the judge's name (view judgements_side_by_side). Nothing is trained on them.
    """
    if not again:
        if name is not None or round_number is not None:
            raise BadInputError("--judge and --round need --again")
        _run_alone("judge", config, new_run)
        return
    settings = load(config)
    from trajmill.flows.judging import rejudge

    with progress_shown():
        made = rejudge(settings, name, round_number)
    apart = f", {made.unjudged:,} could not be judged (see failures)" if made.unjudged else ""
    print_lines(f"{made.trajectories:,} trajectories: {made.judged:,} judged, {made.before:,} judged before{apart}")


@app.command(epilog="Example: trajmill calibrate --judge strict --labels AgentRewardBench")
def calibrate(
    config: ConfigFile = None,
    names: list[str] | None = Option(
        None, "--judge", metavar="NAME", help="A [judges.NAME], once for each; the run's own judge if none."
    ),
    labels: Path | None = Option(None, metavar="FOLDER", help="A labelled set: AgentRewardBench or CUAVerifierBench."),
    heldout: bool = Option(False, "--heldout", help="Only attempts at queries that nothing is trained on."),
) -> None:
    """Measure precision, recall and cost of judges. Also of their channels and critics.

    The labels are the programmatic rewards of the run's stored trajectories, or those of a labelled set.
    """
    settings = load(config)
    from trajmill.flows.judging import calibrate as measure
    from trajmill.flows.terminal.show import calibration_table

    with progress_shown(width_of_file=160) as console:
        for calibrated in measure(settings, names or (), labels, heldout):
            console.print(calibration_table(calibrated))


@app.command(epilog="Example: trajmill compare 641dc79f qwen-32b")
def compare(
    a: str = Argument(..., help="A policy version, or a part of it, or the NAME of an [endpoints.NAME]."),
    b: str = Argument(..., help="The other one."),
    out: Path | None = Option(None, metavar="FOLDER", help="For the page and the rows; in the warehouse by default."),
    config: ConfigFile = None,
) -> None:
    """Compare two policies or models on equal queries and seeds. Prints a paired test and what changed sides.

    A version is compared by its stored evaluations. A model that the run has never measured attempts the same queries
    first; its attempts have the purpose `compare`, and no figure of the run counts them.
    """
    settings = load(config)
    from trajmill.flows.policies.commands import compare_policies
    from trajmill.flows.report.comparison import comparison_table

    with progress_shown(width_of_file=160) as console:
        compared = compare_policies(settings, a, b, out)
        console.print(comparison_table(compared.comparison))
    print_lines(f"page      {compared.folder / 'comparison.html'}", f"rows      {compared.folder}/*.parquet")


@app.command(epilog="Example: trajmill derive step")
def derive(
    kind: str | None = Argument(None, metavar="KIND", help=_KIND),
    config: ConfigFile = None,
    new_run: NewRun = False,
) -> None:
    """Derive training data from stored trajectories. A second call derives from new ones only.

    Without a KIND, it is the stage of the current round: examples and RL rows. With a KIND, it adds rows of that kind
    from all judged trajectories of the run to the table `examples`. The table `refusals` has the refused rows with
    their reasons.
    """
    if kind is None:
        _run_alone("derive", config, new_run)
        return
    settings = load(config)
    from trajmill.flows.deriving import derive_kind

    with progress_shown():
        made = derive_kind(settings, kind)
    most_first = sorted(made.refused.items(), key=lambda entry: (-entry[1], entry[0]))
    print_lines(
        f"{kind}: {made.examples:,} examples from {made.trajectories:,} trajectories",
        *(f"refused   {count:,} {reason}" for reason, count in most_first),
        *([f"failed    {made.failures:,} (see failures)"] if made.failures else []),
    )


@app.command(epilog="Example: PREFECT_API_URL=http://127.0.0.1:4200/api trajmill serve")
def serve(
    config: ConfigFile = None,
    port: int = Option(4200, min=1, max=65535, help="Port of the Prefect server that is started if none is named."),
    replace: Replace = False,
    new_run: NewRun = False,
) -> None:
    """Serve three deployments: nightly, retrain, maintain. Retraining starts when enough trajectories have landed.

    Uses the Prefect server that PREFECT_API_URL names; without one, it starts one here.
    """
    from trajmill.flows.prefect_settings import long_lived_server, names_a_server, set_talkative_defaults
    from trajmill.warehouse.layout import create_warehouse

    set_talkative_defaults()
    settings = begin(config, new_run, store=False)
    warehouse, is_own = create_warehouse(settings.run.root), not names_a_server()
    with long_lived_server(port) as address:
        from trajmill.flows.new_run import begin_or_continue, run_resource
        from trajmill.flows.nights.log import remember_server
        from trajmill.flows.nights.nightly import refuse_to_replace, serve_deployments
        from trajmill.flows.nights.notices import end_lost_runs

        if not replace:
            refuse_to_replace(settings, alone=not is_own)
        begin_or_continue(settings, new_run=True)
        remember_server(warehouse, settings.run_id, address, datetime.now(UTC))
        let = f"Let other commands report to it: export PREFECT_API_URL={address}"
        print_lines(f"Prefect server: {address}", let)
        if is_own:
            end_lost_runs(run_resource(warehouse, settings.run_id))
        # With Python's default handling of the signal, Prefect's event loop ends cleanly on Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        serve_deployments(settings, _file_of(config))


@app.command(epilog="Example: PREFECT_API_URL=http://prefect:4200/api trajmill deploy --pool gpu-machines")
def deploy(
    pool: str = Option(..., metavar="NAME", help="Work pool whose workers run the deployments."),
    image: str | None = Option(None, metavar="IMAGE", help="Docker image with trajmill, for a Docker pool."),
    worker_config: Path | None = Option(
        None, metavar="FILE", help="Path of the configuration on the workers. Default: as here."
    ),
    job: list[str] | None = Option(None, metavar="NAME=JSON", help="A variable of the pool's jobs; may be repeated."),
    replace: Replace = False,
    config: ConfigFile = None,
    new_run: NewRun = False,
) -> None:
    """Register the deployments of `serve` for a work pool. A second call updates them.

    PREFECT_API_URL names your Prefect server; the workers of the pool run the deployments.
    """
    here = _file_of(config)
    if worker_config is not None and (here is None or not worker_config.is_absolute()):
        raise BadInputError("--worker-config must be an absolute path, and --config must name the same file here")
    variables = _job_variables(job or [])
    settings = begin(config, new_run, store=False)
    from trajmill.flows.prefect_settings import named_server

    address = named_server()
    from trajmill.flows.new_run import begin_or_continue
    from trajmill.flows.nights.log import remember_server
    from trajmill.flows.nights.nightly import deploy_to, refuse_to_replace
    from trajmill.warehouse.layout import create_warehouse

    if not replace:
        refuse_to_replace(settings)
    names = deploy_to(pool, settings, worker_config or here, image, variables)
    begin_or_continue(settings, new_run=True)
    remember_server(create_warehouse(settings.run.root), settings.run_id, address, datetime.now(UTC))
    print(f"deployed  {', '.join(names)} to work pool {pool} of {address}")
    print(f"worker    prefect worker start --pool {pool}")


def _file_of(config: Path | None) -> Path | None:
    from trajmill.flows.configuration.file import DEFAULT_FILE

    return config or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)


def _job_variables(written: list[str]) -> dict[str, Any]:
    variables = {}
    for each in written:
        name, equals, value = each.partition("=")
        try:
            variables[name] = json.loads(value)
        except (ValueError, RecursionError):
            equals = ""
        if not (name and equals):
            raise BadInputError(f"--job {each!r:.80} is not NAME=JSON, e.g. --job 'volumes=[\"/data:/data\"]'")
    return variables


@policy.command("list", epilog="Example: trajmill policy list")
def list_versions(config: ConfigFile = None) -> None:
    """List the policy versions of the run. Shows where each came from, and the last decision about it."""
    settings = load(config)
    from trajmill.flows.policies.commands import list_policies

    for listed in list_policies(settings):
        row, validation = listed.row, f", validation {listed.validation}" if listed.validation else ""
        decided = ("" if row.promoted else "not ") + "promoted"
        decided += f" in round {row.round}" if row.round != listed.made else ""
        print(f"{'*' if listed.in_force else ' '} {row.model_version}")
        print(f"    round {listed.made}{validation}: {decided}, {row.reason}")
        if row.parent:
            print(f"    child of {row.parent}" + (f", trained on {row.release}" if row.release else ""))
    print("* in force")


@policy.command(epilog="Example: trajmill policy add --adapter adapters/round-3")
def add(
    config: ConfigFile = None,
    model: str | None = Option(
        None, metavar="NAME", help="Its name at the policy's servers, or the folder of its weights."
    ),
    adapter: Path | None = Option(None, metavar="DIR", help="A LoRA adapter on the policy's weights."),
    release: str | None = Option(
        None, metavar="NAME", help="What it was trained on; by default the release of the round that awaits it."
    ),
) -> None:
    """Add a version that you trained. It is measured, and promoted or not.

    It replaces the training of a round that awaits a policy; between two rounds it is compared at once.
    """
    settings = load(config)
    from trajmill.flows.policies.commands import Addition, add_and_evaluate
    from trajmill.flows.policies.policy import PolicyInForce

    report = add_and_evaluate(settings, Addition(model, adapter, release))
    if report.waiting:
        print(report.waiting)
        return
    decided = PolicyInForce.of(report)
    print(f"{'promoted' if decided.promoted else 'not promoted'}: {decided.reason}")


@policy.command(epilog="Example: trajmill policy promote embedded-434fda10d3c1abd0")
def promote(
    version: str = Argument(..., help="A version that `trajmill policy list` shows, or a part of it."),
    config: ConfigFile = None,
) -> None:
    """Put a version in force, whatever its success. It acts from the next stage on."""
    settings = load(config)
    from trajmill.flows.policies.commands import promote_policy
    from trajmill.flows.policies.policy import PolicyInForce

    print(f"{PolicyInForce.of(promote_policy(settings, version)).policy_row.model_version} is in force")


@policy.command(epilog="Example: trajmill policy rollback")
def rollback(config: ConfigFile = None) -> None:
    """Replace the version in force by its parent. The parent acts from the next stage on."""
    settings = load(config)
    from trajmill.flows.policies.commands import roll_back_policy
    from trajmill.flows.policies.policy import PolicyInForce

    print(f"{PolicyInForce.of(roll_back_policy(settings)).policy_row.model_version} is in force")
