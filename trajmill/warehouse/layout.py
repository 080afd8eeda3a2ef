"""The folders of a warehouse, and its schema version."""

from __future__ import annotations

import json
import logging
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.store.base import FileStore, HeldError, store_at

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
VERSION_FILE = "warehouse.json"
ONLY_SHARD = "00000"


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A warehouse in a folder or a bucket; made by `create_warehouse` or `open_warehouse`.

    Its paths lie on this machine. For a bucket, they hold copies of files and work that is not stored yet.
    """

    store: FileStore
    views: Path | None = None
    """The DuckDB file with the views, where it is not in the folder; see `views.fresh_views`."""

    @property
    def root(self) -> Path:
        return self.store.local

    @property
    def address(self) -> str:
        return self.store.address

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def table(self, name: str) -> Path:
        """Folder of a Delta table. Raises KeyError for a table that does not exist."""
        if name not in TABLES:
            raise KeyError(name)
        return self.root / "tables" / name

    def staging(self, run_id: str) -> Path:
        return self.root / "staging" / checked_name(run_id)

    def release(self, name: str) -> Path:
        return self.root / "releases" / checked_name(name)

    def shards(self, run_id: str) -> Path:
        """Folder of the shards of training rows of a run, which its releases share."""
        return self.root / "shards" / checked_name(run_id)

    def model(self, version: str) -> Path:
        return self.root / "models" / checked_name(version)

    def run(self, run_id: str) -> Path:
        return self.root / "runs" / checked_name(run_id)

    def run_file(self, run_id: str, name: str) -> str:
        """The name in the store of a file in a run's folder."""
        return self.name(self.run(run_id) / name)

    @property
    def database(self) -> Path:
        return self.views or self.root / "trajmill.duckdb"


@dataclass(frozen=True, slots=True)
class StageRun:
    """One stage in one round of a run; gives the names of its files and commits."""

    run_id: str
    round: int
    stage: str
    attempt: int = 0
    """A higher number does a committed stage again on purpose; its rows are added to the earlier ones."""

    def __post_init__(self) -> None:
        checked_name(self.run_id)
        checked_name(self.stage)

    @property
    def name(self) -> str:
        return f"r{self.round:04d}-{self.run_id}-{self.stage}"

    def staging(self, warehouse: Warehouse) -> Path:
        suffix = f"-a{self.attempt}" if self.attempt else ""
        return warehouse.staging(self.run_id) / f"r{self.round:04d}-{self.stage}{suffix}"

    def shard_name(self, shard: str = ONLY_SHARD) -> str:
        """File name of one shard, the same in every table and in every try."""
        suffix = f"-a{self.attempt}" if self.attempt else ""
        return f"{self.name}{suffix}-{shard}.parquet"


def create_warehouse(root: Path | str) -> Warehouse:
    """Open or make a warehouse. Raises BadInputError as `open_warehouse` does, or if it cannot be made."""
    warehouse = Warehouse(store_at(root))
    try:
        warehouse.root.mkdir(parents=True, exist_ok=True)
        version = _version(warehouse)
        if version is None or version < SCHEMA_VERSION:
            warehouse.store.put(VERSION_FILE, (json.dumps({"schema_version": SCHEMA_VERSION}) + "\n").encode())
        _make_folders(warehouse)
    except OSError as error:
        raise BadInputError(
            f"warehouse {warehouse.root}: cannot be written ({error.strerror}); choose a folder you can write to"
        ) from error
    return warehouse


def open_warehouse(root: Path | str) -> Warehouse:
    """Open a warehouse. Raises BadInputError if there is none at `root`, or one of a newer schema version."""
    warehouse = Warehouse(store_at(root))
    if _version(warehouse) is None:
        raise BadInputError(
            f"{warehouse.address} is no warehouse ({VERSION_FILE} is missing); name another, or run `trajmill evolve`"
        )
    if not warehouse.store.is_local:
        _make_folders(warehouse)
    return warehouse


