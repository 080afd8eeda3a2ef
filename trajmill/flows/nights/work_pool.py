"""Registers the deployments at a work pool, whose workers then run them on machines of a team's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import WorkPool as PrefectPool
from prefect.deployments.runner import DeploymentApplyError
from prefect.exceptions import ObjectNotFound

from trajmill.flows.configuration.config import Config
from trajmill.flows.nights.deployments import deployments
from trajmill.schemas.errors import BadInputError


@dataclass(frozen=True)
class WorkPool:
    """A work pool, and how its jobs run."""

    name: str
    image: str | None = None
    """The Docker image of its jobs; None for a pool whose jobs are processes of the worker's machine."""
    job_variables: Mapping[str, Any] = field(default_factory=dict)
    """Further variables of the pool's jobs, e.g. `env` or `volumes`."""


class SeenConfig(NamedTuple):
    """A configuration as workers see it."""

    config: Config
    file: Path | None


def as_workers_see(config: Config, file: Path | None, there: Path | None) -> SeenConfig:
    """A configuration with the paths of the workers' machines.

    Args:
        config: as it is read here.
        file: its file here.
        there: the file on the workers' machines; None if it is the same. A warehouse below the file's folder then lies
            below the folder of that file.

    Raises:
        BadInputError: workers have another file, but there is none here.
    """
    if there is None:
        return SeenConfig(config, file)
    if file is None or not there.is_absolute():
        raise BadInputError("--worker-config is an absolute path, and needs the same file here: name it with --config")
    if isinstance(config.run.root, str):
        return SeenConfig(config, there)
    root, home = config.run.root.absolute(), file.absolute().parent
    if root.is_relative_to(home):
        root = there.parent / root.relative_to(home)
    return SeenConfig(config.model_copy(update={"run": config.run.model_copy(update={"root": root})}), there)


def deploy_to(pool: WorkPool, seen: SeenConfig) -> list[str]:
    """Register the deployments, or change those of an earlier call; returns their names.

    Raises:
        BadInputError: there is no such pool, or it runs no jobs of this sort.
    """
    _check(pool)
    made = deployments(seen.config, seen.file)
    for deployment in made:
        deployment.work_pool_name = pool.name
        deployment.job_variables = dict(pool.job_variables)
        try:
            deployment.apply(image=pool.image)
        except DeploymentApplyError as error:
            raise BadInputError(
                f"the Prefect server refused {deployment.name}: {' '.join(str(error).split())}"
            ) from error
    return [deployment.name for deployment in made]


def _check(pool: WorkPool) -> None:
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
