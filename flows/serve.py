"""The two deployments of `trajmill serve`: more rounds every night, and a retraining when there is enough new data."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from prefect import flow, get_run_logger, serve
from prefect.deployments.runner import RunnerDeployment
from prefect.events import DeploymentEventTrigger, ResourceSpecification
from prefect.schedules import Cron
from prefect.types.entrypoint import EntrypointType

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config
from trajmill.flows.landed_event import ENOUGH_LABEL, LANDED, accepted_since_training, warehouse_resource
from trajmill.flows.stage import report_of
from trajmill.flows.tasks.judge import JUDGE
from trajmill.schemas.tables.round_summary import RoundSummary
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.lock import RunInUseError
from trajmill.warehouse.read import read_rows

TRAINING_STAGES = ("derive", "release", "train", "evaluate")


@flow(name="nightly")
def nightly(config_file: str | None = None) -> str:
    """Add rounds to the run, as many as the configuration says; returns the path of the report."""
    from trajmill.flows.evolve import evolve

    config = _config(config_file)
    report = evolve(config.with_rounds(last_round(config) + config.serve.rounds_per_night))
    if report.waiting:
        get_run_logger().info(report.waiting)
    return str(report.report_path)


@flow(name="retrain")
def retrain(config_file: str | None = None) -> str:
    """Train, evaluate and promote if there are enough new trajectories; logs what it did, or why it did not.

    Events that arrive during a training start this flow again; then nothing is new, and nothing is done.
    """
    done = retrain_now(_config(config_file))
    get_run_logger().info(done)
    return done


def retrain_now(config: Config) -> str:
    """Train, evaluate and promote if there are enough new trajectories; returns what it did, or why it did not."""
    accepted, enough = accepted_since_training(config), config.serve.retrain_after_accepted
    if accepted < enough:
        return f"did not train: {accepted} trajectories accepted since the last training, {enough} are enough"
    from trajmill.flows.round import current_round, run_stage

    context = current_round(config)
    if report_of(context, JUDGE) is None:
        return f"did not train: round {context.round} is not judged yet; it trains on what has landed at its end"
    try:
        for stage in TRAINING_STAGES:
            report = run_stage(stage, config)
            if report.waiting:
                return f"did not train: {report.waiting}"
    except RunInUseError as error:
        return f"did not train: {error}"
    decision = "promoted" if report.result["promoted"] else "not promoted"
    return f"round {context.round}, {accepted} newly accepted trajectories: {decision}, {report.result['reason']}"


def deployments(config: Config, config_file: Path | None) -> list[RunnerDeployment]:
    """The deployments: `nightly` on its schedule, `retrain` on the event that there are enough new trajectories."""
    parameters = {"config_file": None if config_file is None else str(config_file.absolute())}
    enough_landed = DeploymentEventTrigger(
        name="retrain when enough trajectories have landed",
        expect={LANDED},
        match=ResourceSpecification({"prefect.resource.id": warehouse_resource(config.run.root), ENOUGH_LABEL: "yes"}),
        threshold=1,
        within=timedelta(0),
    )
    both = [
        nightly.to_deployment(
            "nightly",
            schedule=Cron(config.serve.cron),
            parameters=parameters,
            entrypoint_type=EntrypointType.MODULE_PATH,
        ),
        retrain.to_deployment(
            "retrain",
            triggers=[enough_landed],
            parameters=parameters,
            entrypoint_type=EntrypointType.MODULE_PATH,
        ),
    ]
    return [deployment for deployment in both if isinstance(deployment, RunnerDeployment)]


def serve_deployments(config: Config, config_file: Path | None) -> None:
    """Register both deployments and run them, one at a time, until interrupted."""
    serve(*deployments(config, config_file), limit=1)


def last_round(config: Config) -> int:
    """The last committed round of the run, 0 before the first."""
    summaries = read_rows(create_warehouse(config.run.root), RoundSummary, run_id=config.run_id)
    return max((summary.round for summary in summaries), default=0)


def _config(config_file: str | None) -> Config:
    return load_config(None if config_file is None else Path(config_file))