def checked_name(name: str) -> str:
    """Return a name that is safe as part of a file name. Raises BadInputError for another."""
    if not _NAME.fullmatch(name):
        raise BadInputError(
            f"name {name[:40]!r} cannot be part of a file name; use letters, digits, '.', '_' and '-', at most 100"
        )
    return name


def _make_folders(warehouse: Warehouse) -> None:
    for folder in ("tables", "staging", "models", "releases", "runs"):
        (warehouse.root / folder).mkdir(parents=True, exist_ok=True)


def _version(warehouse: Warehouse) -> int | None:
    # An address without a server fails at once.
    written, where = warehouse.store.impatient().get(VERSION_FILE), warehouse.store.uri(VERSION_FILE)
    if written is None:
        return None
    try:
        version = int(json.loads(written)["schema_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadInputError(f"{where}:1: not a warehouse's version file; restore it from a copy") from error
    if version > SCHEMA_VERSION:
        raise BadInputError(
            f"{where}:1: the warehouse has schema version {version}, this trajmill reads up to {SCHEMA_VERSION}; "
            "install a newer trajmill"
        )
    return version


_LOG = logging.getLogger(__name__)
_UPKEEP = " (upkeep)"
"""After the name of a process that only deletes what a run does not need."""
_UPKEEP_SECONDS = 900.0
"""Most seconds that a run waits for upkeep; `vacuum` looks at all files while it has the locks."""
_SECONDS_BETWEEN_LOOKS = 5.0


class RunInUseError(TrajmillError):
    """Another process works on the run."""


class RunInUpkeepError(RunInUseError):
    """Another process deletes what the run does not need, which ends soon."""


@contextmanager
def sole_worker(warehouse: Warehouse, run_id: str, patience: float = 0.0) -> Iterator[None]:
    """Lock a run, after its upkeep. Raises RunInUseError if another process works on it for `patience` seconds."""
    began, is_told = time.monotonic(), False
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(_locked(warehouse, run_id))
                break
            except RunInUseError as error:
                is_upkeep = isinstance(error, RunInUpkeepError)
                left = began + max(patience, _UPKEEP_SECONDS if is_upkeep else 0.0) - time.monotonic()
                if left <= 0:
                    raise
                if is_upkeep and not is_told:
                    _LOG.warning("%s (this process waits, %.0f minutes at most)", error, left / 60)
                    is_told = True
            time.sleep(min(_SECONDS_BETWEEN_LOOKS, left))
        yield


def sole_keeper(warehouse: Warehouse, run_id: str) -> AbstractContextManager[None]:
    """Lock a run to delete what it does not need. Raises RunInUseError at once if a process works on it."""
    return _locked(warehouse, run_id, _UPKEEP)


def worker_of(warehouse: Warehouse, run_id: str) -> str | None:
    process = warehouse.store.holder(_lock(warehouse, run_id))
    return None if process is None or process.endswith(_UPKEEP) else process


def _lock(warehouse: Warehouse, run_id: str) -> str:
    return warehouse.name(warehouse.staging(run_id) / "lock")


@contextmanager
def _locked(warehouse: Warehouse, run_id: str, purpose: str = "") -> Iterator[None]:
    run = f"run {run_id} in {warehouse.address}"
    with ExitStack() as stack:
        try:
            stack.enter_context(warehouse.store.hold(_lock(warehouse, run_id), wait=False, purpose=purpose))
        except HeldError as error:
            process = str(error).removesuffix(_UPKEEP)
            if process != str(error):
                line = f"{run}: process {process} deletes what it does not need; wait for it to end"
                raise RunInUpkeepError(line) from None
            raise RunInUseError(f"{run}: process {process} is at work on it; wait for it to end, or stop it") from None
        if not warehouse.store.is_local:
            # What an earlier process has left on this machine may not be what others have stored since.
            shutil.rmtree(warehouse.staging(run_id), ignore_errors=True)
        yield


def sole_writer(warehouse: Warehouse) -> AbstractContextManager[None]:
    """Wait until no other process commits to the tables, and keep them out."""
    return warehouse.store.hold("tables/_lock", wait=True)
