"""The folders of a warehouse, and its schema version."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.atomic import write_text

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_VERSION_FILE = "warehouse.json"
ONLY_SHARD = "00000"
"""Name of the shard of a stage with only one shard."""


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A warehouse folder; made by `create_warehouse` or `open_warehouse`."""

    root: Path
    """Absolute path of the folder, symbolic links resolved."""

    def table(self, name: str) -> Path:
        """Folder of a Delta table. Raises KeyError for a table that does not exist."""
        if name not in TABLES:
            raise KeyError(name)
        return self.root / "tables" / name

    def staging(self, run_id: str) -> Path:
        """Folder of the journals and markers of a run's stages."""
        return self.root / "staging" / checked_name(run_id)

    def release(self, name: str) -> Path:
        """Folder of a release."""
        return self.root / "releases" / checked_name(name)

    def shards(self, run_id: str) -> Path:
        """Folder of the shards of training rows of a run, which its releases share."""
        return self.root / "shards" / checked_name(run_id)

    def model(self, version: str) -> Path:
        """Folder of a policy version."""
        return self.root / "models" / checked_name(version)

    def run(self, run_id: str) -> Path:
        """Folder of a run's statistics and report."""
        return self.root / "runs" / checked_name(run_id)

    @property
    def database(self) -> Path:
        """The DuckDB file with the views."""
        return self.root / "trajmill.duckdb"


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
        """Unique name within the warehouse, without the attempt."""
        return f"r{self.round:04d}-{self.run_id}-{self.stage}"

    def staging(self, warehouse: Warehouse) -> Path:
        """Folder for the journals and the marker of this stage."""
        suffix = f"-a{self.attempt}" if self.attempt else ""
        return warehouse.staging(self.run_id) / f"r{self.round:04d}-{self.stage}{suffix}"

    def shard_name(self, shard: str = ONLY_SHARD) -> str:
        """File name of one shard, the same in every table and in every try."""
        suffix = f"-a{self.attempt}" if self.attempt else ""
        return f"{self.name}{suffix}-{shard}.parquet"


def create_warehouse(root: Path) -> Warehouse:
    """Open the warehouse at `root`; make it if there is none.

    Raises:
        BadInputError: see `open_warehouse`; or `root` is a file or cannot be made.
    """
    root = _checked_root(root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        version_file = root / _VERSION_FILE
        if not version_file.exists() or _checked_version(version_file) < SCHEMA_VERSION:
            write_text(version_file, json.dumps({"schema_version": SCHEMA_VERSION}) + "\n")
        for folder in ("tables", "staging", "models", "releases", "runs"):
            (root / folder).mkdir(exist_ok=True)
    except OSError as error:
        raise BadInputError(
            f"warehouse {root}: cannot be written ({error.strerror}); choose a folder you can write to"
        ) from error
    return Warehouse(root)


def open_warehouse(root: Path) -> Warehouse:
    """Open an existing warehouse.

    Raises:
        BadInputError: there is no warehouse at `root`, or one of a newer schema version.
    """
    root = _checked_root(root)
    version_file = root / _VERSION_FILE
    if not version_file.is_file():
        raise BadInputError(f"{root} is no warehouse ({_VERSION_FILE} is missing); name the folder that `evolve` wrote")
    _checked_version(version_file)
    return Warehouse(root)


def checked_name(name: str) -> str:
    """The name itself if it is safe as part of a file name.

    Raises:
        BadInputError: it is not.
    """
    if not _NAME.fullmatch(name):
        raise BadInputError(
            f"name {name[:40]!r} cannot be part of a file name; use letters, digits, '.', '_' and '-', at most 100"
        )
    return name


def _checked_root(root: Path) -> Path:
    root = root.resolve()
    if set("%?*[") & set(str(root)):
        # Delta decodes per cent signs; DuckDB takes the others for patterns.
        raise BadInputError(f"warehouse {root}: its path must have none of % ? * [; choose another folder")
    return root


def _checked_version(version_file: Path) -> int:
    try:
        version = int(json.loads(version_file.read_text(encoding="utf-8"))["schema_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadInputError(f"{version_file}:1: not a warehouse's version file; restore it from a copy") from error
    if version > SCHEMA_VERSION:
        raise BadInputError(
            f"{version_file}:1: the warehouse has schema version {version}, this trajmill knows {SCHEMA_VERSION}; "
            "install a newer trajmill"
        )
    return version
