"""The deployments of `trajmill serve`: collecting every night, retraining when enough has landed, and maintenance."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from prefect import serve
from prefect.deployments.runner import RunnerDeployment
from prefect.events import DeploymentEventTrigger, ResourceSpecification
from prefect.schedules import Cron
from prefect.types.entrypoint import EntrypointType

from trajmill.flows.configuration.config import Config
from trajmill.flows.landed_event import ENOUGH_LABEL, LANDED, warehouse_resource
from trajmill.flows.nights.maintain import maintain
from trajmill.flows.nights.nightly import nightly
from trajmill.flows.nights.retrain import retrain


def deployments(config: Config, config_file: Path | None) -> list[RunnerDeployment]:
    """The deployments: `nightly` and `maintain` on schedules, `retrain` on the event that enough has landed."""
    parameters = {"config_file": None if config_file is None else str(config_file.absolute())}
    enough_landed = DeploymentEventTrigger(
        name="retrain when enough trajectories have landed",
        expect={LANDED},
        match=ResourceSpecification({"prefect.resource.id": warehouse_resource(config.run.root), ENOUGH_LABEL: "yes"}),
        threshold=1,
        within=timedelta(0),
    )
    made = [
        nightly.to_deployment(
            "nightly",
            schedule=Cron(config.serve.cron),
            parameters=parameters,
            concurrency_limit=1,
            entrypoint_type=EntrypointType.MODULE_PATH,
        ),
        retrain.to_deployment(
            "retrain",
            triggers=[enough_landed],
            parameters=parameters,
            concurrency_limit=1,
            entrypoint_type=EntrypointType.MODULE_PATH,
        ),
        maintain.to_deployment(
            "maintain",
            schedule=Cron(config.serve.maintain_cron),
            parameters=parameters,
            concurrency_limit=1,
            entrypoint_type=EntrypointType.MODULE_PATH,
        ),
    ]
    return [deployment for deployment in made if isinstance(deployment, RunnerDeployment)]


def serve_deployments(config: Config, config_file: Path | None) -> None:
    """Register the deployments and run them, one at a time, until interrupted."""
    serve(*deployments(config, config_file), limit=1)
