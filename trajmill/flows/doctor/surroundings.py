"""Checks what a run needs around it: disk, folders that can be written, model servers, a Prefect server."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from trajmill.flows.configuration.config import Config
from trajmill.flows.doctor.base import Finding
from trajmill.flows.status.flow_runs import flow_runs
from trajmill.schemas.errors import TrajmillError
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.warehouse.store.address import local_folder, store_at
from trajmill.warehouse.store.base import FileStore

_LITTLE_DISK = 0.05


def check_surroundings(config: Config) -> Iterator[Finding]:
    """Disk and permissions of the warehouse, every model server of a role, and the Prefect server."""
    root = _first_existing(local_folder(config.run.root).absolute())
    disk = shutil.disk_usage(root)
    enough = disk.free >= _LITTLE_DISK * disk.total
    mend = "" if enough else "`trajmill vacuum`, `trajmill compact`, or another run.root"
    yield Finding("disk", f"{disk.free / 1e9:,.1f} GB of {disk.total / 1e9:,.1f} GB free at {root}", mend)
    store = store_at(config.run.root)
    if store.is_local:
        yield _written("run.root", root, "name a folder that you can write to in run.root")
    else:
        yield _stored(store)
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    yield _written("PREFECT_HOME", _first_existing(home), "set PREFECT_HOME to a folder that you can write to")
    for name in sorted({name for _, name in config.asked_endpoints()}):
        spec = config.endpoints.get(name)
        if isinstance(spec, OpenAiSpec) and spec.serve is None:
            yield _answers(name, spec)
    known = flow_runs(config.run.root)
    yield Finding("Prefect server", known.problem or f"answers, {len(known.next)} deployments are scheduled")


def _first_existing(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next(each for each in (folder, *folder.parents) if each.is_dir())


def _written(what: str, folder: Path, mend: str) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return Finding(what, f"{folder} can be written")
    except OSError as error:
        return Finding(what, f"{folder} cannot be written ({error.strerror})", mend)


def _stored(store: FileStore) -> Finding:
    """Whether a bucket can be written to, and refuses to create what is there, which keeps two runs apart."""
    probe = f"doctor/{uuid.uuid4().hex}"
    try:
        first, second = store.create(probe, b"first"), store.create(probe, b"second")
        store.delete(probe)
    except TrajmillError as error:
        return Finding("run.root", str(error), "name a bucket that you can write to in run.root")
    if first and not second:
        return Finding("run.root", f"{store.address} can be written")
    return Finding("run.root", f"{store.address} replaces files that are there", "take another store: locks fail here")


def _answers(name: str, spec: OpenAiSpec) -> Finding:
    async def ask() -> None:
        client = spec.connect(os.environ)
        try:
            await client.check()
        finally:
            await client.close()

    try:
        asyncio.run(ask())
    except TrajmillError as error:
        return Finding(f"endpoints.{name}", str(error), f"correct endpoints.{name}.urls, or start its server")
    return Finding(f"endpoints.{name}", f"answers as {spec.model}")
