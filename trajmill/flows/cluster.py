"""Checks the machines of a Dask cluster before they get work; an unfit one ends the command with one line."""

from __future__ import annotations

from collections.abc import Mapping

from trajmill.pipelines.executors.cluster import connected
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.warehouse.store.base import FileStore

Packages = Mapping[str, str | None]
"""Versions by name; None for a package that is not installed."""


def check_scheduler(address: str) -> None:
    """Raise BadInputError if no scheduler answers, or its versions differ from those here."""
    with connected(address) as client:
        found = client.get_versions(packages=["trajmill"])
    compare("the scheduler", found["scheduler"]["packages"], found["client"]["packages"])


def check_workers(settings: BeamSettings, store: FileStore) -> None:
    """Raise BadInputError if a worker or the scheduler has other versions, or a worker has no access to the store."""
    client = connected(settings.cluster)
    workers = client.scheduler_info(n_workers=-1)["workers"]
    names = {address: f"worker {worker['name']}" for address, worker in workers.items()}
    found = client.get_versions(packages=["trajmill"])
    for address, there in {"the scheduler": found["scheduler"], **found["workers"]}.items():
        compare(names.get(address, address), there["packages"], found["client"]["packages"])
    for address, answer in client.run(store.size, "any", on_error="return").items():
        # One that is cut off answers with an OSError; others do its shards.
        if isinstance(answer, TrajmillError):
            raise BadInputError(f"{names.get(address, address)}: {answer}; or stop this worker")


def compare(who: str, theirs: Packages, ours: Packages) -> None:
    there, here = _versions(theirs), _versions(ours)
    if there != here:
        raise BadInputError(f"{who} has {there}, and this process {here}; install the same versions")


def _versions(packages: Packages) -> str:
    python = ".".join(str(packages["python"]).split(".")[:2])
    return f"Python {python}, Dask {packages['distributed']}, trajmill {packages['trajmill'] or '(none)'}"
