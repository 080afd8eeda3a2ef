"""The deployments of `trajmill serve`: collecting every night, retraining when enough has landed, and maintenance."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from prefect import Flow, serve
from prefect.deployments.runner import RunnerDeployment
from prefect.events import DeploymentEventTrigger, DeploymentTriggerTypes, ResourceSpecification, TriggerTypes
from prefect.schedules import Cron, Schedule
from prefect.types.entrypoint import EntrypointType

from trajmill.flows.configuration.config import Config
from trajmill.flows.landed_event import ENOUGH_LABEL, LANDED, warehouse_resource
from trajmill.flows.nights.maintain import maintain
from trajmill.flows.nights.nightly import nightly
from trajmill.flows.nights.retrain import retrain


def deployments(config: Config, config_file: Path | None) -> list[RunnerDeployment]:
    """The deployments: `nightly` and `maintain` on schedules, `retrain` on the event that enough has landed.

    Prefect limits none of them: the lock of the run lets one of them work at a time, and unlike a slot of the server it
    ends with its process.
    """
    enough_landed = DeploymentEventTrigger(
        name="retrain when enough trajectories have landed",
        expect={LANDED},
        match=ResourceSpecification({"prefect.resource.id": warehouse_resource(config.run.root), ENOUGH_LABEL: "yes"}),
        threshold=1,
        within=timedelta(0),
    )
    return [
        _deployment(nightly, config_file, schedule=Cron(config.serve.cron)),
        _deployment(retrain, config_file, triggers=[enough_landed]),
        _deployment(maintain, config_file, schedule=Cron(config.serve.maintain_cron)),
    ]


def _deployment(
    flow: Flow[..., Any],
    config_file: Path | None,
    schedule: Schedule | None = None,
    triggers: list[DeploymentTriggerTypes | TriggerTypes] | None = None,
) -> RunnerDeployment:
    made = flow.to_deployment(
        flow.name,
        schedule=schedule,
        triggers=triggers,
        parameters={"config_file": None if config_file is None else str(config_file.absolute())},
        # Prefect pauses what is no longer served; without this it would stay paused when it is served again.
        paused=False,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    assert isinstance(made, RunnerDeployment), "outside of an event loop nothing is to be awaited"
    return made


def serve_deployments(config: Config, config_file: Path | None) -> None:
    """Register the deployments and run them, one at a time, until interrupted."""
    serve(*deployments(config, config_file), limit=1)


def deployment_names() -> list[str]:
    """The names of all deployments."""
    return [flow.name for flow in (nightly, retrain, maintain)]
