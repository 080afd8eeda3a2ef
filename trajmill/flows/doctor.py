"""Finds what is wrong with an installation and its warehouse, and how to mend it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from trajmill.flows.configuration.config import Config
from trajmill.flows.serving.models_ready import check_servers
from trajmill.flows.status.page import LITTLE_DISK, flow_runs
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.tables.registry import TABLES
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import VERSION_FILE, Warehouse, open_warehouse
from trajmill.warehouse.store.base import local_folder, store_at
from trajmill.warehouse.store.connection import damage_as_error
from trajmill.warehouse.upkeep import damage

_MEND = "`trajmill verify` lists all damaged files"
_ENGINES = ("prefect", "apache-beam", "deltalake", "duckdb", "pyarrow", "torch", "transformers")
_PROGRAMS = {
    "web": ("chromium-headless-shell",),
    "browsergym": ("chromium-headless-shell",),
    "android": ("adb",),
    "desktop": ("Xvfb", "openbox", "dbus-daemon"),
}
"""By extra, the programs that its environments need."""
_ADB = "install Android's platform tools and put adb in PATH"
_EXTRAS = (*_PROGRAMS, "openenv", "cluster", "curate", "knowledge", "ocr", "train")


class Finding(NamedTuple):
    what: str
    text: str
    mend: str = ""
    """How to mend it; empty if nothing is wrong."""

    def line(self) -> str:
        return f"{'WRONG' if self.mend else 'ok':<6}{self.what}: {self.text}" + (f"; {self.mend}" if self.mend else "")


def examine(config: Config) -> Iterator[Finding]:
    """Run all checks; nothing is changed. Raises BadInputError (a newer warehouse, a damaged record of the server)."""
    yield from check_installation(config)
    yield from check_surroundings(config)
    if store_at(config.run.root).size(VERSION_FILE) is not None:
        yield from check_consistency(open_warehouse(config.run.root))
    else:
        yield Finding("warehouse", f"there is none in {config.run.root} yet")


def check_consistency(warehouse: Warehouse) -> Iterator[Finding]:
    """Check every marker, release and policy version, and of every table the log and the footers of its files."""
    lines = dict.fromkeys((*damage(warehouse, lambda name: not name.startswith("tables/")), *_footers(warehouse)))
    yield from (Finding("warehouse", line, _MEND) for line in lines)
    if not lines:
        yield Finding("warehouse", f"{warehouse.address} is intact")


def _footers(warehouse: Warehouse) -> Iterator[str]:
    system, before = warehouse.store.arrow_files()
    for table in TABLES:
        try:
            for path in committed_files(warehouse, table):
                with damage_as_error(path):
                    pq.read_metadata(before + warehouse.name(path), filesystem=system)
        except BadInputError as error:
            yield str(error)


def check_installation(config: Config) -> Iterator[Finding]:
    engines = ", ".join(f"{name} {version(name)}" for name in _ENGINES if _is_installed(name))
    yield Finding("versions", f"trajmill {version('trajmill')}, Python {sys.version.split()[0]}, {engines}")
    kind = config.environment.kind
    needed = "web" if kind in ("webapp", "browser", "state_api", "miniwob") else kind
    for extra in _EXTRAS:
        marked = [text for text in requires("trajmill") or () if re.search(rf"extra == ['\"]{extra}['\"]", text)]
        packages = [re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0] for text in marked]
        missing, mend = " and ".join(name for name in packages if not _is_installed(name)), ""
        text = "not installed, and not needed" if missing else "installed"
        if missing and extra == needed:
            text, mend = f"{missing} missing, environment.kind needs it", f"pip install 'trajmill[{extra}]'"
        yield Finding(f"extra {extra}", text, mend)
    elsewhere = isinstance(config.environment, DesktopSpec) and config.environment.servers
    for program in () if elsewhere else _PROGRAMS.get(needed, ()):
        mend = _ADB if program == "adb" else "`make system-deps` installs it"
        found = shutil.which(program)
        yield Finding(program, found or "not in PATH", "" if found else mend)


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def check_surroundings(config: Config) -> Iterator[Finding]:
    """Check disk and permissions of the warehouse, every model server of a role, and the Prefect server."""
    root = _first_existing(local_folder(config.run.root).absolute())
    disk = shutil.disk_usage(root)
    enough = disk.free >= LITTLE_DISK * disk.total
    mend = "" if enough else "`trajmill vacuum`, `trajmill compact`, or another run.root"
    yield Finding("disk", f"{disk.free / 1e9:,.1f} GB of {disk.total / 1e9:,.1f} GB free at {root}", mend)
    yield check_place(config.run.root)
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    yield _written("PREFECT_HOME", _first_existing(home), "set PREFECT_HOME to a folder that you can write to")
    for name in sorted({name for _, name in config.asked_endpoints()}):
        spec = config.endpoints.get(name)
        if isinstance(spec, OpenAiSpec) and spec.serve is None:
            yield _answers(name, spec)
    # The server that PREFECT_API_URL names, or that served the run last.
    is_there = store_at(config.run.root).size(VERSION_FILE) is not None
    known = flow_runs(open_warehouse(config.run.root) if is_there else None, config.run_id)
    text, mend = f"{known.address} answers, {len(known.next)} deployments are scheduled", ""
    if known.problem:
        text, mend = known.problem, "start it (`trajmill serve`), or correct PREFECT_API_URL"
    if not known.address:
        text, mend = "PREFECT_API_URL is not set; each command starts its own server", ""
    yield Finding("Prefect server", text, mend)


def _first_existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.is_dir())


def _written(what: str, folder: Path, mend: str) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return Finding(what, f"{folder} can be written")
    except OSError as error:
        return Finding(what, f"{folder} cannot be written ({error.strerror})", mend)


def check_place(root: Path | str) -> Finding:
    """Check that rows can be written to a place, and that a bucket refuses to create an existing object, for locks."""
    try:
        store = store_at(root)
        if store.is_local:
            folder = _first_existing(local_folder(root).absolute())
            return _written("run.root", folder, "name a folder that you can write to in run.root")
        probe = f"doctor/{uuid.uuid4().hex}"
        first, second = store.create(probe, b"first"), store.create(probe, b"second")
        store.delete(probe)
    except TrajmillError as error:
        return Finding("run.root", str(error), "name a bucket that you can write to in run.root")
    if first and not second:
        return Finding("run.root", f"{store.address} can be written")
    return Finding("run.root", f"{store.address} replaces files that are there", "take another store: locks fail here")


def _answers(name: str, spec: OpenAiSpec) -> Finding:
    try:
        asyncio.run(check_servers([spec]))
    except TrajmillError as error:
        # Some errors end with their own advice.
        found, _, advice = str(error).rpartition("; ")
        mend = advice if found else f"correct endpoints.{name}.urls, or start its server"
        return Finding(f"endpoints.{name}", found or advice, mend)
    return Finding(f"endpoints.{name}", f"answers as {spec.model}")
