"""The deployments of a run: collecting every night, retraining when enough has landed, and maintenance.

`trajmill serve` runs them itself, `trajmill deploy` registers them at a work pool, whose workers run them. Each has the
name of the run, e.g. `nightly/phones`, and the tag of the run to which it belongs.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from prefect import Flow, serve
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import WorkPool
from prefect.deployments.runner import DeploymentApplyError, RunnerDeployment
from prefect.events import DeploymentEventTrigger, ResourceSpecification
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron
from prefect.types.entrypoint import EntrypointType

from trajmill.flows.configuration.config import Config
from trajmill.flows.evolve import ENOUGH_LABEL, LANDED
from trajmill.flows.new_run import run_resource
from trajmill.flows.nights.nightly import maintain, nightly, retrain
from trajmill.flows.nights.notices import watching_nights
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import create_warehouse


def deployments(config: Config, config_file: Path | None) -> list[RunnerDeployment]:
    """Return the deployments; the lock of the run limits them, as it ends with its process, unlike Prefect's slots."""
    warehouse = create_warehouse(config.run.root)
    resource = run_resource(warehouse, config.run_id)
    enough_landed = DeploymentEventTrigger(
        name=f"retrain {config.run.name} when enough trajectories have landed",
        expect={LANDED},
        match=ResourceSpecification({"prefect.resource.id": resource, ENOUGH_LABEL: "yes"}),
        threshold=1,
        within=timedelta(0),
    )

    def deployment(flow: Flow[..., Any], **started_by: Any) -> RunnerDeployment:
        made = flow.to_deployment(
            config.run.name,
            parameters={"config_file": None if config_file is None else str(config_file.absolute())},
            description=f"Run {config.run_id} in {warehouse.address}.",
            tags=[resource],
            # Prefect pauses what is no longer served; without this it would stay paused when it is served again.
            paused=False,
            entrypoint_type=EntrypointType.MODULE_PATH,
            **started_by,
        )
        assert isinstance(made, RunnerDeployment), "outside an event loop nothing is awaited"
        return made

    return [
        deployment(nightly, schedule=Cron(config.serve.cron)),
        deployment(retrain, triggers=[enough_landed]),
        deployment(maintain, schedule=Cron(config.serve.maintain_cron)),
    ]


def serve_deployments(config: Config, config_file: Path | None) -> None:
    """Register the deployments and run them, one at a time, until interrupted."""
    with watching_nights(config, config_file):
        serve(*deployments(config, config_file), limit=1)


def deploy_to(
    name: str, config: Config, config_file: Path | None, image: str | None = None, job: Mapping[str, Any] | None = None
) -> list[str]:
    """Register the deployments at a work pool, or change those of an earlier call; return their names.

    `config_file` is where the workers find the configuration, `image` the Docker image of the pool's jobs (None if they
    are processes of the worker's machine), and `job` has further variables of them, e.g. `env` or `volumes`. Raises
    BadInputError if there is no such pool, or it runs no jobs of this sort.
    """
    with get_client(sync_client=True) as client:
        try:
            pool: WorkPool = client.read_work_pool(name)
        except ObjectNotFound:
            known = ", ".join(each.name for each in client.read_work_pools()) or "none"
            raise BadInputError(
                f"there is no work pool {name!r}; there are: {known}. "
                f"Make it: prefect work-pool create {name} --type {'docker' if image else 'process'}"
            ) from None
    takes_image = "image" in pool.base_job_template.get("variables", {}).get("properties", {})
    if takes_image != (image is not None):
        mend = "name the image of its jobs with --image" if takes_image else "whose jobs have no image"
        raise BadInputError(f"work pool {name!r} is of type {pool.type}{':' if takes_image else ','} {mend}")
    made = deployments(config, config_file)
    for deployment in made:
        deployment.work_pool_name = name
        deployment.job_variables = dict(job or {})
        try:
            deployment.apply(image=image)
        except DeploymentApplyError as error:
            message = " ".join(str(error).split())
            raise BadInputError(f"the Prefect server refused {deployment.full_name}: {message}") from error
    return [deployment.full_name for deployment in made]


def refuse_to_replace(config: Config) -> None:
    """Raise BadInputError if the server has deployments of these names that belong to another run."""
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
