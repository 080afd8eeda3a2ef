"""The deployments of a run: collecting every night, retraining when enough has landed, and maintenance.

`trajmill serve` runs them itself, `trajmill deploy` registers them at a work pool, whose workers run them. Each has the
name of the run, e.g. `nightly/phones`, and the tag of the run to which it belongs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from prefect import Flow, serve
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import WorkPool as PrefectPool
from prefect.deployments.runner import DeploymentApplyError, RunnerDeployment
from prefect.events import DeploymentEventTrigger, DeploymentTriggerTypes, ResourceSpecification, TriggerTypes
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron, Schedule
from prefect.types.entrypoint import EntrypointType

from trajmill.flows.configuration.config import Config
from trajmill.flows.landed_event import ENOUGH_LABEL, LANDED
from trajmill.flows.new_run import run_resource
from trajmill.flows.nights.maintain import maintain
from trajmill.flows.nights.nightly import nightly
from trajmill.flows.nights.notices import watching_nights
from trajmill.flows.nights.retrain import retrain
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import create_warehouse


@dataclass(frozen=True)
class WorkPool:
    """A work pool, and how its jobs run."""

    name: str
    image: str | None = None
    """The Docker image of its jobs; None for a pool whose jobs are processes of the worker's machine."""
    job_variables: Mapping[str, Any] = field(default_factory=dict)
    """Further variables of the pool's jobs, e.g. `env` or `volumes`."""


def deployments(config: Config, config_file: Path | None) -> list[RunnerDeployment]:
    """Return the deployments: `nightly` and `maintain` on schedules, `retrain` on the event that enough has landed.

    Prefect limits none of them: the lock of the run lets one of them work at a time, and unlike a slot of the server it
    ends with its process.
    """
    resource = run_resource(create_warehouse(config.run.root), config.run_id)
    enough_landed = DeploymentEventTrigger(
        name=f"retrain {config.run.name} when enough trajectories have landed",
        expect={LANDED},
        match=ResourceSpecification({"prefect.resource.id": resource, ENOUGH_LABEL: "yes"}),
        threshold=1,
        within=timedelta(0),
    )
    return [
        _deployment(config, nightly, config_file, schedule=Cron(config.serve.cron)),
        _deployment(config, retrain, config_file, triggers=[enough_landed]),
        _deployment(config, maintain, config_file, schedule=Cron(config.serve.maintain_cron)),
    ]


def _deployment(
    config: Config,
    flow: Flow[..., Any],
    config_file: Path | None,
    schedule: Schedule | None = None,
    triggers: list[DeploymentTriggerTypes | TriggerTypes] | None = None,
) -> RunnerDeployment:
    warehouse = create_warehouse(config.run.root)
    made = flow.to_deployment(
        config.run.name,
        schedule=schedule,
        triggers=triggers,
        parameters={"config_file": None if config_file is None else str(config_file.absolute())},
        description=f"Run {config.run_id} in {warehouse.address}.",
        tags=[run_resource(warehouse, config.run_id)],
        # Prefect pauses what is no longer served; without this it would stay paused when it is served again.
        paused=False,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    assert isinstance(made, RunnerDeployment), "outside of an event loop nothing is to be awaited"
    return made


def serve_deployments(config: Config, config_file: Path | None) -> None:
    """Register the deployments and run them, one at a time, until interrupted."""
    with watching_nights(config, config_file):
        serve(*deployments(config, config_file), limit=1)


def deploy_to(pool: WorkPool, config: Config, config_file: Path | None) -> list[str]:
    """Register the deployments, or change those of an earlier call; return their names.

    Args:
        pool: whose workers run them.
        config: the configuration.
        config_file: where the workers find it.

    Raises:
        BadInputError: there is no such pool, or it runs no jobs of this sort.
    """
    _check_pool(pool)
    made = deployments(config, config_file)
    for deployment in made:
        deployment.work_pool_name = pool.name
        deployment.job_variables = dict(pool.job_variables)
        try:
            deployment.apply(image=pool.image)
        except DeploymentApplyError as error:
            raise BadInputError(
                f"the Prefect server refused {deployment.full_name}: {' '.join(str(error).split())}"
            ) from error
    return [deployment.full_name for deployment in made]


def refuse_to_replace(config: Config) -> None:
    """Refuse to register deployments in the place of those of another run.

    Raises:
        BadInputError: the server has a deployment of this name that belongs to another run.
    """
    resource = run_resource(create_warehouse(config.run.root), config.run_id)
    with get_client(sync_client=True) as client:
        for flow in (nightly, retrain, maintain):
            name = f"{flow.name}/{config.run.name}"
            try:
                there = client.read_deployment_by_name(name)
            except ObjectNotFound:
                continue
            if resource not in there.tags:
                raise BadInputError(
                    f"deployment {name} belongs to another run ({there.description or 'nothing says which'}): "
                    "change run.name, or replace it with --replace"
                )


def _check_pool(pool: WorkPool) -> None:
    with get_client(sync_client=True) as client:
        try:
            found: PrefectPool = client.read_work_pool(pool.name)
        except ObjectNotFound:
            known = ", ".join(each.name for each in client.read_work_pools()) or "none"
            raise BadInputError(
                f"there is no work pool {pool.name!r}; there are: {known}. "
                f"Make it: prefect work-pool create {pool.name} --type {'docker' if pool.image else 'process'}"
            ) from None
    takes_image = "image" in found.base_job_template.get("variables", {}).get("properties", {})
    if pool.image is not None and not takes_image:
        raise BadInputError(f"work pool {pool.name!r} is of type {found.type}, whose jobs have no image")
    if pool.image is None and takes_image:
        raise BadInputError(f"work pool {pool.name!r} is of type {found.type}: name the image of its jobs with --image")
